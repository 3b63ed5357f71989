// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

func stormThreshold(n int32) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.StormRecoveryThreshold = &n }
}

func stormCooldown(d time.Duration) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.StormCooldownDuration = &metav1.Duration{Duration: d}
	}
}

func noStorm(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.StormRecoveryThreshold, spec.StormCooldownDuration = nil, nil
}

// condition returns a condition of the NodeHealthCheck, the zero value if there is none.
func (s *scenario) condition(conditionType string) metav1.Condition {
	if found := meta.FindStatusCondition(s.status().Conditions, conditionType); found != nil {
		return *found
	}
	return metav1.Condition{}
}

func (s *scenario) eventuallyCondition(conditionType string, status metav1.ConditionStatus) metav1.Condition {
	s.t.Helper()
	s.eventually(fmt.Sprintf("condition %s=%s", conditionType, status), func() bool { return s.condition(conditionType).Status == status })
	return s.condition(conditionType)
}

// eventuallyDecided waits until the decision on a node has a reason, and returns it.
func (s *scenario) eventuallyDecided(name string, reason v1alpha1.DecisionReason) *v1alpha1.Decision {
	s.t.Helper()
	var decision *v1alpha1.Decision
	s.eventually("the decision "+string(reason)+" on node "+name, func() bool {
		entry := s.entry(name)
		if entry == nil || entry.Decision == nil || entry.Decision.Reason != reason {
			return false
		}
		decision = entry.Decision
		return true
	})
	return decision
}

// nodeNames returns n names.
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%02d", i)
	}
	return names
}

// TestStormExample is the example of spec 9: 20 nodes, minHealthy 11, threshold 5.
func TestStormExample(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	names := nodeNames(20)
	s.createNodes(names...)
	for _, name := range names[:9] {
		s.fail(name)
	}
	s.createNHC(minHealthy(intstr.FromInt32(11)), stormThreshold(5), pause("to see them together"))
	s.eventuallyCounts(20, 11)
	require.Empty(t, s.condition(v1alpha1.ConditionStormActive), "9.8: absent before the first storm")
	s.updateNHC(pause())

	s.eventuallyCondition(v1alpha1.ConditionStormActive, metav1.ConditionTrue)
	require.Len(t, s.crs(), 9, "9.2: to reach the maximum suffices")
	require.True(t, *s.status().StormRecoveryActive, "9.9")
	require.NotNil(t, s.status().StormRecoveryStartTime, "9.9")
	require.Empty(t, s.condition(v1alpha1.ConditionStormCooldownActive), "9.8: only with cooldown")

	s.fail(names[9])
	s.fail(names[10])
	s.eventuallyCounts(20, 9)
	s.eventuallyDecided(names[10], v1alpha1.DecidedGateClosed)
	require.Len(t, s.crs(), 9, "with 11 unhealthy there are still 9 CRs")

	for _, name := range names[:5] {
		s.heal(name)
	}
	s.eventuallyCounts(20, 14)
	s.eventuallyDecided(names[10], v1alpha1.DecidedStormActive)
	require.Len(t, s.crs(), 4, "9.6: CRs of recovered nodes are deleted, and at 14 healthy nothing is created")
	s.eventuallyEvent("RemediationSkipped", "Storm recovery active: skipping creation of new remediations")

	s.heal(names[5])
	s.eventuallyCondition(v1alpha1.ConditionStormActive, metav1.ConditionFalse)
	s.eventuallyListed(map[string]int{names[6]: 1, names[7]: 1, names[8]: 1, names[9]: 1, names[10]: 1})
	require.False(t, *s.status().StormRecoveryActive)
	require.Nil(t, s.status().StormRecoveryStartTime, "9.9")
	s.eventuallyEvent("StormRecoveryEnded", "Storm recovery mode deactivated - normal remediation resumed")
	s.requireEvents(v1alpha1.Kind, s.name, "StormRecoveryStarted", 1)
	s.requireEvents(v1alpha1.Kind, s.name, "StormRecoveryEnded", 1)
	for _, name := range names[:11] {
		s.requireRequests("create", name, 1, "9.7")
	}
}

// TestStormRestart: a storm and its cooldown outlive the process (P8).
func TestStormRestart(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	first := c.startController(t, "storm-1", "--leader-elect=false")
	s.createNodes("a", "b", "c")
	s.createNHC(maxUnhealthy(intstr.FromInt32(1)), stormCooldown(time.Hour), pause("to see them together"))
	s.fail("a")
	s.fail("b")
	start := s.eventuallyCondition(v1alpha1.ConditionStormActive, metav1.ConditionTrue)
	s.updateNHC(pause())
	s.heal("b")
	begun := s.eventuallyCondition(v1alpha1.ConditionStormCooldownActive, metav1.ConditionTrue)
	require.NoError(t, first.Kill())
	require.Empty(t, s.crs())

	c.startController(t, "storm-2", "--leader-elect=false")
	s.createNodes("d")
	s.eventuallyCounts(4, 3)
	active, cooldown := s.condition(v1alpha1.ConditionStormActive), s.condition(v1alpha1.ConditionStormCooldownActive)
	require.Equal(t, metav1.ConditionTrue, active.Status)
	require.Equal(t, start.LastTransitionTime, active.LastTransitionTime, "it is the same storm")
	require.Equal(t, metav1.ConditionTrue, cooldown.Status)
	require.Equal(t, begun.LastTransitionTime, cooldown.LastTransitionTime, "P11: the cooldown goes on")
	require.Empty(t, s.crs())
	calm := time.Since(begun.LastTransitionTime.Time).Truncate(time.Second) + 4*time.Second
	s.updateNHC(stormCooldown(calm))
	cr := s.eventuallyCR("a")
	require.False(t, cr.GetCreationTimestamp().Time.Before(begun.LastTransitionTime.Add(calm)))
	s.eventuallyCondition(v1alpha1.ConditionStormActive, metav1.ConditionFalse)
	s.requireEvents(v1alpha1.Kind, s.name, "StormRecoveryStarted", 1)
}

// TestStormWithoutStatus: a storm has begun, and goes on while its status cannot be written (spec 9.5).
func TestStormWithoutStatus(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startController(t, "storm-without-status", "--leader-elect=false")
	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC(minHealthy(intstr.FromInt32(2)), stormCooldown(time.Hour))
	s.eventuallyCounts(3, 3)
	allow := s.denyStatus()
	refused := func() int {
		return len(s.requests(func(r localkube.Request) bool {
			return r.Verb == "update" && r.Resource == v1alpha1.Plural && r.Subresource == "status" && r.Name == s.name && r.Code >= 400
		}))
	}
	s.fail("a")
	s.fail("b")
	s.eventually("the storm could not be written", func() bool { return refused() > 2 })
	s.heal("a")
	before := refused()
	s.eventually("the gate is open again", func() bool { return refused() > before+1 })
	require.Empty(t, s.crs(), "9.6")
	allow()
	s.eventuallyCondition(v1alpha1.ConditionStormActive, metav1.ConditionTrue)
	s.eventuallyDecided("b", v1alpha1.DecidedStormActive)
	require.Empty(t, s.crs(), "9.6")
	s.updateNHC(noStorm)
	s.eventuallyCR("b")
}
