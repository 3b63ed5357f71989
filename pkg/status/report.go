// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status says what is reported of a NodeHealthCheck: its status, and the events that
// follow from what has changed. It is pure: it knows no client and no clock.
package status

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Input is one sync after it has acted.
type Input struct {
	// Check has the spec, and the status before the sync.
	Check *v1alpha1.NodeHealthCheck
	// Policy has the gate and the storm in its Context, after the sync.
	Policy *remediation.Policy
	// Summary counts the selected nodes.
	Summary health.Summary
	// Results are in order of the nodes' names.
	Results []remediation.NodeResult
	// Listed are the entries of the status before for the Results, at the same indexes; nil
	// where there is none.
	Listed []*v1alpha1.UnhealthyNode
	// Gone are own CRs, as they were seen last, that no cache shows any more.
	Gone []*object.CR
	// TemplateProblem is why the templates cannot be used, nil if nothing is known to be
	// wrong. TemplatesUnknown means that some cannot be read: what condition Disabled says
	// then stays (spec 6.5).
	TemplateProblem  *remediation.Problem
	TemplatesUnknown bool
	// PlatformProblem is what keeps the state of the platform from being read, nil if
	// nothing does (spec 10.2).
	PlatformProblem *remediation.Problem
	// Overlaps are the numbers of nodes shared with other NodeHealthChecks, by their names.
	Overlaps map[string]int
	// Now is when the sync began.
	Now    time.Time
	Before Known
}

// Known is what the process remembers of the last report.
type Known struct {
	// Ledger has the episodes, and Entries those of all nodes, by name.
	Ledger  *history.Ledger
	Entries []v1alpha1.UnhealthyNode
	// Reported is what events have said.
	Reported Reported
}

// Report is what is to be reported of a sync.
type Report struct {
	// Status is that of the Check itself if nothing has changed (spec 18.2).
	Status *v1alpha1.NodeHealthCheckStatus
	// Entries are those of all nodes, by name, also of those that the status is too small for.
	Entries []v1alpha1.UnhealthyNode
	// Ledger has the episodes after the sync, and Ended those that it has ended.
	Ledger *history.Ledger
	Ended  []v1alpha1.Episode
	in     *Input
}

// New computes what is to be reported. The input must not change while the report is used.
func New(in *Input) *Report {
	r := &Report{in: in}
	r.Ledger, r.Ended = in.Before.Ledger.Update(r.Observations, in.Now)
	r.Entries = r.newEntries()
	r.Status = r.newStatus()
	return r
}
