// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestForeignCR: a CR of somebody else that stands for the node blocks it, and is
// left alone (spec 11.4, 16.1). TestPlanBlockedByForeignCR has all that may stand in the way.
func TestForeignCR(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.eventuallyCounts(2, 2)
	foreign := s.createForeignCR(s.node("a"), nil)
	s.catchUp()
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.eventuallyCounts(2, 1)
	s.catchUp()
	require.Equal(t, map[string]int{"a": 0}, s.listed(), "11.4: listed without remediations")
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	require.Len(t, s.crs(), 1)
	require.Empty(t, s.crRequests("create", "a"), "11.4: this is no error that is tried again and again")

	s.heal("a")
	s.eventuallyCounts(2, 2)
	s.catchUp()
	untouched, err := s.crClient().Get(t.Context(), foreign.GetName(), metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, foreign.GetResourceVersion(), untouched.GetResourceVersion(), "16.1: foreign CRs stay")

	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.patch(s.crClient(), foreign.GetName(), metadataPatch("finalizers", nil))
	require.NoError(t, s.crClient().Delete(t.Context(), foreign.GetName(), metav1.DeleteOptions{}))
	s.requireOnly("a", s.eventuallyCR("a"))
	s.requireRequests("create", "a", 1)
	s.requireEvents("Node", s.node("a"), "RemediationCreated", 1)
}

// TestForeignCRThatIsAdopted: another owner reference makes a CR an own one, and
// its removal a foreign one (spec 1.4).
func TestForeignCRThatIsAdopted(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a")
	s.createNHC()
	foreign := s.createForeignCR(s.node("a"), nil)
	s.catchUp()
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	owner := metav1.OwnerReference{APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: s.name, UID: s.get().UID}
	s.patch(s.crClient(), foreign.GetName(), map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{owner}}})
	s.requireOnly("a", s.eventuallyCR("a"))
	require.Equal(t, foreign.GetUID(), s.cr("a").GetUID())
	s.patch(s.crClient(), foreign.GetName(), metadataPatch("ownerReferences", nil))
	s.eventuallyListed(map[string]int{"a": 0})
	s.heal("a")
	s.eventuallyCounts(1, 1)
	s.catchUp()
	require.NotNil(t, s.cr("a"), "16.1: it is foreign again")
	require.Empty(t, s.crRequests("create", "a"))
}

// TestCRDeletedByOthers: the step gets a new CR, and status describes that one
// (spec 11.6, 13.8, 18.3).
func TestCRDeletedByOthers(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a")
	s.createNHC()
	s.fail("a")
	first := s.eventuallyCR("a")
	s.deleteCR("a")
	s.eventually("a new CR", func() bool { cr := s.cr("a"); return cr != nil && cr.GetUID() != first.GetUID() })
	second := s.eventuallyCR("a")
	s.requireOnly("a", second)

	s.setFinalizers("a", hold)
	s.deleteCR("a")
	marked := s.eventuallyTimedOut("a")
	require.Equal(t, second.GetUID(), marked.GetUID())
	s.catchUp()
	s.requireOnly("a", second)
	s.eventuallyCounts(1, 0)
	s.requireRequests("create", "a", 2, "P9")
	s.setFinalizers("a")
	s.eventually("a third CR", func() bool { cr := s.cr("a"); return cr != nil && cr.GetUID() != second.GetUID() })
	s.requireOnly("a", s.eventuallyCR("a"))
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(1, 1)
	s.requireRequests("create", "a", 3)
	s.requireRequests("patch", "a", 1)
	s.requireRequests("delete", "a", 1, "only at recovery")
	s.requireEvents("Node", s.node("a"), "DetectedUnhealthy", 1, "19.1")
	s.requireEvents("Node", s.node("a"), "RemediationRemoved", 1, "19.1: for each request issued")
}

// TestCRChangedByOthers: the controller neither undoes changes of others to a CR nor
// fails because of them (spec 1.4, 11.2, 13.8).
func TestCRChangedByOthers(t *testing.T) {
	t.Parallel()
	t.Run("11.2-nothing-is-undone", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		s.annotateCR("a", map[string]any{v1alpha1.AnnotationNodeName: nil, v1alpha1.AnnotationTemplateName: nil, "other": "1"})
		s.patch(s.crClient(), s.node("a"), map[string]any{
			"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelPartOf: nil, "other": "1"}}, "spec": map[string]any{"offSeconds": 7},
		})
		s.catchUp()
		// Without annotations it is that of the node it is named like.
		s.requireOnly("a", cr)
		now := s.cr("a")
		require.Equal(t, map[string]string{"other": "1"}, now.GetAnnotations())
		require.Equal(t, map[string]string{"other": "1"}, now.GetLabels())
		require.Equal(t, map[string]any{"offSeconds": int64(7)}, now.Object["spec"])
		s.heal("a")
		s.eventuallyNoCR("a")
		s.eventuallyCounts(1, 1)
		s.requireRequests("create", "a", 1)
	})
	t.Run("1.4-annotation-of-another-node", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a", "b")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		// It is now the CR of a healthy node, and node a needs its name.
		s.annotateCR("a", map[string]any{v1alpha1.AnnotationNodeName: s.node("b")})
		s.eventually("a new CR", func() bool { now := s.cr("a"); return now != nil && now.GetUID() != cr.GetUID() })
		s.requireOnly("a", s.eventuallyCR("a"))
		s.eventuallyListed(map[string]int{"a": 1})
		s.eventuallyCounts(2, 1)
	})
}

// TestTwoNodeHealthChecks select one node, with templates of their own: one of them remediates, and the other one when
// that has given up (spec 5.4, 11.5, 14.3, 14.9).
func TestTwoNodeHealthChecks(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	other := s.second(t)
	s.createNodes("a", "b")
	s.createNHC()
	other.createTemplate(usualTemplate())
	other.createNHC(s.selection)
	other.eventuallyCounts(2, 2)
	s.fail("a")
	s.eventually("both list the node, one of them with a CR", func() bool {
		return len(s.status().UnhealthyNodes) == 1 && len(other.status().UnhealthyNodes) == 1 &&
			*s.status().RemediatingNodes+*other.status().RemediatingNodes == 1
	})
	winner, loser := s, other
	if *other.status().RemediatingNodes == 1 {
		winner, loser = other, s
	}
	owner := func() string {
		crs := append(s.crs(), other.crs()...)
		if len(crs) != 1 {
			return ""
		}
		return crs[0].GetOwnerReferences()[0].Name
	}
	require.Equal(t, winner.name, owner())
	require.Empty(t, loser.status().UnhealthyNodes[0].Remediations, "11.5: listed without remediations")
	require.Equal(t, v1alpha1.PhaseEnabled, loser.status().Phase)
	loser.eventuallyCounts(2, 1)
	loser.eventuallyEvent("RemediationSkipped", "Skipped remediation of node: "+s.node("a")+", because node lease is already taken")

	// Without a CR of the winner, who may not create another one, it is free.
	winner.updateNHC(pause("to let the other one try"))
	resource := winner.status().UnhealthyNodes[0].Remediations[0].Resource
	require.NoError(t, s.dynamic.Resource(s.kind.remediations).Namespace(resource.Namespace).Delete(t.Context(), resource.Name, metav1.DeleteOptions{}))
	loser.eventually("the other one remediates", func() bool { return *loser.status().RemediatingNodes == 1 })
	require.Equal(t, loser.name, owner())
	s.heal("a")
	s.eventuallyCounts(2, 2)
	other.eventuallyCounts(2, 2)
	require.Empty(t, owner())
	require.Empty(t, s.listed())
	require.Empty(t, other.status().UnhealthyNodes)
}

// second returns a scenario for another NodeHealthCheck.
func (s *scenario) second(t *testing.T) *scenario {
	t.Helper()
	return newEmptyScenario(t, s.cluster, t.Name()+"/second", s.kind)
}

// selection selects the nodes of the scenario, for a NodeHealthCheck of another.
func (s *scenario) selection(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}
}
