// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"

// Check is one question that a node has to pass before its CR is created, and the
// answer (spec 5.4).
type Check struct {
	// Reason is that of the decision if the answer is no.
	Reason v1alpha1.DecisionReason
	Passed bool
	// Message says what was found, where the answer is no or has numbers.
	Message string
}

// Checks returns all the checks of the CR that is next for an unhealthy node, in the
// order in which they are asked: the first one that is not passed decides. Those of
// the control plane are answered only for nodes that pass all before them, and a
// foreign CR is found by the plan; Decision knows both.
func (s *Script) Checks(plan *NodePlan) []Check {
	node := &plan.Node
	first := len(node.Own) == 0
	var checks []Check
	add := func(refusal Refusal, refused bool) {
		reason := v1alpha1.DecisionReason(refusal)
		check := Check{Reason: reason, Passed: !refused}
		if refused || refusal == RefusedGateClosed {
			check.Message = s.explain(plan, reason)
		}
		checks = append(checks, check)
	}
	for i := range obstacles {
		if obstacles[i].refusal != RefusedNodeDeleted && obstacles[i].concerns(first) {
			// The template of the next step alone may be what stands in the way.
			add(obstacles[i].refusal, obstacles[i].stands(&node.Circumstances) || obstacles[i].refusal == plan.Refusal)
		}
	}
	if first && node.ControlPlane {
		add(RefusedControlPlaneBusy, node.PlaceTaken)
		add(RefusedEtcdQuorum, node.EtcdRefuses)
	}
	add(RefusedForeignRemediation, plan.Blocker != nil)
	if node.Machines.Unread() {
		add(RefusedMachineUnreadable, plan.Refusal == RefusedMachineUnreadable)
	}
	add(RefusedLeaseTaken, plan.Refusal == RefusedLeaseTaken)
	return checks
}
