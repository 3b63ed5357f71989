// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// fullStatus returns a status in which every field of an entry says something.
func fullStatus() *v1alpha1.NodeHealthCheckStatus {
	at := func() *metav1.Time { return new(metav1.NewTime(epoch)) }
	return &v1alpha1.NodeHealthCheckStatus{Phase: v1alpha1.PhaseEnabled, UnhealthyNodes: []v1alpha1.UnhealthyNode{{
		Name: "n", ConditionsHealthyTimestamp: at(), HealthyDelayed: new(true), Detected: at(),
		Trigger:  &v1alpha1.Trigger{Type: "Ready", Status: "Unknown", Reason: "NodeStatusUnknown"},
		Decision: &v1alpha1.Decision{Type: "Held", Reason: "Paused", Message: "message", Since: *at(), NextCheckTime: at()},
		Remediations: []v1alpha1.Remediation{{
			Resource: corev1.ObjectReference{Kind: "K", Namespace: "ns", Name: "n", UID: "u", APIVersion: "v", ResourceVersion: "r", FieldPath: "f"},
			Started:  *at(), TimedOut: at(), TemplateName: "template",
		}},
	}}}
}

// TestSameStatus: a field that is not compared would never be written once it alone changes.
func TestSameStatus(t *testing.T) {
	t.Parallel()
	require.True(t, sameStatus(fullStatus(), fullStatus()), "the values count, not the pointers")
	parts := map[string]func(*v1alpha1.NodeHealthCheckStatus) any{
		"entry":       func(s *v1alpha1.NodeHealthCheckStatus) any { return &s.UnhealthyNodes[0] },
		"trigger":     func(s *v1alpha1.NodeHealthCheckStatus) any { return s.UnhealthyNodes[0].Trigger },
		"decision":    func(s *v1alpha1.NodeHealthCheckStatus) any { return s.UnhealthyNodes[0].Decision },
		"remediation": func(s *v1alpha1.NodeHealthCheckStatus) any { return &s.UnhealthyNodes[0].Remediations[0] },
		"resource":    func(s *v1alpha1.NodeHealthCheckStatus) any { return &s.UnhealthyNodes[0].Remediations[0].Resource },
	}
	for name, part := range parts {
		fields := reflect.TypeOf(part(fullStatus())).Elem()
		for i := range fields.NumField() {
			changed := fullStatus()
			field := reflect.ValueOf(part(changed)).Elem().Field(i)
			require.False(t, field.IsZero(), "%s: fullStatus has a %s", name, fields.Field(i).Name)
			field.SetZero()
			require.False(t, sameStatus(fullStatus(), changed), "%s: %s", name, fields.Field(i).Name)
			require.False(t, sameStatus(changed, fullStatus()), "%s: %s", name, fields.Field(i).Name)
		}
	}
	changed := fullStatus()
	changed.Phase = v1alpha1.PhasePaused
	require.False(t, sameStatus(fullStatus(), changed), "all else is compared, too")
	changed = fullStatus()
	changed.UnhealthyNodes = append(changed.UnhealthyNodes, v1alpha1.UnhealthyNode{Name: "o"})
	require.False(t, sameStatus(fullStatus(), changed))
	empty, none := fullStatus(), fullStatus()
	empty.UnhealthyNodes, none.UnhealthyNodes = []v1alpha1.UnhealthyNode{}, nil
	require.True(t, sameStatus(empty, none), "the API has no empty lists")
}
