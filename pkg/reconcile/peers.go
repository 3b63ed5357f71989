// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
)

// NodeHealthChecks is what the controller of MachineHealthChecks needs of that of NodeHealthChecks. Both share the
// control plane slot.
type NodeHealthChecks interface {
	// AcquireControlPlane reserves the slot. It returns why it is refused, or a function that
	// gives it back.
	AcquireControlPlane(ctx context.Context, member slot.Member) (v1alpha1.DecisionReason, func(unknown bool))
	// HasSynced reports whether its caches are filled.
	HasSynced() bool
	// ControlPlaneTaken returns the nodes whose remediation objects take the slot, and false if
	// they are not known.
	ControlPlaneTaken() (nodes []string, known bool)
	// ControlPlaneChanged wakes the health checks that wait for the slot. SyncAll wakes
	// everything.
	ControlPlaneChanged()
	SyncAll()
}

// MachineHealthChecks is what a NodeHealthCheck needs to know about the MachineHealthChecks that
// the same process looks after (spec M13.1, M15). Its methods may be called from any goroutine.
type MachineHealthChecks interface {
	// Active reports whether this process looks after them: then none is in conflict with a
	// NodeHealthCheck.
	Active() bool
	// ActiveUnread returns why it is not known which controller looks after them: ErrPending of package watches while
	// that is being read. SyncAll is called once it is known.
	ActiveUnread() error
	// Unread returns why the MachineHealthChecks are not known at the moment. SyncAll is called once they
	// are.
	Unread() error
	// ClaimOf returns why a Node is left to the health check of its Machine, empty if it is not.
	ClaimOf(node string) string
	// ControlPlaneSlotHolders returns the control plane Machines whose remediation keeps that of
	// a control plane node or Machine from beginning, as the caches show it.
	ControlPlaneSlotHolders(subject slot.Member) []string
	// ListControlPlaneSlotHolders returns the same from a live list.
	ListControlPlaneSlotHolders(ctx context.Context, subject slot.Member) ([]string, error)
}

// NoMachineHealthChecks stands for a process that looks after none.
var NoMachineHealthChecks MachineHealthChecks = noMachineHealthChecks{}

type noMachineHealthChecks struct{}

func (noMachineHealthChecks) Active() bool                                 { return false }
func (noMachineHealthChecks) ActiveUnread() error                          { return nil }
func (noMachineHealthChecks) Unread() error                                { return nil }
func (noMachineHealthChecks) ClaimOf(string) string                        { return "" }
func (noMachineHealthChecks) ControlPlaneSlotHolders(slot.Member) []string { return nil }

func (noMachineHealthChecks) ListControlPlaneSlotHolders(context.Context, slot.Member) ([]string, error) {
	return nil, nil
}
