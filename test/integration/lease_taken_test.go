// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestLeaseTaken: another operator works on the node (spec 14.3). TestLeaseForFirstCR has all holders and times.
func TestLeaseTaken(t *testing.T) {
	t.Parallel()
	t.Run("14.3-until-deleted", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		lease := s.createNodeLease("a")
		s.fail("a")
		s.requireRefusedByLease("a")
		require.Equal(t, lease.ResourceVersion, s.nodeLease("a").ResourceVersion, "14.3")
		require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase, "18.1")
		// Its holder works on, which is nothing to tell of.
		s.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now())})
		s.requireRefusedByLease("a")
		require.NoError(t, s.nodeLeases().Delete(t.Context(), s.nodeLeaseName("a"), metav1.DeleteOptions{}))
		s.eventuallyCR("a")
		require.Equal(t, "NodeHealthCheck-"+s.name, *s.nodeLease("a").Spec.HolderIdentity)
		require.Len(t, s.eventsAbout("Node", s.node("a"), "RemediationSkipped"), 1)
	})
	t.Run("14.3-until-time-is-up", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		theirs := s.createNodeLease("a", func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = new(int32(80)) }) // 60 s of these are over.
		s.fail("a")
		s.eventuallyEvent("RemediationSkipped", s.leaseTaken("a"))
		cr := s.eventuallyCR("a")
		lease := s.nodeLease("a")
		s.requireLease(lease, "a", 660*time.Second, 4)
		require.False(t, cr.GetCreationTimestamp().Time.Before(lease.Spec.AcquireTime.Time))
		require.Equal(t, []string{s.leaseTaken("a")}, s.events("RemediationSkipped"))
		s.eventuallyEvent("LeaseTakenOver", fmt.Sprintf("Took over the lease of node %s from %s, which held it until %s",
			s.node("a"), *theirs.Spec.HolderIdentity, theirs.Spec.RenewTime.Add(80*time.Second).UTC().Format(time.RFC3339))) // FR-324.
		s.eventually("the event about the Node", func() bool { return len(s.eventsAbout("Node", s.node("a"), "LeaseTakenOver")) == 1 })
	})
}

// TestLeaseOfTwoNodeHealthChecks: two that select the same nodes, with templates of
// different kinds, and nodes that fail at the same time (spec 11.5, 14.2).
func TestLeaseOfTwoNodeHealthChecks(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 1)
	other := newEmptyScenario(t, l.cluster, t.Name()+"/other", powerCycle)
	other.createTemplate(usualTemplate())
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	l.createNodes(names...)
	l.createNHC(l.escalation())
	other.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: l.name}}
	})
	for _, name := range names {
		l.fail(name)
	}
	// theirs reports whether the other one has a CR for a node of the first.
	theirs := func(name string) bool {
		_, err := other.crClient().Get(t.Context(), l.node(name), metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
		return err == nil
	}
	entries := func(s *scenario) map[string]int {
		listed := map[string]int{}
		for _, entry := range s.status().UnhealthyNodes {
			listed[entry.Name] = len(entry.Remediations)
		}
		return listed
	}
	l.eventually("every node is listed by both, and remediated by one", func() bool {
		ours, others := entries(l.scenario), entries(other)
		for _, name := range names {
			if len(ours) != len(names) || len(others) != len(names) || ours[l.node(name)]+others[l.node(name)] != 1 {
				return false
			}
		}
		return true
	})
	for _, name := range names {
		require.NotEqual(t, l.cr(name) != nil, theirs(name), "11.5: one or the other")
		winner, loser := l.scenario, other
		if theirs(name) {
			winner, loser = other, l.scenario
		}
		require.Equal(t, "NodeHealthCheck-"+winner.name, *l.nodeLease(name).Spec.HolderIdentity)
		loser.eventuallyEvent("RemediationSkipped", l.leaseTaken(name))
		require.NotContains(t, winner.events("RemediationSkipped"), l.leaseTaken(name))
	}
	for _, name := range names {
		l.heal(name)
	}
	l.eventually("all is over", func() bool { return len(entries(l.scenario)) == 0 && len(entries(other)) == 0 })
	for _, name := range names {
		l.eventuallyNoNodeLease(name)
	}
	created := slices.Concat(l.creationAttempts(), l.requests(func(r localkube.Request) bool {
		return r.Verb == "create" && r.Resource == powerCycle.remediations.Resource && r.Namespace == other.name
	}))
	require.Len(t, created, len(names), "11.5: the loser did not even try")
}
