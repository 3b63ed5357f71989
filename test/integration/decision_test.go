// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestDecisions walks one node through what may be decided about it, and requires that
// status says so.
func TestDecisions(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC(pause("drain the rack"))
	s.eventuallyCounts(2, 2)

	s.fail("a")
	paused := s.eventuallyDecided("a", v1alpha1.DecidedPaused)
	require.Equal(t, v1alpha1.DecisionHeld, paused.Type)
	require.Empty(t, paused.Message, "23b.5: the condition has it")
	allowed := s.eventuallyCondition(v1alpha1.ConditionRemediationAllowed, metav1.ConditionFalse)
	require.Equal(t, string(v1alpha1.DecidedPaused), allowed.Reason, "18.5")
	require.Equal(t, "Paused: drain the rack", allowed.Message)
	require.Nil(t, paused.NextCheckTime)
	entry := s.entry("a")
	require.Equal(t, v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}, v1alpha1.Trigger{Type: entry.Trigger.Type, Status: entry.Trigger.Status})
	require.NotNil(t, entry.Detected)

	s.labelNode("a", map[string]any{v1alpha1.LabelExclude: "true"})
	s.updateNHC(pause())
	excluded := s.eventuallyDecided("a", v1alpha1.DecidedExcluded)
	require.False(t, excluded.Since.Before(&paused.Since))

	s.updateNHC(minHealthy(intstr.FromString("100%")))
	closed := s.eventuallyDecided("a", v1alpha1.DecidedGateClosed)
	require.Empty(t, closed.Message, "23b.5")
	allowed = s.eventuallyCondition(v1alpha1.ConditionRemediationAllowed, metav1.ConditionFalse)
	require.Equal(t, string(v1alpha1.DecidedGateClosed), allowed.Reason)
	require.Equal(t, "1 of 2 nodes are healthy, at least 2 have to be", allowed.Message)
	require.EqualValues(t, 0, *s.status().RemediationsAllowed, "18.5")
	require.EqualValues(t, 1, *s.status().UnhealthyNodeCount, "23")

	s.labelNode("a", map[string]any{v1alpha1.LabelExclude: nil})
	s.updateNHC(minHealthy(intstr.FromInt32(1)))
	running := s.eventuallyDecided("a", v1alpha1.DecidedStepRunning)
	require.Equal(t, v1alpha1.DecisionRemediating, running.Type)
	require.Equal(t, s.kind.name+" "+s.node("a")+" is running", running.Message)
	require.NotNil(t, running.NextCheckTime, "14.7: the lease becomes overdue")
	s.eventuallyCondition(v1alpha1.ConditionRemediationAllowed, metav1.ConditionTrue)
	require.Equal(t, entry.Detected, s.entry("a").Detected, "of the whole episode")

	s.report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
	s.eventuallyDecided("a", v1alpha1.DecidedStepSucceeded)
	s.setFinalizers("a", "test.nhc-controller.io/unfinished")
	s.updateNHC(healthyDelay(time.Hour))
	s.heal("a")
	delayed := s.eventuallyDecided("a", v1alpha1.DecidedHealthyDelay)
	require.Equal(t, v1alpha1.DecisionDelayed, delayed.Type)
	require.Equal(t, s.entry("a").ConditionsHealthyTimestamp.Add(time.Hour), delayed.NextCheckTime.Time)
	s.updateNHC(healthyDelay(0))
	s.eventuallyDecided("a", v1alpha1.DecidedAwaitingDeletion)
	s.setFinalizers("a")
	s.eventually("no entry", func() bool { return s.entry("a") == nil })
}

// TestDecisionCreateFailed: what the API server says is in the decision.
func TestDecisionCreateFailed(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	allow := s.denyCR("a")
	s.fail("a")
	failed := s.eventuallyDecided("a", v1alpha1.DecidedCreateFailed)
	require.Equal(t, v1alpha1.DecisionWaiting, failed.Type)
	require.Contains(t, failed.Message, "exceeded quota")
	attempts := len(s.crRequests("create", "a"))
	before := s.get()
	s.eventually("two more attempts", func() bool { return len(s.crRequests("create", "a")) >= attempts+2 })
	require.Equal(t, before.Status, s.status(), "P3: it is tried again, and told once")
	require.Equal(t, before.ResourceVersion, s.get().ResourceVersion, "P3: nothing is written")
	allow()
	s.eventuallyDecided("a", v1alpha1.DecidedStepRunning)
}
