// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// Circumstances are what restrains the controller, for a whole NodeHealthCheck
// and for one node.
type Circumstances struct {
	// InvalidSpec means that a stored spec breaks a rule of admission (spec 4.7).
	InvalidSpec bool
	// Terminating means that the NodeHealthCheck is being deleted (spec 4.8).
	Terminating bool
	// TemplatesUnusable means Disabled by the templates, or templates that could
	// not be read yet.
	TemplatesUnusable bool
	// Conflict means Disabled by a conflicting MachineHealthCheck: nothing at all is
	// done then (spec 6.7).
	Conflict bool
	// ClockUntrusted means that the clock is too far ahead of that of the API server.
	ClockUntrusted bool
	// Upgrading means that the cluster is being upgraded.
	Upgrading bool
	// Paused means that there are pause requests.
	Paused bool
	// GateClosed means that too few nodes are healthy.
	GateClosed bool
	// Storm means that a storm is not over yet.
	Storm bool

	// Excluded means that the node carries the label that exempts it.
	Excluded bool
	// Unselected means that the selector does not, or no longer, match the node.
	Unselected bool
	// NodeDeleted means that the Node does not exist.
	NodeDeleted bool
}

// Permissions are what the circumstances allow for one node (spec 5.2).
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

// Permissions returns what is allowed under the circumstances: if several apply,
// all must allow it.
func (c Circumstances) Permissions() Permissions {
	goOn := c.Refusal(false) == ""
	return Permissions{
		CreateFirst:     c.Refusal(true) == "",
		CreateNext:      goOn,
		EndStep:         goOn,
		KeepLease:       !c.Conflict,
		DeleteRecovered: !c.Conflict && !c.NodeDeleted,
		CleanUp:         !c.Conflict && c.NodeDeleted,
	}
}

// Refusal says why an unhealthy node gets no CR. It is empty if nothing stands
// against it.
type Refusal string

const (
	// RefusedInvalidSpec: the stored spec breaks a rule of admission.
	RefusedInvalidSpec Refusal = "InvalidSpec"
	// RefusedTerminating: the NodeHealthCheck is being deleted.
	RefusedTerminating Refusal = "Terminating"
	// RefusedDisabled: the templates cannot be used.
	RefusedDisabled Refusal = "Disabled"
	// RefusedClockUntrusted: the clock is too far ahead of that of the API server.
	RefusedClockUntrusted Refusal = "ClockUntrusted"
	// RefusedUpgrading: the cluster is being upgraded.
	RefusedUpgrading Refusal = "ClusterUpgrading"
	// RefusedPaused: there are pause requests.
	RefusedPaused Refusal = "Paused"
	// RefusedGateClosed: too few nodes are healthy.
	RefusedGateClosed Refusal = "GateClosed"
	// RefusedStormActive: a storm is not over yet.
	RefusedStormActive Refusal = "StormActive"
	// RefusedUnselected: the node is no longer selected.
	RefusedUnselected Refusal = "Unselected"
	// RefusedExcluded: the node carries the exclusion label.
	RefusedExcluded Refusal = "Excluded"
	// RefusedNodeDeleted: there is no Node to repair.
	RefusedNodeDeleted Refusal = "NodeDeleted"
	// RefusedControlPlaneBusy: another control plane node is under remediation.
	RefusedControlPlaneBusy Refusal = "ControlPlaneBusy"
	// RefusedEtcdQuorum: etcd cannot do without the control plane node.
	RefusedEtcdQuorum Refusal = "EtcdQuorum"
	// RefusedForeignRemediation: a CR that is not ours stands where ours would.
	RefusedForeignRemediation Refusal = "ForeignRemediation"
	// RefusedMachineUnreadable: the Machine that would own the CR cannot be read for now.
	RefusedMachineUnreadable Refusal = "MachineUnreadable"
	// RefusedLeaseTaken: somebody else holds the lease of the node.
	RefusedLeaseTaken Refusal = "LeaseTaken"
	// RefusedRetryLater: an attempt failed, and the next one is not due yet.
	RefusedRetryLater Refusal = "RetryLater"
)

// obstacle is one circumstance that forbids a CR.
type obstacle struct {
	refusal Refusal
	stands  func(*Circumstances) bool
}

// obstacles are in the order in which they are reported (spec 5.4). What is behind
// the node itself comes first: then there is nothing to wait for.
var obstacles = []obstacle{
	{RefusedNodeDeleted, func(c *Circumstances) bool { return c.NodeDeleted }},
	{RefusedUnselected, func(c *Circumstances) bool { return c.Unselected }},
	{RefusedDisabled, func(c *Circumstances) bool { return c.TemplatesUnusable || c.Conflict }},
	{RefusedInvalidSpec, func(c *Circumstances) bool { return c.InvalidSpec }},
	{RefusedTerminating, func(c *Circumstances) bool { return c.Terminating }},
	{RefusedClockUntrusted, func(c *Circumstances) bool { return c.ClockUntrusted }},
	{RefusedUpgrading, func(c *Circumstances) bool { return c.Upgrading }},
	{RefusedPaused, func(c *Circumstances) bool { return c.Paused }},
	{RefusedGateClosed, func(c *Circumstances) bool { return c.GateClosed }},
	{RefusedStormActive, func(c *Circumstances) bool { return c.Storm }},
	{RefusedExcluded, func(c *Circumstances) bool { return c.Excluded }},
}

// concerns tells whether the obstacle forbids a CR that is the node's first or not. A
// storm lets the remediations go on that are under way (spec 9.6).
func (o *obstacle) concerns(first bool) bool { return first || o.refusal != RefusedStormActive }

// Refusal returns the first circumstance that forbids a CR, be it the node's first or
// that of a later step. It is empty if none does.
func (c Circumstances) Refusal(first bool) Refusal {
	for i := range obstacles {
		if obstacles[i].concerns(first) && obstacles[i].stands(&c) {
			return obstacles[i].refusal
		}
	}
	return ""
}
