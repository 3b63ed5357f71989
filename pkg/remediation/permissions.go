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
	// Upgrading means that the cluster is being upgraded.
	Upgrading bool
	// Paused means that there are pause requests.
	Paused bool
	// GateClosed means that too few nodes are healthy.
	GateClosed bool

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
	// As long as there is no storm, what stands against a first CR stands against
	// the next ones too.
	begin := c.Refusal() == ""
	return Permissions{
		CreateFirst:     begin,
		CreateNext:      begin,
		EndStep:         begin,
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
	// RefusedUpgrading: the cluster is being upgraded.
	RefusedUpgrading Refusal = "ClusterUpgrading"
	// RefusedPaused: there are pause requests.
	RefusedPaused Refusal = "Paused"
	// RefusedGateClosed: too few nodes are healthy.
	RefusedGateClosed Refusal = "GateClosed"
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
	// RefusedLeaseTaken: somebody else holds the lease of the node.
	RefusedLeaseTaken Refusal = "LeaseTaken"
	// RefusedRetryLater: an attempt failed, and the next one is not due yet.
	RefusedRetryLater Refusal = "RetryLater"
)

// Refusal returns the first circumstance that forbids a CR, in the order of
// spec 5.4. What is behind the node itself comes first: then there is nothing to
// wait for.
func (c Circumstances) Refusal() Refusal {
	switch {
	case c.NodeDeleted:
		return RefusedNodeDeleted
	case c.Unselected:
		return RefusedUnselected
	case c.InvalidSpec:
		return RefusedInvalidSpec
	case c.Terminating:
		return RefusedTerminating
	case c.TemplatesUnusable, c.Conflict:
		return RefusedDisabled
	case c.Upgrading:
		return RefusedUpgrading
	case c.Paused:
		return RefusedPaused
	case c.GateClosed:
		return RefusedGateClosed
	case c.Excluded:
		return RefusedExcluded
	default:
		return ""
	}
}
