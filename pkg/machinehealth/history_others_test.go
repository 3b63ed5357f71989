// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestHistoryOfOthers: what a user, a MachineSet or the autoscaler deletes is no remediation (spec M16.2).
func TestHistoryOfOthers(t *testing.T) {
	t.Parallel()
	deleting := target(machine("m", deletingMachine), verdict(Deleting))
	excluded := func(t *Target) { t.Obstacles.Excluded = true }
	for name, tc := range map[string]struct {
		before  Target
		outcome remediation.Outcome
		unsure  sets.Set[string]
		want    int
	}{
		"it waits, and is deleted":                {before: target(machine("m"), excluded)},
		"its deletion was announced, and refused": {before: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Refused}},
		"announced, and the answer was lost":      {before: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Unknown, Err: errors.New("lost")}, unsure: sets.New("m"), want: 1},
		"announced by a process that has died":    {before: target(machine("m")), outcome: accepted, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.unsure = tc.unsure
			l.see(tc.before, tc.outcome)
			l.known = nil
			shown := *l
			require.Len(t, l.after(time.Minute).see(deleting, remediation.Outcome{}), tc.want, "being deleted")
			delete(shown.machines, "m")
			require.Len(t, shown.after(time.Minute).sync(), tc.want, "gone")
		})
	}
}

// TestHistoryByTheAPIServer: times are those of the API server, even if our clock is ahead (spec M16.2).
func TestHistoryByTheAPIServer(t *testing.T) {
	t.Parallel()
	deletedAt := func(at time.Time) func(*Machine) {
		return func(m *Machine) { m.DeletionTimestamp = new(metav1.NewTime(at)) }
	}
	l := newLedger()
	row := l.see(target(machine("m"), because(v1beta1.TriggerMachineFailed)), accepted)[0]
	require.Equal(t, l.now, row.Started.Time, "nothing else is known yet")
	shown := l.now.Add(-2 * time.Second)
	row = l.see(target(machine("m", deletedAt(shown)), verdict(Deleting)), remediation.Outcome{})[0]
	require.Equal(t, []time.Time{shown, shown}, []time.Time{row.Detected.Time, row.Started.Time})

	l = newLedger()
	l.see(target(machine("m")), accepted)
	delete(l.machines, "m")
	l.machines["new"] = machine("new", createdAt(l.now.Add(-time.Second)))
	require.Equal(t, "new", l.sync()[0].Replacement, "it was not there at the sync before")
	l = newLedger()
	l.machines["old"] = machine("old", createdAt(l.now.Add(-time.Second)))
	l.see(target(machine("m")), accepted)
	require.Empty(t, l.sync()[0].Replacement, "it was")
	l.known = nil
	require.Empty(t, l.sync()[0].Replacement, "it is unknown")
}

// TestHistoryRemembers: the process keeps more deletions than status has room for (spec B3.2).
func TestHistoryRemembers(t *testing.T) {
	t.Parallel()
	l := newLedger()
	var results []TargetResult
	for i := range v1beta1.MaxOpenRemediations + 20 {
		m := machine(fmt.Sprintf("m%02d", i))
		l.machines[m.Name] = m
		results = append(results, result(l.policy, target(m), accepted, l.now))
	}
	require.Len(t, l.sync(results...), v1beta1.MaxOpenRemediations+20)
	require.Len(t, Listed(l.history), v1beta1.MaxOpenRemediations)
	clear(l.machines)
	require.Len(t, l.sync(), v1beta1.MaxOpenRemediations+20, "none is replaced")
}
