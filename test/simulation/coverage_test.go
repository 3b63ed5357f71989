// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"
	"testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// manySeeds is the number of seeds that reach everything listed here. Only nightly runs have so many. With fewer
// seeds, a rare event may be missing.
const manySeeds = 1000

// coverage are the events that have to happen. Otherwise the simulation tests less than it
// seems to.
var coverage = []string{
	"event Enabled", "event Disabled", "event NoNodes", "event LeaseTakenOver", "event DetectedUnhealthy", "event RemediationCreated", "event RemediationRemoved",
	"event RemediationSkipped", "event RemediationFailed", "event NoTemplateLeft", "event InvalidNodeLabel", "event OldRemediationCR",
	"event StormRecoveryStarted", "event StormRecoveryCooldownStarted", "event StormRecoveryEnded",
	"phase Disabled", "phase Paused", "phase Remediating", "phase Enabled",
	"fault: death after a request", "fault: death before a request", "fault: death between requests", "fault: graceful stop", "fault: no leader",
	"fault: denied annotation", "fault: denied status", "fault: stale first list", "fault: watches end", "fault: watches lagged",
	"fault: MachineHealthCheck created again", "fault: owner collected",
	"fault: request: 409", "fault: request: 429", "fault: request: 500", "fault: request: 503", "fault: request: 504",
	"fault: request: broken connection", "fault: request: hanging request", "fault: request: late answer", "fault: request: late request", "fault: request: lost answer",
	"CRs created", "CRs deleted", "CRs marked",
}

// unreached are the reasons of decisions for which the simulated cluster gives no cause.
var unreached = []v1alpha1.DecisionReason{
	v1alpha1.DecidedMachineUnreadable, // Machines can be read.
	v1alpha1.DecidedClockUntrusted,    // The clocks agree.
	v1alpha1.DecidedInvalidSpec,       // Admission would have denied it.
	v1alpha1.DecidedNextBatch,         // There are not that many nodes.
}

// unjudged are the rules that are not checked in the simulation.
var unjudged = []string{}

// noteStatus counts what a NodeHealthCheck says.
func (c *cluster) noteStatus(change *memapi.Change) {
	switch change.Resource {
	case mhcs:
		c.noteMachines(change)
	case budgets:
		c.noteBudget(change)
	}
	if change.Resource != nhcs {
		return
	}
	status := &as[v1alpha1.NodeHealthCheck](change.Object).Status
	if status.Phase != "" {
		c.seen["phase "+string(status.Phase)]++
	}
	for i := range status.UnhealthyNodes {
		if decision := status.UnhealthyNodes[i].Decision; decision != nil {
			c.seen["decision "+string(decision.Reason)]++
			c.noteWaiting("NodeHealthCheck", decision)
		}
	}
}

// checkCoverage fails if something has never happened, or too much was excused. Chance decides about a few seeds, so it says nothing of these.
func checkCoverage(t *testing.T, seeds int, seen map[string]int) {
	t.Helper()
	if seeds < manySeeds {
		t.Logf("%d seeds are too few to tell what never happens", seeds)
		return
	}
	if all, excused := seen[allSeconds], seen[excusedSeconds]; excused > all/10 {
		t.Errorf("in %d of %d seconds delays were excused", excused, all)
	}
	want := slices.Concat(coverage, machineCoverage(), budgetCoverage)
	for _, reason := range sorted(v1alpha1.DecisionReasons()) {
		if !slices.Contains(unreached, reason) {
			want = append(want, "decision "+string(reason))
		}
	}
	checked := map[string]int{}
	for what, n := range seen {
		if rule, is := strings.CutPrefix(what, "rule "); is {
			checked[rule] = n
		}
	}
	for _, rule := range slices.Concat(rules.Unchecked(checked), rules.UncheckedOfMachines(checked), rules.UncheckedOfBudgets(checked)) {
		if !slices.Contains(unjudged, rule) {
			t.Errorf("rule %s was never checked", rule)
		}
	}
	for _, what := range want {
		if seen[what] == 0 {
			t.Errorf("%q has never happened", what)
		}
	}
}
