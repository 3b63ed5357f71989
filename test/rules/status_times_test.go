// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestStatusTimes has a status be written at second 100. The one before was written at second 50.
func TestStatusTimes(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	atWork := func(second float64) func(*v1alpha1.NodeHealthCheck) {
		return func(nhc *v1alpha1.NodeHealthCheck) {
			stated(entry("n", cr))(nhc)
			nhc.Status.UnhealthyNodes[0].Decision = &v1alpha1.Decision{Reason: v1alpha1.DecidedStepRunning, Since: metav1.NewTime(at(second))}
		}
	}
	well := func(second float64) func(*v1alpha1.NodeHealthCheck) {
		return stated(sinceHealthy(entry("n", cr), second))
	}
	ended := func(second float64) func(*v1alpha1.NodeHealthCheck) {
		e := entry("n", cr)
		e.Remediations[0].TimedOut = new(metav1.NewTime(at(second)))
		return stated(e)
	}
	allowed := func(second float64) func(*v1alpha1.NodeHealthCheck) {
		return func(nhc *v1alpha1.NodeHealthCheck) {
			stated()(nhc)
			meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionRemediationAllowed).LastTransitionTime = metav1.NewTime(at(second))
		}
	}
	recovered := func(s *fixture) { s.node(past, failedNode("n")); s.node(at(49), newNode("n", "True", at(49))) }
	for name, tc := range map[string]struct {
		setup         func(*fixture)
		before, after func(*v1alpha1.NodeHealthCheck)
		want          []string
	}{
		"6.3 no transition":          {recovered, allowed(10), allowed(100), []string{"6.3"}},
		"23b.5 the same as before":   {recovered, atWork(50), atWork(99), []string{"23b.5"}},
		"16.4 healthy for as long":   {recovered, well(50), well(50), nil},
		"16.4 the delay begins anew": {recovered, well(50), well(100), []string{"16.4"}},
		"16.4 interrupted":           {func(s *fixture) { recovered(s); s.node(at(80), newNode("n", "True", at(79))) }, well(50), well(100), nil},
		"16.4 another leads":         {func(s *fixture) { recovered(s); s.Led(at(90)) }, well(50), well(100), nil},
		"13.2 it has ended before":   {recovered, ended(20), ended(99), []string{"13.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.config.Exact = true
			tc.setup(s)
			before, after := healthCheck(tc.before), healthCheck(tc.after)
			s.nhc(past, before)
			s.nhc(at(50), before)
			s.nhc(at(100), after)
			s.judgeTimes(Change{Key: "nhc", ResourceVersion: s.rv, Time: at(100)}, before, after, request(100))
			require.Equal(t, tc.want, brokenRules(s.violations), "%v", s.violations)
		})
	}
}

// TestMachineTimes has the status of a MachineHealthCheck be written at second 100.
func TestMachineTimes(t *testing.T) {
	t.Parallel()
	said := func(reason v1alpha1.DecisionReason, second float64) *MHC {
		return checkOf(func(mhc *v1beta1.MachineHealthCheck) {
			since := metav1.NewTime(at(second))
			mhc.Status.Conditions = []v1beta1.Condition{{Type: v1beta1.ConditionRemediationAllowed, Status: "True", LastTransitionTime: since}}
			mhc.Status.UnhealthyMachines = []v1beta1.UnhealthyMachine{{Name: "m", Decision: v1alpha1.Decision{Reason: reason, Since: since}}}
		})
	}
	for name, tc := range map[string]struct {
		before, after *MHC
		want          []string
	}{
		"as before":           {said("Paused", 50), said("Paused", 50), nil},
		"M16.1 M8.3 it moves": {said("Paused", 50), said("Paused", 99), []string{"M16.1", "M8.3"}},
		"another one":         {said("Paused", 50), said("NotStarted", 50), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.config.Exact = true
			require.Equal(t, tc.want, broke(s.machineTimes(tc.before, tc.after, request(100))))
		})
	}
}
