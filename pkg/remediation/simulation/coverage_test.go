// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// coverage is what the random runs have to reach, or they test less than they seem to.
var coverage = []string{
	"Create", "Create of a next step", "Delete", "MarkTimedOut", "MarkTimedOut ends a step",
	"WriteLease", "WriteLease anew", "WriteLease taken over", "ReleaseLease", "RemoveConfirmation",
	"death before a request", "death after a request", "lost answer", "created earlier",
	"exhausted", "delayed", "unreadable",
	"refused: Disabled", "refused: Paused", "refused: GateClosed", "refused: StormActive", "refused: Excluded", "refused: Unselected",
	"refused: ControlPlaneBusy", "refused: ForeignRemediation", "refused: LeaseTaken",

	"storm begun by threshold", "storm begun by gate", "storm begun by what was created", "storm with an open gate",
	"storm: calm lost", "storm: cooldown passed", "storm: over without cooldown", "storm: cooldown changed as it runs",
	"storm: fields removed", "storm: restart", "storm: next step", "storm: first CR when it ends",

	"a second sync", "next check: SoonUnhealthy", "next check: StepRunning", "next check: StepSucceeded",
	"next check: HealthyDelay", "next check: StormActive",
}

// beyond are the reasons of decisions that the simulated world gives no cause for.
var beyond = map[v1alpha1.DecisionReason]bool{
	v1alpha1.DecidedEtcdQuorum: true, v1alpha1.DecidedClusterUpgrading: true, // No OpenShift.
	v1alpha1.DecidedMachineUnreadable: true,                                    // Nor Machines.
	v1alpha1.DecidedClockUntrusted:    true,                                    // There is one clock.
	v1alpha1.DecidedNextBatch:         true,                                    // Nor that many nodes.
	v1alpha1.DecidedInvalidSpec:       true, v1alpha1.DecidedTerminating: true, // Nothing is stored unchecked, or deleted.
}

// checkCoverage fails if something has never happened. A few seeds do not reach
// everything.
func checkCoverage(t *testing.T, seeds uint64, seen map[string]int) {
	t.Helper()
	if seeds < defaultSeeds {
		t.Logf("%d seeds are too few to tell what has never happened", seeds)
		return
	}
	want := coverage
	for _, reason := range sorted(v1alpha1.DecisionReasons()) {
		if !beyond[reason] {
			want = append(want, "decided: "+string(reason))
		}
	}
	for _, what := range want {
		if seen[what] == 0 {
			t.Errorf("the test itself: %q has never happened", what)
		}
	}
}
