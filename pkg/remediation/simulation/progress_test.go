// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// checkProgress checks that a step that is over is followed by the next one if nothing
// forbids it: a storm does not (spec 9.6).
func (w *world) checkProgress(s *sight, plan *remediation.NodePlan) {
	e := w.evidenceOf(s, plan, &remediation.Outcome{})
	steps := s.policy.Steps
	current := 0
	for current < len(steps) && over(e.node, steps, current) {
		current++
	}
	if !e.begun() || e.leaving || current == len(steps) || hindrance(s, w, e.node) != "" || mayBegin(s, w, e.node) != "" || s.now.Before(e.node.RetryAt) {
		return
	}
	cr := e.crOf(current)
	if e.stranger() || (cr != nil && !e.due(cr, current)) {
		return
	}
	if cr != nil {
		current++
	}
	if current < len(steps) && !e.blocked(current) && !begins(*plan) {
		w.violate(e.node.Name, "13.3", "step %d is due and does not begin", current)
	}
	if current == len(steps) && !plan.Exhausted {
		w.violate(e.node.Name, "13.6", "the last step is over and does not end")
	}
	if begins(*plan) && s.before.raging {
		w.seen["storm: next step"]++
	}
}
