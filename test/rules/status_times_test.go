// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestStatusTimes has a status be written at second 100. The one before was written at second 50.
func TestStatusTimes(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	over := newCR("n", "Reboot", "one", func(cr *CR) { cr.Marked, cr.TimedOut = true, "2026-01-01T00:00:20Z" })
	atWork := func(reason v1alpha1.DecisionReason, second float64) func(*v1alpha1.NodeHealthCheck) {
		return stated(1, 0, withDecision(entry("n", cr), v1alpha1.DecisionRemediating, reason, func(d *v1alpha1.Decision) { d.Since = metav1.NewTime(at(second)) }))
	}
	well := func(second float64) func(*v1alpha1.NodeHealthCheck) {
		return stated(1, 0, sinceHealthy(entry("n", cr), second))
	}
	ended := func(cr *CR, second float64) func(*v1alpha1.NodeHealthCheck) {
		e := entry("n", cr)
		e.Remediations[0].TimedOut = new(metav1.NewTime(at(second)))
		return stated(1, 0, e)
	}
	working, ill := stated(1, 0, entry("n", cr)), func(*fixture) {}
	allowed := func(status metav1.ConditionStatus, second float64) func(*v1alpha1.NodeHealthCheck) {
		return func(nhc *v1alpha1.NodeHealthCheck) {
			condition := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionRemediationAllowed)
			condition.Status, condition.LastTransitionTime = status, metav1.NewTime(at(second))
		}
	}
	updated := func(second float64) func(*v1alpha1.NodeHealthCheck) {
		return with(func(status *v1alpha1.NodeHealthCheckStatus) { status.LastUpdateTime = new(metav1.NewTime(at(second))) })
	}
	stormSince := func(second float64) func(*v1alpha1.NodeHealthCheck) {
		return with(func(status *v1alpha1.NodeHealthCheckStatus) {
			status.StormRecoveryStartTime = new(metav1.NewTime(at(second)))
		})
	}
	recovered := func(s *fixture) { s.node(past, failedNode("n")); s.node(at(49), newNode("n", "True", at(49))) }
	flaps := func(s *fixture) { recovered(s); s.node(at(80), newNode("n", "True", at(79))) }
	denied := func(s *fixture) {
		s.AddRequests(Request{Time: at(60), Verb: "update", Resource: NodeHealthChecks.Resource, Subresource: "status", Name: "nhc", Code: 403})
	}
	fault := func(s *fixture) { s.BeginFault(at(90), "fault", Tolerance{Sync: time.Minute}) }
	for name, tc := range map[string]struct {
		setup         func(*fixture)
		before, after []func(*v1alpha1.NodeHealthCheck)
		want          []string
	}{
		"6.3 a transition":           {ill, list(working, allowed("True", 10)), list(working, allowed("False", 100)), nil},
		"6.3 it was long ago":        {ill, list(working, allowed("True", 10)), list(working, allowed("False", 80)), []string{"6.3"}},
		"6.3 it has yet to come":     {ill, list(working, allowed("True", 10)), list(working, allowed("False", 101)), []string{"6.3"}},
		"6.3 no transition":          {ill, list(working, allowed("True", 10)), list(working, allowed("True", 100)), []string{"6.3"}},
		"6.3 requests fail":          {fault, list(working, allowed("True", 10)), list(working, allowed("False", 80)), nil},
		"6.3 a cooldown begins anew": {notHealthy, list(storm(0, time.Hour, true), calmSince(at(40)), working), list(storm(0, time.Hour, true), calmSince(at(100)), working), nil},
		"6.3 it was calm meanwhile":  {healthy, list(storm(0, time.Hour, true), calmSince(at(40)), working), list(storm(0, time.Hour, true), calmSince(at(100)), working), []string{"6.3"}},
		"9.9 another begin":          {notHealthy, list(storm(0, 0, true), working), list(storm(0, 0, true), working, stormSince(50)), []string{"9.9"}},
		"18.2 the time is now":       {ill, list(working), list(working, updated(100)), nil},
		"18.2 the time is earlier":   {ill, list(working), list(working, updated(50)), []string{"18.2"}},
		"23b.5 decided now":          {ill, list(atWork("StepRunning", 50)), list(atWork("NoTemplateLeft", 99)), nil},
		"23b.5 decided before":       {ill, list(atWork("StepRunning", 50)), list(atWork("NoTemplateLeft", 50)), []string{"23b.5"}},
		"23b.5 and not written":      {denied, list(atWork("StepRunning", 50)), list(atWork("NoTemplateLeft", 60)), nil},
		"16.4 healthy now":           {ill, list(working), list(well(100)), nil},
		"16.4 healthy before":        {ill, list(working), list(well(60)), []string{"16.4"}},
		"16.4 healthy for as long":   {recovered, list(well(50)), list(well(50)), nil},
		"16.4 the delay begins anew": {recovered, list(well(50)), list(well(100)), []string{"16.4"}},
		"16.4 interrupted":           {flaps, list(well(50)), list(well(100)), nil},
		"16.4 another leads":         {func(s *fixture) { recovered(s); s.Led(at(90)) }, list(well(50)), list(well(100)), nil},
		"13.5 the CR says so":        {remediated(over), list(escalating, working), list(escalating, ended(over, 20)), nil},
		"13.5 the CR says otherwise": {remediated(over), list(escalating, working), list(escalating, ended(over, 30)), []string{"13.5"}},
		"13.2 it has ended before":   {remediated(over), list(escalating, ended(over, 20)), list(escalating, ended(over, 99)), []string{"13.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.config.Exact = true
			tc.setup(s)
			before, after := healthCheck(tc.before...), healthCheck(tc.after...)
			s.nhc(past, before)
			s.nhc(at(50), before)
			s.nhc(at(100), after)
			s.judgeTimes(Change{Key: "nhc", ResourceVersion: s.rv, Time: at(100)}, before, after, request(100))
			require.Equal(t, tc.want, brokenRules(s.violations), "%v", s.violations)
		})
	}
}

func list[T any](items ...T) []T { return items }

// TestBudgetTimes has the status of a budget be written at second 100. The one before was written at second 50.
func TestBudgetTimes(t *testing.T) {
	t.Parallel()
	within := func(second float64) func(*nhcv1alpha1.RemediationBudget) {
		return func(b *nhcv1alpha1.RemediationBudget) {
			b.Status.Groups = []nhcv1alpha1.BudgetGroup{{WithinSince: new(metav1.NewTime(at(second)))}}
		}
	}
	limits := func(b *nhcv1alpha1.RemediationBudget) { maxNotHealthy("0")(b); cooldown(time.Minute)(b) }
	none := func(*nhcv1alpha1.RemediationBudget) {}
	calm := func(s *fixture) { s.node(past, healthyNode("n")) }
	for name, tc := range map[string]struct {
		setup         func(*fixture)
		before, after func(*nhcv1alpha1.RemediationBudget)
		want          []string
	}{
		"B3.6 within it now":           {calm, none, within(100), nil},
		"B3.6 within it before":        {calm, none, within(60), []string{"B3.6"}},
		"B3.6 as before":               {calm, within(40), within(40), nil},
		"B3.6 anew":                    {calm, within(40), within(100), []string{"B3.6"}},
		"B3.6 it has exceeded it":      {func(s *fixture) { calm(s); s.node(at(60), failedNode("n")); s.node(at(99), healthyNode("n")) }, within(40), within(100), nil},
		"B3.4 a CR was created":        {func(s *fixture) { s.cr(at(70), newCR("n", "Reboot", "one", func(cr *CR) { cr.Created = at(70) })) }, none, lastStarted(70), nil},
		"B3.4 the controller has":      {func(s *fixture) { s.begun = append(s.begun, begun{at: at(70), answered: at(71)}) }, none, lastStarted(70), nil},
		"B3.4 a Machine was deleted":   {func(s *fixture) { m := newMachine("m", "n", "a"); m.DeletionRequested = at(70); s.machine(at(70), m) }, none, lastStarted(70), nil},
		"B3.4 nothing began":           {calm, none, lastStarted(70), []string{"B3.4"}},
		"B3.4 a request may have been": {func(s *fixture) { s.BeginFault(at(60), "fault", Tolerance{Sync: time.Second}) }, none, lastStarted(70), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.config.Exact = true
			s.nhc(past, healthCheck())
			tc.setup(s)
			before, after := newBudget(limits, tc.before), newBudget(limits, tc.after)
			s.budget(at(50), before)
			s.budget(at(100), after)
			s.last = s.rv
			require.Equal(t, tc.want, broke(s.budgetTimes(Change{Key: "b", ResourceVersion: s.rv, Time: at(100)}, before, after, request(100))))
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
		"as before":             {said("Paused", 50), said("Paused", 50), nil},
		"M16.1 M8.3 it moves":   {said("Paused", 50), said("Paused", 99), []string{"M16.1", "M8.3"}},
		"M8.3 otherwise before": {said("Paused", 50), said("NotStarted", 50), []string{"M8.3"}},
		"M8.3 otherwise now":    {checkOf(), said("NotStarted", 100), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.config.Exact = true
			require.Equal(t, tc.want, broke(s.machineTimes(tc.before, tc.after, request(100))))
		})
	}
}
