// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Unavailable says why Machines cannot be read. Until they can, nothing begins (spec M7.5).
type Unavailable struct {
	// Reason and Message are those of condition RemediationAllowed.
	Reason, Message string
}

// MachinesForbidden means that a permission is missing for Machines, or for the kinds that say
// how the controller may treat them.
func MachinesForbidden(verb string, resource schema.GroupResource) *Unavailable {
	return &Unavailable{
		Reason:  v1beta1.ReasonMachinesForbidden,
		Message: "Remediation is not allowed, the controller has no permission to " + verb + " " + resource.String(),
	}
}

// MachinesUnreadable means that Machines, or the kinds that say how the controller may treat them, cannot be read
// for another cause.
func MachinesUnreadable(kind schema.GroupKind, cause error) *Unavailable {
	return &Unavailable{
		Reason:  v1beta1.ReasonMachinesUnreadable,
		Message: "Remediation is not allowed, objects of kind " + kind.String() + " cannot be read: " + remediation.FailureMessage(cause.Error()),
	}
}

// MachinesNotServed means that the API server does not serve the Machine API of a
// MachineHealthCheck.
func MachinesNotServed(api string) *Unavailable {
	return &Unavailable{
		Reason:  v1beta1.ReasonMachinesNotServed,
		Message: "Remediation is not allowed, the API server does not serve Machines of " + api,
	}
}

// condition returns the condition that shows it, without its time.
func (u *Unavailable) condition() v1beta1.Condition {
	return v1beta1.Condition{
		Type: v1beta1.ConditionRemediationAllowed, Status: corev1.ConditionFalse, Severity: v1beta1.SeverityError,
		Reason: u.Reason, Message: u.Message,
	}
}

// stalled returns the condition Stalled, nil if it may end by itself (spec M16.4).
func (u *Unavailable) stalled() *v1beta1.Condition {
	if u.Reason == v1beta1.ReasonMachinesUnreadable {
		return nil
	}
	return newStalled(u.Reason, u.Message)
}

// Amend returns the status of a MachineHealthCheck whose Machines may exist and cannot be read. It
// keeps what status said of them last.
func (u *Unavailable) Amend(in *StatusInput) v1beta1.MachineHealthCheckStatus {
	status := in.Check.Status
	status.RemediationsAllowed = new(int32)
	status.Conditions = slices.Clone(status.Conditions)
	set := func(condition v1beta1.Condition, place int) {
		condition = in.dated(condition)
		if i := slices.IndexFunc(status.Conditions, func(c v1beta1.Condition) bool { return c.Type == condition.Type }); i >= 0 {
			status.Conditions[i] = condition
		} else {
			status.Conditions = slices.Insert(status.Conditions, place, condition)
		}
	}
	set(u.condition(), 0)
	if stalled := u.stalled(); stalled != nil {
		set(*stalled, len(status.Conditions))
	}
	return status
}

// Events returns the event that reports it, if the status before does not show it yet.
func (u *Unavailable) Events(before *v1beta1.MachineHealthCheckStatus) []Event {
	for i := range before.Conditions {
		if c := &before.Conditions[i]; c.Type == v1beta1.ConditionRemediationAllowed && c.Reason == u.Reason {
			return nil
		}
	}
	return []Event{{Type: corev1.EventTypeWarning, Reason: reasonRemediationSkipped, Action: u.Reason, Note: prefix + u.Message}}
}
