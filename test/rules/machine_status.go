// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// rowID identifies a remediation that has started in the history of a MachineHealthCheck.
type rowID struct {
	machine           string
	detected, started string
	how               v1beta1.RemediationType
}

func idOf(entry *v1beta1.Remediation) rowID {
	return rowID{entry.Machine, entry.Detected.UTC().String(), entry.Started.UTC().String(), entry.RemediationType}
}

// open reports whether a row may change.
func open(entry *v1beta1.Remediation) bool { return entry.Finished == nil && entry.Closed == nil }

// historyKept judges what a write of the status did to the history: a row begins and ends once, and
// one that has ended stays as it is (spec M16.2).
func historyKept(before, after *MHC) []finding {
	known := map[rowID]*v1beta1.Remediation{}
	for i := range before.Status.RemediationHistory {
		entry := &before.Status.RemediationHistory[i]
		if entry.Started != nil {
			known[idOf(entry)] = entry
		}
	}
	findings := []finding{{rule: "M16.2"}}
	fail := func(broken bool, entry *v1beta1.Remediation, what string) {
		findings = append(findings, check("M16.2", broken, "row %s, detected %s, %s", entry.Machine, entry.Detected.UTC(), what))
	}
	opened, deleted := map[string]int{}, map[string]int{}
	for i := range after.Status.RemediationHistory {
		entry := &after.Status.RemediationHistory[i]
		if open(entry) {
			opened[entry.Machine]++
		}
		if entry.Started != nil && entry.RemediationType == v1beta1.RemediationMachineDeletion {
			deleted[entry.Machine]++
		}
		fail(opened[entry.Machine] > 1, entry, "is open twice")
		fail(deleted[entry.Machine] > 1, entry, "says that the Machine was deleted twice")
		fail(entry.Started != nil && entry.Started.Before(&entry.Detected), entry, "starts before it was detected")
		fail(!open(entry) && entry.Started == nil, entry, "ends and has not started")
		if entry.Started == nil {
			continue
		}
		old := known[idOf(entry)]
		if old == nil {
			continue
		}
		fail(old.Fenced != nil && !old.Fenced.Equal(entry.Fenced), entry, "is fenced again")
		fail(old.Finished != nil && !old.Finished.Equal(entry.Finished), entry, "finishes again")
		fail(old.Closed != nil && !old.Closed.Equal(entry.Closed), entry, "is closed again")
	}
	return findings
}
