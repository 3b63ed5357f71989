// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Check is one question that a node has to pass before its CR is created, and the
// answer (spec 5.4).
type Check struct {
	// Reason is that of the decision if the answer is no.
	Reason v1alpha1.DecisionReason
	Passed bool
	// Asked is false for a check that was not evaluated, because an earlier check decides.
	Asked bool
	// AfterConstraints is true for the checks that concern more than this node and its owner.
	AfterConstraints bool
	// Message is the finding, if the answer is no or has numbers.
	Message string
}

// lastChecks follow the constraints, in the order of spec 5.4. They are not evaluated for
// a node that a constraint holds.
var lastChecks = []struct {
	reason   v1alpha1.DecisionReason
	concerns func(p *Policy, node *Node, first bool) bool
}{
	{v1alpha1.DecidedControlPlaneBusy, func(_ *Policy, node *Node, first bool) bool { return first && node.ControlPlane }},
	{v1alpha1.DecidedEtcdQuorum, func(_ *Policy, node *Node, first bool) bool { return first && node.ControlPlane }},
	{v1alpha1.DecidedBudgetExhausted, func(*Policy, *Node, bool) bool { return true }},
	{v1alpha1.DecidedForeignRemediation, func(*Policy, *Node, bool) bool { return true }},
	{v1alpha1.DecidedMachineUnreadable, func(_ *Policy, node *Node, _ bool) bool { return node.Machines.Unread() }},
	{v1alpha1.DecidedLeaseTaken, func(*Policy, *Node, bool) bool { return true }},
	{v1alpha1.DecidedDryRun, func(p *Policy, _ *Node, _ bool) bool { return p.DryRun }},
}

// Checks returns all the checks of the CR that is next for an unhealthy node, in the
// order of spec 5.4: the first one that is not passed decides.
func (p *Policy) Checks(plan *NodePlan) []Check {
	node := plan.Node
	first := len(node.Own) == 0
	var checks []Check
	add := func(reason v1alpha1.DecisionReason, refused bool) {
		check := Check{Reason: reason, Passed: !refused, Asked: true}
		if refused || reason == v1alpha1.DecidedGateClosed {
			check.Message = p.explain(plan, reason)
		}
		checks = append(checks, check)
	}
	for i := range rules {
		if first || !rules[i].firstOnly {
			// Only the template of the next step may be the reason.
			add(rules[i].reason, rules[i].applies(&node.Constraints) || rules[i].reason == plan.Refusal())
		}
	}
	asked := !slices.ContainsFunc(checks, func(check Check) bool { return !check.Passed })
	for _, check := range lastChecks {
		if !check.concerns(p, node, first) {
			continue
		}
		add(check.reason, plan.Refusal() == check.reason)
		last := &checks[len(checks)-1]
		last.Asked, last.AfterConstraints = asked, true
		asked = asked && last.Passed
	}
	return checks
}
