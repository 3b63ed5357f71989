// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	applyv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/generated/applyconfiguration/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
)

func TestModelsAreComplete(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(&out))
	var document spec.Swagger
	require.NoError(t, json.Unmarshal(out.Bytes(), &document))

	require.Contains(t, document.Definitions, v1alpha1.NodeHealthCheck{}.OpenAPIModelName())
	reference := document.Definitions[corev1.ObjectReference{}.OpenAPIModelName()]
	require.Len(t, reference.Properties, 7)
	require.Contains(t, reference.Properties, "apiVersion")
}

// What the models are for: the fake client merges an applied status by the list
// types of the API, as the API server does.
func TestFakeClientAppliesStatus(t *testing.T) {
	t.Parallel()
	stored := &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "workers"},
		Spec:       v1alpha1.NodeHealthCheckSpec{RemediationTemplate: &corev1.ObjectReference{Name: "kept"}},
	}
	client := fake.NewClientset(stored).RemediationV1alpha1().NodeHealthChecks()
	apply := func(manager string, status *applyv1alpha1.NodeHealthCheckStatusApplyConfiguration) *v1alpha1.NodeHealthCheck {
		nhc, err := client.ApplyStatus(t.Context(), applyv1alpha1.NodeHealthCheck("workers").WithStatus(status), metav1.ApplyOptions{FieldManager: manager})
		require.NoError(t, err)
		return nhc
	}
	started := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	apply("one", applyv1alpha1.NodeHealthCheckStatus().WithObservedNodes(0).WithUnhealthyNodes(applyv1alpha1.UnhealthyNode().WithName("a").
		WithRemediations(applyv1alpha1.Remediation().WithStarted(started).WithResource(corev1.ObjectReference{Name: "a"}))))
	nhc := apply("two", applyv1alpha1.NodeHealthCheckStatus().WithUnhealthyNodes(applyv1alpha1.UnhealthyNode().WithName("b")))

	require.Equal(t, stored.Spec, nhc.Spec)
	require.Equal(t, new(int32(0)), nhc.Status.ObservedNodes, "zero is not absent")
	require.Len(t, nhc.Status.UnhealthyNodes, 2, "a list by name")
	require.Equal(t, "a", nhc.Status.UnhealthyNodes[0].Remediations[0].Resource.Name)
	require.True(t, started.Equal(&nhc.Status.UnhealthyNodes[0].Remediations[0].Started))

	nhc = apply("one", applyv1alpha1.NodeHealthCheckStatus())
	require.Nil(t, nhc.Status.ObservedNodes, "what is not applied any more goes")
	require.Equal(t, []v1alpha1.UnhealthyNode{{Name: "b"}}, nhc.Status.UnhealthyNodes)
}
