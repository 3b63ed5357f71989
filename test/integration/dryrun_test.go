// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

func mode(mode v1alpha1.Mode) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.Mode = mode }
}

// writesButReports returns what the controller has written for a scenario, but status and
// events.
func (s *scenario) writesButReports() []localkube.Request {
	s.t.Helper()
	names := []string{s.name}
	for _, node := range []string{"a", "b", "c"} {
		names = append(names, s.node(node), s.nodeLeaseName(node))
	}
	return s.requests(func(r localkube.Request) bool {
		about := r.Namespace == s.name
		for _, name := range names {
			about = about || r.Name == name
		}
		return about && isWrite(r) && r.Resource != "events" && (r.Resource != v1alpha1.Plural || r.Subresource != "status")
	})
}

// TestDryRun: everything is evaluated and reported, and nothing begins until it is enforced
// (spec 5.5, 5.6, 5.8).
func TestDryRun(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c")
	s.createNHC(mode(v1alpha1.ModeDryRun))
	s.fail("a")
	decision := s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
	require.Equal(t, v1alpha1.DecisionHeld, decision.Type)
	require.Equal(t, "Would create PowerCycleRemediation "+s.name+"/"+s.node("a"), decision.Message)
	s.eventuallyEvent("RemediationSkipped", "Dry run: would create PowerCycleRemediation "+s.node("a")+" for node "+s.node("a"))
	s.eventuallyCounts(3, 2)
	require.NotNil(t, s.episode("a").Started, "5.8: when it would have begun")

	s.updateNHC(minHealthy(intstr.FromString("100%")))
	s.eventuallyDecided("a", v1alpha1.DecidedGateClosed) // 5.6: what else is in the way comes first.
	s.updateNHC(minHealthy(intstr.FromInt32(0)))
	s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
	s.confirm("b", "")
	s.heal("a")
	ended := s.eventuallyFinished("a", v1alpha1.OutcomeDryRun)
	require.Empty(t, ended.Steps)
	require.Nil(t, ended.Released, "nothing was held")
	s.fail("c")
	s.eventuallyDecided("c", v1alpha1.DecidedDryRun)
	require.Empty(t, s.writesButReports(), "5.5: neither CR, Lease nor Node")
	require.True(t, s.confirmed("b"), "5.5: no Node is changed")

	s.updateNHC(mode(v1alpha1.ModeEnforce))
	s.eventuallyCR("c")
	s.heal("c")
	s.eventuallyNoCR("c")
	s.eventuallyFinished("c", v1alpha1.OutcomeRecovered)
	s.eventually("the confirmation is removed", func() bool { return !s.confirmed("b") })
}

// TestDryRunFlag: the flag makes it a dry run of all NodeHealthChecks (spec 5.5).
func TestDryRunFlag(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startController(t, "dry-run", "--leader-elect=false", "--dry-run")
	s := newScenario(t, c)
	s.createNodes("a", "b")
	s.createNHC(mode(v1alpha1.ModeEnforce))
	s.fail("a")
	s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
	require.Empty(t, s.writesButReports())
}

// TestDryRunIsWoken: a node that would be remediated waits for a budget as soon as another remediation takes
// its place, and would be remediated after that (spec 5.6, P2). No other event is about the node.
func TestDryRunIsWoken(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	other := newEmptyScenario(t, s.cluster, t.Name()+"/other", powerCycle)
	other.createTemplate(usualTemplate())
	s.createNodes("a", "b")
	s.createBudget(maxConcurrent(1))
	s.createNHC(mode(v1alpha1.ModeDryRun), func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}}
	})
	other.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]string{scenarioLabel: s.name}
	})
	s.setCondition("a", corev1.NodeDiskPressure, corev1.ConditionTrue, time.Now())
	s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
	s.fail("b")
	require.Contains(t, s.eventuallyDecided("a", v1alpha1.DecidedBudgetExhausted).Message, "1 of at most 1 nodes are under remediation")
	s.heal("b")
	s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
	require.Empty(t, s.crs())
}
