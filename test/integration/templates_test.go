// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// templateMissing is the message for a template that does not exist.
func (s *scenario) templateMissing() string {
	return fmt.Sprintf("Remediation template not found: there is no %sTemplate %s/%s", s.kind.name, s.name, s.name)
}

// requireDisabled requires that condition, phase and event tell of this problem.
func (s *scenario) requireDisabled(reason, message string) {
	s.t.Helper()
	status := s.status()
	require.Equal(s.t, v1alpha1.PhaseDisabled, status.Phase)
	require.Equal(s.t, "NHC is disabled: "+reason+": "+message, status.Reason, "18.1")
	condition := s.disabled()
	require.Equal(s.t, metav1.ConditionTrue, condition.Status)
	require.Equal(s.t, reason, condition.Reason)
	require.Equal(s.t, message, condition.Message)
	require.Equal(s.t, s.get().Generation, condition.ObservedGeneration, "18.5")
	s.eventuallyEvent("Disabled", "Disabling NHC. Reason: "+reason+", Message: "+message)
}

// requireEnabled waits until the NodeHealthCheck is enabled, and checks how.
func (s *scenario) requireEnabled() {
	s.t.Helper()
	s.eventuallyEnabled()
	condition := s.disabled()
	require.Equal(s.t, "NodeHealthCheckEnabled", condition.Reason, "6.2")
	require.Equal(s.t, "No issues found, NodeHealthCheck is enabled.", condition.Message, "6.2")
	s.eventuallyEvent("Enabled", "No issues found, NodeHealthCheck is enabled.")
}

// TestClusterScopedKinds: kinds may be cluster-scoped, but then both (spec 6.1,
// 11.1).
func TestClusterScopedKinds(t *testing.T) {
	t.Parallel()
	for name, namespace := range map[string]string{"without namespace": "", "with a namespace that means nothing": "default"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRepairScenario(t, sharedCluster(t), "")
			s.kind.clusterScoped = true
			s.installAll()
			s.createNodes("a", "b")
			s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate.Namespace = namespace })
			s.requireEnabled()
			s.fail("a")
			cr := s.eventuallyCR("a")
			require.Empty(t, cr.GetNamespace())
			require.Equal(t, s.node("a"), cr.GetName())
			s.requireOnly("a", cr)
			preferred := corev1.ObjectReference{APIVersion: s.kind.remediations.Group + "/v1", Kind: cr.GetKind(), Name: cr.GetName(), UID: cr.GetUID()}
			s.eventually("status names it in the version that is preferred (6.8, 18.3)", func() bool { // Discovery may be late.
				entry := s.entry("a")
				return entry != nil && len(entry.Remediations) == 1 && entry.Remediations[0].Resource == preferred
			})
			s.deleteCR("a")
			s.eventually("a new CR", func() bool { now := s.cr("a"); return now != nil && now.GetUID() != cr.GetUID() })
			s.heal("a")
			s.eventuallyNoCR("a")
			s.eventuallyCounts(2, 2)
			s.deleteTemplate()
			s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
			require.Empty(t, s.listed())
		})
	}
	t.Run("6.1-one-of-the-two", func(t *testing.T) {
		t.Parallel()
		s := newRepairScenario(t, sharedCluster(t), "")
		s.grant(s.kind.templates, templateVerbs...)
		s.grant(s.kind.remediations, remediationVerbs...)
		s.install(s.kind.templates)
		s.createTemplate(usualTemplate())
		s.kind.clusterScoped = true
		s.install(s.kind.remediations)
		s.createNodes("a")
		s.fail("a")
		s.createNHC()
		s.eventuallyDisabled(v1alpha1.ReasonTemplateInvalid)
		s.requireDisabled(v1alpha1.ReasonTemplateInvalid, `Remediation template is invalid: "kinds RepairTemplate and Repair must both be namespaced or both be cluster-scoped"`)
		s.eventuallyListed(map[string]int{"a": 0})
	})
}
