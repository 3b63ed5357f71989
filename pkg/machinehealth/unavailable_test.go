// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// TestUnavailable: the condition says why Machines cannot be read, the rest of the status stays, and
// the event comes once.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	before, changed := metav1.NewTime(time.Unix(1000, 0)), time.Unix(2000, 0)
	forbidden := MachinesForbidden("list", schema.GroupResource{Group: "machine.openshift.io", Resource: "machines"})
	check := &v1beta1.MachineHealthCheck{Status: v1beta1.MachineHealthCheckStatus{
		ExpectedMachines: new(3), CurrentHealthy: new(2), RemediationsAllowed: new(int32(2)),
		Conditions: []v1beta1.Condition{
			{Type: v1beta1.ConditionSelectorOverlap, Status: corev1.ConditionTrue, LastTransitionTime: before},
			{Type: v1beta1.ConditionRemediationAllowed, Status: corev1.ConditionTrue, LastTransitionTime: before},
		},
		UnhealthyMachines: []v1beta1.UnhealthyMachine{{Name: "a"}},
	}}
	status := Amend(forbidden, &StatusInput{Check: check, Now: changed})
	require.Equal(t, v1beta1.Condition{
		Type: v1beta1.ConditionRemediationAllowed, Status: corev1.ConditionFalse, Severity: v1beta1.SeverityError, Reason: "MachinesForbidden",
		Message: "Remediation is not allowed, the controller has no permission to list machines.machine.openshift.io", LastTransitionTime: metav1.NewTime(changed),
	}, status.Conditions[1], "M7.5")
	require.Equal(t, check.Status.Conditions[0], status.Conditions[0])
	require.Equal(t, v1beta1.Condition{
		Type: v1beta1.ConditionStalled, Status: corev1.ConditionTrue, Reason: "MachinesForbidden",
		Message: status.Conditions[1].Message, LastTransitionTime: metav1.NewTime(changed),
	}, status.Conditions[2], "M16.4")
	unreadable := MachinesUnreadable(schema.GroupKind{Kind: "Machine"}, errors.New("slow"))
	require.Len(t, Amend(unreadable, &StatusInput{Check: check, Now: changed}).Conditions, 2, "M16.4: it may end by itself")
	require.Equal(t, corev1.ConditionTrue, check.Status.Conditions[1].Status, "that of a cache is not changed")
	require.Equal(t, int32(0), *status.RemediationsAllowed)
	require.Equal(t, 2, *status.CurrentHealthy, "what was known last")
	require.Equal(t, check.Status.UnhealthyMachines, status.UnhealthyMachines)

	events := UnavailableEvents(forbidden, &check.Status)
	require.Len(t, events, 1)
	require.Equal(t, Event{
		Type: corev1.EventTypeWarning, Reason: "RemediationSkipped", Action: "MachinesForbidden",
		Note: "[remediation] Remediation is not allowed, the controller has no permission to list machines.machine.openshift.io",
	}, events[0], "M17.1")
	require.Empty(t, UnavailableEvents(forbidden, &status), "once")

	check.Status = status
	require.Equal(t, status, Amend(forbidden, &StatusInput{Check: check, Now: changed.Add(time.Hour)}), "P3: nothing to write")
	check.Status = v1beta1.MachineHealthCheckStatus{}
	require.Len(t, Amend(forbidden, &StatusInput{Check: check, Now: changed}).Conditions, 2, "a new one")
}

// TestNotServed: without the Machine API there is no target, and the condition says so.
func TestNotServed(t *testing.T) {
	t.Parallel()
	check := &v1beta1.MachineHealthCheck{}
	criteria := NewCriteria(check)
	policy := Policy{Criteria: &criteria, Unavailable: MachinesNotServed(criteria.API), Summary: Summarize(intstr.FromString("100%"), nil, 0, time.Unix(0, 0))}
	condition := policy.NewStatus(&StatusInput{Check: check, Now: time.Unix(1000, 0)}).Conditions[0]
	require.Equal(t, corev1.ConditionFalse, condition.Status)
	require.Equal(t, "MachinesNotServed", condition.Reason)
	require.Equal(t, "Remediation is not allowed, the API server does not serve Machines of machine.openshift.io", condition.Message, "M7.5")
}
