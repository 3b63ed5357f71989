// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"time"
)

// Figures tell how much a judge has seen: a test that has seen little proves little.
type Figures struct {
	// Events is the number of changes that were judged, and Gaps how many of these came
	// after others that may have been missed.
	Events, Gaps int
	// Creations, Deletions and Marks are what the controller did to CRs.
	Creations, Deletions, Marks int
	// MachineDeletions, ExternalRequests and MachineCRs are what it did about Machines.
	MachineDeletions, ExternalRequests, MachineCRs int
	// Versioned is how many writes were judged by the version of a health check that the process has logged.
	Versioned int
	// Unattributed is the number of writes that only the controller makes and that no
	// request explains.
	Unattributed int
	// Unexplained names the first few of those writes.
	Unexplained []string
	// Replays is how often all was judged again because of a change that came late.
	Replays int
	// Faults is the number of faults.
	Faults int
	// Checks is how often each rule was checked.
	Checks map[string]int
	// Violations is the number of broken rules.
	Violations int
}

// BlindSpots returns how often something was not judged that should have been.
func (f Figures) BlindSpots() int { return f.Gaps + f.Unattributed }

// JSON returns the figures on one line.
func (f Figures) JSON() string {
	text, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Figures returns the numbers of judgements so far.
func (j *Judge) Figures() Figures {
	figures := j.figures
	figures.Checks = j.Checked()
	figures.Violations = len(j.violations)
	return figures
}

// Fault counts a fault and reports it in the timelines.
func (j *Judge) Fault(now time.Time, format string, args ...any) {
	j.Remark(now, format, args...)
	j.figures.Faults++
}
