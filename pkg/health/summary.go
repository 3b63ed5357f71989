// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Summary counts the selected nodes of one NodeHealthCheck.
type Summary struct {
	// Observed is the number of selected nodes (spec 7.1).
	Observed int
	// Healthy is the number of those that are healthy and not under remediation (spec 7.6).
	Healthy int
	// SoonUnhealthy and Unhealthy are the numbers of nodes with that verdict.
	SoonUnhealthy, Unhealthy int
	// Remediated is the number of those under remediation, whatever their verdict
	// (spec 9.1: R).
	Remediated int
	// Recheck is the earliest instant at which the passing of time alone changes
	// a verdict. It is zero if no node is on its way to unhealthy.
	Recheck time.Time
}

// NewSummary returns the summary of this number of nodes. All of them count as healthy
// until Add counts them otherwise.
func NewSummary(observed int) Summary { return Summary{Observed: observed, Healthy: observed} }

// Add counts one of the observed nodes. A node under remediation does not count as
// healthy, also if its verdict is healthy.
func (s *Summary) Add(verdict Verdict, remediated bool) {
	if verdict.State != Healthy || remediated {
		s.Healthy--
	}
	if remediated {
		s.Remediated++
	}
	switch verdict.State {
	case Healthy:
	case SoonUnhealthy:
		s.SoonUnhealthy++
		s.Recheck = Earliest(s.Recheck, verdict.Deadline)
	case Unhealthy:
		s.Unhealthy++
	}
}

// Earliest returns the earlier of two instants, where the zero time means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
