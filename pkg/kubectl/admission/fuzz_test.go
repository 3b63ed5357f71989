// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
)

// FuzzCreate: there is an answer to any object of our kinds. An accepted object can be read and
// linted.
func FuzzCreate(f *testing.F) {
	for _, seed := range []string{nodeHealthCheck, machineHealthCheck, `{apiVersion: nhc-controller.io/v1alpha1, kind: RemediationBudget, metadata: {name: a}, spec: {nodeSelector: {}, maxConcurrent: 1}}`} {
		content, err := yaml.YAMLToJSON([]byte(seed))
		require.NoError(f, err)
		f.Add(content)
	}
	f.Add([]byte(`{"apiVersion":"remediation.medik8s.io/v1alpha1","kind":"NodeHealthCheck","metadata":[],"spec":null}`))
	f.Add([]byte(`{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineHealthCheck","metadata":{"annotations":3},"spec":[]}`))
	rules, err := Shipped()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, content []byte) {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(content, &object.Object); err != nil {
			return
		}
		if _, known := rules.kinds[object.GroupVersionKind().GroupKind()]; !known {
			return
		}
		answer, err := rules.Create(t.Context(), object)
		require.NoError(t, err)
		if len(answer.Causes) > 0 {
			return
		}
		accepted, err := lint.NewAccepted(answer.Object)
		require.NoError(t, err)
		lint.NewReport([]lint.Object{{Accepted: accepted}}, &lint.Facts{})
	})
}
