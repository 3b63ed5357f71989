// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
)

// TestSimulateAgreesWithController: the controller does what the simulation showed before the
// NodeHealthCheck was applied.
func TestSimulateAgreesWithController(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t) // Other NodeHealthChecks would be simulated, too.
	c.startController(t, "simulate")
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.NodeHealthCheckSpec)
		budget func(*nhcv1alpha1.RemediationBudgetSpec)
	}{
		{name: "all-begin", change: maxUnhealthy(intstr.FromString("100%"))},
		{name: "gate", change: maxUnhealthy(intstr.FromInt32(2))},
		{name: "storm", change: func(spec *v1alpha1.NodeHealthCheckSpec) {
			maxUnhealthy(intstr.FromInt32(4))(spec)
			spec.StormRecoveryThreshold = new(int32(2))
		}},
		{name: "dry-run", change: func(spec *v1alpha1.NodeHealthCheckSpec) { spec.Mode = v1alpha1.ModeDryRun }},
		{name: "budget", change: maxUnhealthy(intstr.FromInt32(4)), budget: maxConcurrent(1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, c)
			viewer := s.newUser("nhc-view", "")
			s.eventually("the role", func() bool { return viewer.kubectl("kubectl get nodes,nhc,remediationbudgets", "") == nil })
			s.createNodes("a", "b", "c", "d", "e")
			s.labelNode("d", map[string]any{v1alpha1.LabelExclude: "true"})
			for i, node := range []string{"d", "c", "b", "a"} {
				s.setCondition(node, corev1.NodeReady, corev1.ConditionUnknown, time.Now().Add(-time.Duration(i+1)*time.Minute))
			}
			if tc.budget != nil {
				s.createBudget(tc.budget)
			}
			var result simulation.Result
			out := viewer.shows(nil, "simulate", "-f", s.manifest(tc.change), "--repair-after=0", "-o=json")
			require.NoError(t, json.Unmarshal([]byte(out), &result))
			require.Empty(t, result.Missing)
			require.Empty(t, result.Notes)
			simulated := simulatedFirst(&result)
			require.Len(t, simulated, 4, out)
			s.createNHC(tc.change)
			s.eventually("the decisions of the simulation: "+out, func() bool { return maps.Equal(simulated, s.decisions()) })
			viewer.shows([]string{"NodeHealthCheck " + s.name}, "simulate", "--for=1m")
		})
	}
}

const simulatedBeginning = "remediation begins"

// simulatedFirst returns what a simulation says first of each node.
func simulatedFirst(result *simulation.Result) map[string]string {
	first := map[string]string{}
	for _, line := range result.Timeline {
		for _, node := range line.Nodes {
			switch {
			case line.After.Duration != 0:
			case line.What == simulation.Begins:
				first[node] = simulatedBeginning
			case line.What == simulation.Waits:
				first[node] = line.Why
			}
		}
	}
	return first
}

// decisions returns what the controller has decided, in the words of a simulation.
func (s *scenario) decisions() map[string]string {
	s.t.Helper()
	decided, status := map[string]string{}, s.status()
	allowed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRemediationAllowed)
	for i := range status.UnhealthyNodes {
		entry := &status.UnhealthyNodes[i]
		decision := entry.Decision
		switch {
		case len(entry.Remediations) > 0:
			decided[entry.Name] = simulatedBeginning
		case decision != nil && allowed != nil && (allowed.Reason == string(decision.Reason) || decision.Reason == v1alpha1.DecidedGateClosed):
			decided[entry.Name] = string(decision.Reason) + ": " + allowed.Message
		case decision != nil:
			decided[entry.Name] = string(decision.Reason) + ": " + decision.Message
		}
	}
	return decided
}
