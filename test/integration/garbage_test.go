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

// addOwner gives a CR a further owner.
func (s *scenario) addOwner(cr *unstructured.Unstructured) {
	s.t.Helper()
	further, err := s.kube.CoreV1().ConfigMaps(s.name).Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	owners := append(cr.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: further.Name, UID: further.UID})
	s.patch(s.crClient(), cr.GetName(), map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
}

// TestSharedCRs: garbage collection only takes the reference to a NodeHealthCheck that is gone away from a CR that has
// a further owner. Then the controller deletes it (spec 4.8), unless dependents are to be orphaned.
func TestSharedCRs(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]metav1.DeletionPropagation{
		"4.8 deleted": metav1.DeletePropagationBackground, "4.8 orphaned": metav1.DeletePropagationOrphan,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a", "b")
			s.createNHC()
			s.fail("a")
			s.addOwner(s.eventuallyCR("a"))
			s.catchUp()
			s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
				metadataPatch("annotations", map[string]any{v1alpha1.AnnotationAllowDelete: ""}))
			require.NoError(t, s.nhc.RemediationV1alpha1().NodeHealthChecks().Delete(t.Context(), s.name, metav1.DeleteOptions{PropagationPolicy: &policy}))
			if policy == metav1.DeletePropagationBackground {
				s.eventually("the CR is gone", func() bool { return s.cr("a") == nil })
				return
			}
			s.eventually("the CR is orphaned", func() bool { return len(s.cr("a").GetOwnerReferences()) == 1 })
			s.requireRequests("delete", "a", 0)
		})
	}
}
