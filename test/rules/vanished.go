// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// former returns how many CRs of a step a NodeHealthCheck had for a node that are gone, and when the first of all was
// created: by that the step may be over (spec 11.6, 13.3). Whether they belong to one episode is not asked.
func (h *history) former(nhc, node string, of step, rv uint64) (first time.Time, gone int) {
	for key := range h.crsOf[node] {
		seen := map[types.UID]bool{}
		for _, v := range h.crs[key] {
			if cr := v.object; v.rv <= rv && cr != nil && cr.OwnedBy(nhc) && cr.Node == node && of.has(cr) {
				seen[cr.UID] = true
				if first.IsZero() || cr.Created.Before(first) {
					first = cr.Created
				}
			}
		}
		gone += len(seen)
		if cr := h.crs[key].at(rv); cr != nil && seen[cr.UID] {
			gone--
		}
	}
	return first, gone
}

// passed reports whether the time of a step may be over by CRs that are gone.
func (h *history) passed(nhc, node string, of step, rv uint64, now time.Time) bool {
	first, gone := h.former(nhc, node, of, rv)
	return gone > 0 && of.timeout > 0 && !now.Before(first.Add(of.timeout))
}

// vanished returns whether the next CR of a node may wait because earlier ones have vanished, or no step is left after
// that (spec 11.6), or "".
func (s *settledCheck) vanished(name string) v1alpha1.DecisionReason {
	entry, steps := s.entry(name), stepsOf(s.nhc)
	if entry == nil || entry.Decision == nil || len(steps) == 0 {
		return ""
	}
	switch decision := entry.Decision; {
	case decision.Reason == v1alpha1.DecidedVanished && decision.NextCheckTime != nil && s.now.Before(decision.NextCheckTime.Time):
		for _, step := range steps {
			if _, gone := s.former(s.nhc.Name, name, step, s.rv); gone > 1 {
				return decision.Reason
			}
		}
	case decision.Reason == v1alpha1.DecidedNoTemplateLeft && s.passed(s.nhc.Name, name, steps[len(steps)-1], s.rv, s.now):
		return decision.Reason
	}
	return ""
}
