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

// unavailable returns condition RemediationAllowed while Machines cannot be read. Until they can, nothing begins (spec
// M7.5).
func unavailable(reason, message string) *v1beta1.Condition {
	return &v1beta1.Condition{
		Type: v1beta1.ConditionRemediationAllowed, Status: corev1.ConditionFalse, Severity: v1beta1.SeverityError,
		Reason: reason, Message: "Remediation is not allowed, " + message,
	}
}

// MachinesForbidden means that a permission is missing for Machines, or for the kinds that say
// how the controller may treat them.
func MachinesForbidden(verb string, resource schema.GroupResource) *v1beta1.Condition {
	return unavailable(v1beta1.ReasonMachinesForbidden, "the controller has no permission to "+verb+" "+resource.String())
}

// MachinesUnreadable means that Machines, or the kinds that say how the controller may treat them, cannot be read
// for another cause.
func MachinesUnreadable(kind schema.GroupKind, cause error) *v1beta1.Condition {
	return unavailable(v1beta1.ReasonMachinesUnreadable, "objects of kind "+kind.String()+" cannot be read: "+remediation.FailureMessage(cause.Error()))
}

// MachinesNotServed means that the API server does not serve the Machine API of a
// MachineHealthCheck.
func MachinesNotServed(api string) *v1beta1.Condition {
	return unavailable(v1beta1.ReasonMachinesNotServed, "the API server does not serve Machines of "+api)
}

// stalledBy returns the condition Stalled while Machines cannot be read, nil if that may end by itself (spec M16.4).
func stalledBy(unavailable *v1beta1.Condition) *v1beta1.Condition {
	if unavailable.Reason == v1beta1.ReasonMachinesUnreadable {
		return nil
	}
	return newStalled(unavailable.Reason, unavailable.Message)
}

// Amend returns the status of a MachineHealthCheck whose Machines may exist and cannot be read. It
// keeps what status said of them last.
func Amend(unavailable *v1beta1.Condition, in *StatusInput) v1beta1.MachineHealthCheckStatus {
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
	set(*unavailable, 0)
	if stalled := stalledBy(unavailable); stalled != nil {
		set(*stalled, len(status.Conditions))
	}
	return status
}

// UnavailableEvents returns the event that reports it, if the status before does not show it yet.
func UnavailableEvents(unavailable *v1beta1.Condition, before *v1beta1.MachineHealthCheckStatus) []Event {
	shown := func(c v1beta1.Condition) bool { return c.Type == unavailable.Type && c.Reason == unavailable.Reason }
	if unavailable == nil || slices.ContainsFunc(before.Conditions, shown) {
		return nil
	}
	return []Event{{Type: corev1.EventTypeWarning, Reason: reasonRemediationSkipped, Action: unavailable.Reason, Note: prefix + unavailable.Message}}
}
