// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestAwaitsReplacement: when an entry of the history keeps the control plane slot (spec M13.4).
func TestAwaitsReplacement(t *testing.T) {
	t.Parallel()
	fenced, now := metav1.NewTime(epoch), epoch.Add(29*time.Minute)
	for name, tc := range map[string]struct {
		change   func(*v1beta1.Remediation)
		machines []*Machine
		now      time.Time
		want     bool
		until    time.Time
	}{
		"there is no replacement":          {want: true, until: epoch.Add(MaxReplacementWait)},
		"the wait is over":                 {now: epoch.Add(MaxReplacementWait)},
		"the replacement has no Node":      {machines: []*Machine{machine("new", noNode)}, want: true, until: epoch.Add(MaxReplacementWait)},
		"the replacement has a Node":       {machines: []*Machine{machine("new")}},
		"the Machine is there":             {machines: []*Machine{machine("m")}},
		"it is no control plane Machine":   {change: func(e *v1beta1.Remediation) { e.ControlPlane = false }},
		"it was not deleted":               {change: func(e *v1beta1.Remediation) { e.RemediationType = v1beta1.RemediationExternal }},
		"nobody replaces it":               {change: func(e *v1beta1.Remediation) { e.Owner = "" }},
		"the entry has finished":           {change: func(e *v1beta1.Remediation) { e.Finished = &fenced }},
		"the entry is closed":              {change: func(e *v1beta1.Remediation) { e.Closed = &fenced }},
		"P8 the process died meanwhile":    {change: func(e *v1beta1.Remediation) { e.Started, e.Fenced = nil, nil }, want: true},
		"P12 a status that stays as it is": {change: func(e *v1beta1.Remediation) { e.Started, e.Fenced = nil, nil }, now: epoch.Add(maxRemediationAge)},
	} {
		entry := v1beta1.Remediation{
			Machine: "m", ControlPlane: true, RemediationType: v1beta1.RemediationMachineDeletion, Owner: "set-uid", Replacement: "new",
			Detected: fenced, Started: &fenced, Fenced: &fenced,
		}
		if tc.change != nil {
			tc.change(&entry)
		}
		machines := map[string]*Machine{}
		for _, m := range tc.machines {
			machines[m.Name] = m
		}
		if tc.now.IsZero() {
			tc.now = now
		}
		until, awaits := AwaitsReplacement(&entry, machines, func(m *Machine) bool { return m.Node != "" }, tc.now)
		require.Equal(t, tc.want, awaits, name)
		if awaits {
			require.Equal(t, tc.until, until, name)
		}
	}
}

// TestHistoryOfControlPlane: the history says that a deleted Machine was one of the control plane, and the
// sync wakes up when it keeps the slot no longer (spec M13.4, P2).
func TestHistoryOfControlPlane(t *testing.T) {
	t.Parallel()
	l := newLedger()
	member := func(t *Target) { t.ControlPlane = true }
	row := l.see(target(machine("m"), member), accepted)[0]
	require.True(t, row.ControlPlane)
	delete(l.machines, "m")
	row = l.after(time.Minute).sync()[0]
	require.Equal(t, row.Fenced.Add(MaxReplacementWait), l.recheck)
	l.after(MaxReplacementWait).sync()
	require.Equal(t, row.Started.Add(maxRemediationAge), l.recheck, "P3: once")

	l = newLedger(annotates)
	row = l.see(target(machine("m"), member), remediation.Outcome{Result: remediation.Requested})[0]
	require.Equal(t, v1beta1.RemediationExternal, row.RemediationType)
	require.False(t, row.ControlPlane, "the Machine stays")
}
