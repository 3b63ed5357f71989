// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// looksAfter is a process that looks after MachineHealthChecks, or does not, as far as it knows that yet.
type looksAfter struct {
	reconcile.MachineHealthChecks
	active bool
	unread error
}

func (l looksAfter) Active() bool        { return l.active }
func (l looksAfter) ActiveUnread() error { return l.unread }

var errUnreadable = errors.New("no answer")

// TestConflictIsNotGuessed: MachineHealthChecks are in no conflict before it is known who looks after them. Until then nothing
// begins, and a conflict that was known lasts (spec 6.9, M15.1).
func TestConflictIsNotGuessed(t *testing.T) {
	t.Parallel()
	inConflict := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDisabled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConflict}}
	})
	for name, tc := range map[string]struct {
		checks looksAfter
		nhc    *v1alpha1.NodeHealthCheck
		want   platformState
		err    error
	}{
		"being read":                  {checks: looksAfter{MachineHealthChecks: reconcile.NoMachineHealthChecks, unread: watches.ErrPending}, nhc: testCheck(), err: watches.ErrPending},
		"unreadable":                  {checks: looksAfter{MachineHealthChecks: reconcile.NoMachineHealthChecks, unread: errUnreadable}, nhc: testCheck(), want: platformState{unknown: true}},
		"unreadable after a conflict": {checks: looksAfter{MachineHealthChecks: reconcile.NoMachineHealthChecks, unread: errUnreadable}, nhc: inConflict, want: platformState{unknown: true, conflict: true}},
		"this process":                {checks: looksAfter{MachineHealthChecks: reconcile.NoMachineHealthChecks, active: true}, nhc: inConflict},
		"this process, unread by now": {checks: looksAfter{MachineHealthChecks: reconcile.NoMachineHealthChecks, active: true, unread: watches.ErrPending}, nhc: testCheck()},
		"another one":                 {checks: looksAfter{MachineHealthChecks: reconcile.NoMachineHealthChecks}, nhc: testCheck(), want: platformState{conflict: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inPlatform(t, func(*fakePlatform) {}, func(t *testing.T, w *fakePlatform, c *Controller) {
				t.Helper()
				w.create(t, remediation.MachineHealthCheckKind, "a", `{"spec": {"unhealthyConditions": [{"type": "Ready"}]}}`)
				c.machineHealthChecks = tc.checks
				tc.want.openShiftMachines, tc.want.machineHealthChecks = true, true
				got, err := c.observePlatform(tc.nhc, &nhcState{})
				require.ErrorIs(t, err, tc.err)
				if tc.err == nil {
					require.Equal(t, tc.want, got)
				}
			})
		})
	}
}
