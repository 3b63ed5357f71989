// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestRemediation follows one node from its failure to its recovery (spec 7, 11,
// 16, 18, 19).
func TestRemediation(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	require.Equal(t, "NHC is enabled, no ongoing remediation", s.status().Reason)
	s.eventuallyEvent("Enabled", "No issues found, NodeHealthCheck is enabled.")

	s.fail("a")
	cr := s.eventuallyCR("a")
	nhc := s.get()
	require.Equal(t, map[string]string{
		v1alpha1.AnnotationNodeName: s.node("a"), v1alpha1.AnnotationTemplateName: s.name,
	}, cr.GetAnnotations(), "11.1")
	require.Equal(t, map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf}, cr.GetLabels(), "11.1")
	require.Equal(t, []metav1.OwnerReference{{
		APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: s.name, UID: nhc.UID, Controller: new(false),
	}}, cr.GetOwnerReferences(), "11.3")
	require.Equal(t, map[string]any{"offSeconds": int64(1)}, cr.Object["spec"], "11.1")
	require.Empty(t, cr.GetFinalizers(), "11.1")

	status := nhc.Status
	require.Equal(t, v1alpha1.PhaseRemediating, status.Phase)
	require.Equal(t, "NHC is remediating 1 nodes", status.Reason)
	require.Len(t, status.UnhealthyNodes, 1, "18.4")
	require.Equal(t, s.node("a"), status.UnhealthyNodes[0].Name)
	require.Equal(t, []v1alpha1.Remediation{{
		Resource: corev1.ObjectReference{
			APIVersion: cr.GetAPIVersion(), Kind: "PowerCycleRemediation", Namespace: s.name, Name: s.node("a"), UID: cr.GetUID(),
		},
		Started:      cr.GetCreationTimestamp(),
		TemplateName: s.name,
	}}, status.UnhealthyNodes[0].Remediations, "18.3")
	require.Equal(t, int32(1), *status.RemediatingNodes)
	s.eventuallyCounts(3, 2)
	detected := `Node matches unhealthy condition. Node "` + s.node("a") + `", condition type "Ready", condition status "Unknown"`
	s.eventuallyEvent("DetectedUnhealthy", detected)
	s.eventuallyEvent("RemediationCreated", "Created remediation object for node "+s.node("a"))

	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(3, 3)
	s.eventuallyNoneListed()
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+s.node("a"))
	for _, reason := range []string{"DetectedUnhealthy", "RemediationCreated", "RemediationRemoved"} {
		s.eventually("the event about the node: "+reason, func() bool { return len(s.eventsAbout("Node", s.node("a"), reason)) > 0 })
		require.Len(t, s.events(reason), 1, "19.1: once")
		require.Len(t, s.eventsAbout("Node", s.node("a"), reason), 1, "19.1: on the Node too, once")
	}
}
