// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// prepareTakeOver leaves what the upstream operator leaves when it is replaced: a CR
// with a generated name, and the status that says so. It returns what to check once
// the controller runs (spec 1.1, P8, 18.2).
func prepareTakeOver(t *testing.T, c *cluster) (check func()) {
	t.Helper()
	s, steps := newRealScenario(t, c, "far", "mdr")
	far, mdr := steps[0], steps[1]
	s.createNodes("a", "b")
	s.fail("a")
	nhc, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(escalatingSteps(steps)), metav1.CreateOptions{})
	require.NoError(t, err)
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"agent": "fence_dummy"}}}
	cr.SetGroupVersionKind(far.kind.remediations.GroupVersion().WithKind(far.kind.name))
	cr.SetGenerateName(s.node("a") + "-")
	cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: s.node("a"), v1alpha1.AnnotationTemplateName: far.template.GetName()})
	cr.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	cr.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc.Name, UID: nhc.UID, Controller: new(false)}})
	cr, err = far.crClient().Create(t.Context(), cr, metav1.CreateOptions{FieldManager: "manager"})
	require.NoError(t, err)
	nhc.Status = v1alpha1.NodeHealthCheckStatus{
		ObservedNodes: new(int32(2)), HealthyNodes: new(int32(1)), Phase: v1alpha1.PhaseRemediating, Reason: "NHC is remediating 1 nodes",
		LastUpdateTime: new(metav1.Now().Rfc3339Copy()),
		UnhealthyNodes: []v1alpha1.UnhealthyNode{{Name: s.node("a"), Remediations: []v1alpha1.Remediation{{
			Resource: corev1.ObjectReference{APIVersion: cr.GetAPIVersion(), Kind: cr.GetKind(), Namespace: cr.GetNamespace(), Name: cr.GetName(), UID: cr.GetUID()},
			Started:  cr.GetCreationTimestamp(), TemplateName: far.template.GetName(),
		}}}},
	}
	_, err = s.nhc.RemediationV1alpha1().NodeHealthChecks().UpdateStatus(t.Context(), nhc, metav1.UpdateOptions{FieldManager: "manager"})
	require.NoError(t, err)
	return func() {
		t.Helper()
		s.eventually("the controller has taken over", func() bool { return s.status().ObservedGeneration > 0 })
		require.Equal(t, cr.GetUID(), far.eventuallyCROf("a").GetUID(), "P8")
		require.Len(t, far.crs(), 1, "P8: nothing is repeated")
		require.Equal(t, cr.GetResourceVersion(), far.crs()[0].GetResourceVersion(), "11.2")
		s.patch(far.crClient(), cr.GetName(), realConditions([2]string{v1alpha1.RemediationSucceeded, "False"}), "status")
		mdr.eventuallyCROf("a")
		s.requireTimedOut(far.crOf("a"))
		s.heal("a")
		far.eventuallyGone("a")
		s.eventuallyCounts(2, 2)
		s.eventuallyNoneListed() // 18.2: also not what another manager had written.
		require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
		s.fail("b")
		far.eventuallyCROf("b")
		s.heal("b")
		far.eventuallyGone("b")
	}
}
