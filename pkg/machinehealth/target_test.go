// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// TestBegunAt: since when a remediation runs is told by its object, or by the history (spec M12.6).
func TestBegunAt(t *testing.T) {
	t.Parallel()
	deleted := machine("m", deletingMachine).DeletionTimestamp
	own, going := cr("m"), cr("m", objecttest.Deleting)
	deletion := func(started, finished *metav1.Time) []v1beta1.Remediation {
		return []v1beta1.Remediation{{Machine: "m", RemediationType: v1beta1.RemediationMachineDeletion, Started: started, Finished: finished}}
	}
	external := func(finished *metav1.Time) []v1beta1.Remediation {
		return []v1beta1.Remediation{{Machine: "m", RemediationType: v1beta1.RemediationExternal, Started: new(metav1.NewTime(epoch.Add(time.Hour))), Finished: finished}}
	}
	requested := new(metav1.NewTime(deleted.Add(-time.Second)))
	for name, tc := range map[string]struct {
		target  Target
		history []v1beta1.Remediation
		want    time.Time
	}{
		"nothing is under way":                    {target: target(machine("m"))},
		"a deletion of ours":                      {target: target(machine("m", deletingMachine), verdict(Deleting)), history: deletion(requested, nil), want: deleted.Time},
		"a deletion of ours, which is replaced":   {target: target(machine("m", deletingMachine), verdict(Deleting)), history: deletion(deleted, deleted), want: deleted.Time},
		"a deletion by others":                    {target: target(machine("m", deletingMachine), verdict(Deleting))},
		"a deletion by others, after one of ours": {target: target(machine("m", deletingMachine), verdict(Deleting)), history: deletion(requested, requested)},
		"a CR":                    {target: target(machine("m"), with(own)), want: own.CreationTimestamp.Time},
		"the deletion of a CR":    {target: target(machine("m"), with(going)), want: going.DeletionTimestamp.Time},
		"an annotation":           {target: target(machine("m", firstKey)), history: external(nil), want: epoch.Add(time.Hour)},
		"an annotation by others": {target: target(machine("m", firstKey))},
		"an annotation by others, after one of ours": {target: target(machine("m", firstKey)), history: external(deleted)},
		"an annotation that is gone":                 {target: target(machine("m")), history: external(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.target.begunAt((&Input{History: tc.history}).started()["m"]))
		})
	}
}

// TestVanished: how long the next request for an external remediation waits after one that has vanished (spec M12.7).
func TestVanished(t *testing.T) {
	t.Parallel()
	open := v1beta1.Remediation{Machine: "m", RemediationType: v1beta1.RemediationExternal, Started: new(metav1.NewTime(epoch))}
	closed, deletion, waits := open, open, open
	closed.Closed, deletion.RemediationType, waits.Started = open.Started, v1beta1.RemediationMachineDeletion, nil
	decided := func(t *Target) {
		t.Decided = v1alpha1.Decision{Reason: v1alpha1.DecidedVanished, Since: metav1.NewTime(epoch.Add(time.Minute))}
	}
	reason := func(reason v1alpha1.DecisionReason) func(*Target) {
		return func(t *Target) { t.Decided = v1alpha1.Decision{Reason: reason, Type: v1alpha1.DecisionWaiting} }
	}
	const never = -1
	for name, tc := range map[string]struct {
		entry  v1beta1.Remediation
		target Target
		since  time.Duration // Zero if it is not known.
		now    time.Duration
		want   time.Duration
	}{
		"it takes at least 5 min":       {open, target(machine("m")), 0, time.Minute, 6 * time.Minute},
		"as long as it has lasted":      {open, target(machine("m")), 0, 12 * time.Minute, 24 * time.Minute},
		"at most 30 min":                {open, target(machine("m")), 0, time.Hour, 90 * time.Minute},
		"the process knows since when":  {open, target(machine("m"), decided), 12 * time.Minute, time.Hour, 24 * time.Minute},
		"status knows it":               {open, target(machine("m"), decided), 0, time.Hour, 6 * time.Minute},
		"status knows that it is over":  {open, target(machine("m"), func(t *Target) { t.Decided.Type = v1alpha1.DecisionHeld }), 0, time.Minute, never},
		"the slot was asked after it":   {open, target(machine("m"), reason(v1alpha1.DecidedControlPlaneBusy)), 0, time.Minute, never},
		"its deletion was awaited":      {open, target(machine("m"), reason(v1alpha1.DecidedAwaitingDeletion)), 0, time.Minute, 6 * time.Minute},
		"it was soon unhealthy":         {open, target(machine("m"), reason(v1alpha1.DecidedSoonUnhealthy)), 0, time.Minute, 6 * time.Minute},
		"its object is there":           {open, target(machine("m"), with(cr("m"))), 0, time.Minute, never},
		"its annotation is there":       {open, target(machine("m", firstKey)), 0, time.Minute, never},
		"P5 objects cannot be read":     {open, target(machine("m"), func(t *Target) { t.Incomplete = true }), 0, time.Minute, never},
		"it had ended before":           {closed, target(machine("m")), 0, time.Minute, never},
		"it has not begun":              {waits, target(machine("m")), 0, time.Minute, never},
		"it was a deletion":             {deletion, target(machine("m")), 0, time.Minute, never},
		"it was one of another Machine": {open, target(machine("n")), 0, time.Minute, never},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			since := time.Time{}
			if tc.since != 0 {
				since = epoch.Add(tc.since)
			}
			tc.target.Requested = (&Input{History: []v1beta1.Remediation{tc.entry}}).started()[tc.target.Machine.Name].external
			tc.target.SetVanished(since, epoch.Add(tc.now))
			if tc.want == never {
				require.Zero(t, tc.target.repeatable())
				return
			}
			require.Equal(t, epoch.Add(tc.want), tc.target.repeatable())
		})
	}
}
