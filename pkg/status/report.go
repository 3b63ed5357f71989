// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status makes the report of a NodeHealthCheck: its status, and the events for the
// changes. It is pure: it knows no client and no clock.
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
	// Gone are own CRs that no cache shows any more, in their last known state.
	Gone []*object.CR
	// TemplateProblem says why the templates cannot be used, nil if no problem is known.
	// TemplatesUnknown means that some cannot be read: then condition Disabled stays as it is
	// (spec 6.5).
	TemplateProblem  *remediation.Problem
	TemplatesUnknown bool
	// PlatformProblem says why the state of the platform cannot be read, nil if it can (spec
	// 10.2).
	PlatformProblem *remediation.Problem
	// Overlaps are the numbers of nodes shared with other NodeHealthChecks, by their names.
	Overlaps map[string]int
	// Now is when the sync began.
	Now    time.Time
	Before Known
}

// Known is the last report, as far as the process remembers it.
type Known struct {
	// Ledger has the episodes, and Entries those of all nodes, by name.
	Ledger  *history.Ledger
	Entries []v1alpha1.UnhealthyNode
	// Reported has the transitions that events have reported.
	Reported Reported
}

// Report is the report of a sync.
type Report struct {
	// Status is the status of the Check itself if nothing has changed (spec 18.2).
	Status *v1alpha1.NodeHealthCheckStatus
	// Entries are the entries of all nodes, by name, also of nodes that the status has no room
	// for.
	Entries []v1alpha1.UnhealthyNode
	// Ledger has the episodes after the sync, and Ended those that it has ended.
	Ledger *history.Ledger
	Ended  []v1alpha1.Episode
	in     *Input
}

// New computes the report. The input must not change while the report is used.
func New(in *Input) *Report {
	r := &Report{in: in}
	r.Ledger, r.Ended = in.Before.Ledger.Update(r.Observations, in.Now)
	r.Entries = r.newEntries()
	r.Status = r.newStatus()
	return r
}
