// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Constraints keep the controller from acting, for all nodes of an owner or for one node.
type Constraints struct {
	// InvalidSpec: a stored spec breaks a rule of admission (spec 4.7).
	InvalidSpec bool
	// Terminating: the owner is being deleted (spec 4.8).
	Terminating bool
	// TemplatesUnusable: Disabled by the templates, or no template could be read yet.
	TemplatesUnusable bool
	// Conflict: Disabled by a conflicting MachineHealthCheck. Then the controller does
	// nothing at all (spec 6.7).
	Conflict bool
	// ClockUntrusted: the clock is too far ahead of that of the API server.
	ClockUntrusted bool
	// Upgrading: the cluster is being upgraded (spec 10.2).
	Upgrading bool
	// Paused: there are pause requests (spec 10.1).
	Paused bool
	// GateClosed: too few nodes are healthy (spec 8).
	GateClosed bool
	// Storm: a storm is not over yet (spec 9).
	Storm bool

	NodeConstraints
}

// NodeConstraints keep the controller from acting on one node.
type NodeConstraints struct {
	// Excluded: the node carries the label that exempts it (spec 15).
	Excluded bool
	// Unselected: the selector does not match the node (spec 17.5).
	Unselected bool
	// NodeDeleted: the Node does not exist (spec 17).
	NodeDeleted bool
	// UpdateEnds is until when an update of its machine configuration holds the node, zero if none does (spec 10.2).
	UpdateEnds time.Time
	// MachineClaim says why the node is left to the health check of its Machine, empty if it is not
	// (spec M15.1, M15.2).
	MachineClaim string
}

// Permissions are the actions that the constraints allow for one node (spec 5.2).
type Permissions struct {
	// CreateFirst is the creation of the node's first CR.
	CreateFirst bool
	// CreateNext is the creation of the CR of a later step.
	CreateNext bool
	// EndStep is acting on a timeout, a failed step or an overdue lease. A step is
	// never ended while its successor may not be created (spec 5.3).
	EndStep bool
	// KeepLease is the renewal and the release of the lease of the node.
	KeepLease bool
	// DeleteRecovered is the deletion of CRs of a node that is healthy.
	DeleteRecovered bool
	// CleanUp is what follows the deletion of the Node.
	CleanUp bool
}

// Permissions returns the actions that the constraints allow. If several constraints
// apply, all must allow an action.
func (c *Constraints) Permissions() Permissions {
	goOn := !c.NodeDeleted && c.Refusal(false) == ""
	return Permissions{
		CreateFirst:     !c.NodeDeleted && c.Refusal(true) == "",
		CreateNext:      goOn,
		EndStep:         goOn,
		KeepLease:       !c.Conflict,
		DeleteRecovered: !c.Conflict && !c.NodeDeleted,
		CleanUp:         !c.Conflict && c.NodeDeleted,
	}
}

// rule is one constraint that forbids a CR.
type rule struct {
	// reason names it in status, events, metrics and logs.
	reason  v1alpha1.DecisionReason
	applies func(*Constraints) bool
	// firstOnly means that it lets the next steps of running remediations pass.
	firstOnly bool
	// message explains it.
	message func(*Context) string
}

// rules are the constraints in the order in which they are reported (spec 5.4). docs/design.md,
// Where to add, says what a new rule needs besides a row here.
var rules = []rule{
	{
		reason: v1alpha1.DecidedUnselected, applies: func(c *Constraints) bool { return c.Unselected },
		message: func(*Context) string { return "The node is no longer selected" },
	},
	{
		reason: v1alpha1.DecidedDisabled, applies: func(c *Constraints) bool { return c.TemplatesUnusable || c.Conflict },
		message: (*Context).explainDisabled,
	},
	{
		reason: v1alpha1.DecidedInvalidSpec, applies: func(c *Constraints) bool { return c.InvalidSpec },
		message: func(c *Context) string { return c.SpecProblem },
	},
	{
		reason: v1alpha1.DecidedTerminating, applies: func(c *Constraints) bool { return c.Terminating },
		message: func(*Context) string { return "The NodeHealthCheck is being deleted" },
	},
	{
		reason: v1alpha1.DecidedClockUntrusted, applies: func(c *Constraints) bool { return c.ClockUntrusted },
		// No numbers: it is the same as long as the reason is.
		message: func(*Context) string {
			return "The clock of the controller is too far ahead of the clock of the API server, so the controller cannot know how long a condition has lasted"
		},
	},
	{
		reason: v1alpha1.DecidedClusterUpgrading, applies: func(c *Constraints) bool { return c.Upgrading || !c.UpdateEnds.IsZero() },
		message: func(*Context) string { return Upgrading },
	},
	{
		reason: v1alpha1.DecidedPaused, applies: func(c *Constraints) bool { return c.Paused },
		message: (*Context).explainPause,
	},
	{
		reason: v1alpha1.DecidedGateClosed, applies: func(c *Constraints) bool { return c.GateClosed },
		message: (*Context).explainGate,
	},
	{
		reason: v1alpha1.DecidedStormActive, applies: func(c *Constraints) bool { return c.Storm }, firstOnly: true, // Spec 9.6.
		message: (*Context).explainStorm,
	},
	{
		reason: v1alpha1.DecidedExcluded, applies: func(c *Constraints) bool { return c.Excluded },
		message: func(*Context) string { return "The node carries label " + v1alpha1.LabelExclude },
	},
	{
		// What runs already ends first (spec M15.2).
		reason: v1alpha1.DecidedMachineHealthCheck, applies: func(c *Constraints) bool { return c.MachineClaim != "" }, firstOnly: true,
		message: func(*Context) string { return "A MachineHealthCheck looks after the Machine of the node" },
	},
}

// Refusal returns the first constraint that forbids a CR for an existing node, either its
// first one or one of a later step. It is empty if no constraint forbids it.
func (c *Constraints) Refusal(first bool) v1alpha1.DecisionReason {
	for i := range rules {
		if (first || !rules[i].firstOnly) && rules[i].applies(c) {
			return rules[i].reason
		}
	}
	return ""
}

// ruleOf returns the rule with a reason, nil if none has it.
func ruleOf(reason v1alpha1.DecisionReason) *rule {
	for i := range rules {
		if rules[i].reason == reason {
			return &rules[i]
		}
	}
	return nil
}
