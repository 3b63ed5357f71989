// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// step changes one Machine at random, and returns the targets as a sync sees them.
func (l *ledger) step(random *rand.Rand, made *int) []Result {
	for len(l.machines) < 4 {
		*made++
		m := machine(fmt.Sprintf("m-%03d", *made), createdAt(l.now.Truncate(time.Second)))
		l.machines[m.Name] = m
	}
	names := make([]string, 0, len(l.machines))
	for name := range l.machines {
		names = append(names, name)
	}
	slices.Sort(names)
	var results []Result
	for _, name := range names {
		m := l.machines[name].DeepCopyObject().(*Machine)
		l.machines[name] = m
		state := []State{Healthy, Healthy, SoonUnhealthy, Unhealthy, Unhealthy}[random.IntN(5)]
		switch {
		case m.Deleting() && random.IntN(3) == 0:
			delete(l.machines, name)
			continue
		case m.Has(v1beta1.AnnotationExternalRemediation) && random.IntN(3) == 0:
			delete(m.Annotations, v1beta1.AnnotationExternalRemediation)
		case random.IntN(40) == 0:
			delete(l.machines, name)
			continue
		}
		t := target(m, because(v1beta1.TriggerNodeMissing))
		switch t.Verdict.State = state; {
		case m.Deleting():
			t.Verdict = Verdict{State: Deleting}
		case state == Healthy && m.Has(v1beta1.AnnotationExternalRemediation):
			t.Verdict = Verdict{State: UnderRemediation}
		case state == Healthy:
			t.Verdict = Verdict{}
		}
		l.healthy[name] = t.Verdict.State == Healthy
		r := result(l.policy, t, remediation.Outcome{}, l.now)
		if r.Plan.Begins() && random.IntN(2) == 0 {
			after := m.DeepCopyObject().(*Machine)
			if r.Outcome.Result = remediation.Requested; r.Plan.Type == v1beta1.RemediationMachineDeletion {
				after.DeletionTimestamp = new(whole(l.now))
			} else {
				firstKey(after)
			}
			defer func() { l.machines[name] = after }()
		}
		results = append(results, r)
	}
	return results
}

// TestHistoryProperties: no entry that has started is ever lost, none ends twice, and no Machine
// stands for two (spec M16.2).
func TestHistoryProperties(t *testing.T) {
	t.Parallel()
	started, finished := 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(1, seed))
		l, made := newLedger([]func(*Policy){func(*Policy) {}, annotates}[seed%2]), 0
		open, over := map[string]bool{}, map[string]v1beta1.Remediation{}
		for range 60 {
			l.after(time.Duration(1+random.IntN(600)) * time.Second)
			rows := l.sync(l.step(random, &made)...)
			seen, replacements := map[string]bool{}, map[string]bool{}
			for i := range rows {
				row := &rows[i]
				key := row.Machine + row.Detected.String()
				require.False(t, seen[key], "seed %d: %s is there twice", seed, key)
				seen[key] = true
				require.False(t, row.Replacement != "" && replacements[row.Replacement], "seed %d: %s stands for two", seed, row.Replacement)
				replacements[row.Replacement] = true
				require.False(t, row.Finished != nil && row.Closed != nil, "seed %d: it ends once", seed)
				if last, known := over[key]; known {
					if last.Fenced == nil && row.RemediationType == v1beta1.RemediationMachineDeletion {
						last.Fenced = row.Fenced // The Machine may be gone later.
						over[key] = last
					}
					require.Equal(t, last, *row, "seed %d: nothing changes afterwards", seed)
				}
				switch {
				case ended(row):
					require.NotNil(t, row.Started, "seed %d: what has not started is dropped", seed)
					if _, known := over[key]; !known && row.Finished != nil {
						finished++
					}
					over[key] = *row
					delete(open, key)
				case row.Started != nil:
					if !open[key] {
						started++
					}
					open[key] = true
				}
			}
			for key := range open {
				require.True(t, seen[key], "seed %d: %s is lost", seed, key)
			}
		}
	}
	require.Greater(t, started, 1000, "the test itself")
	require.Greater(t, finished, 500, "the test itself")
}
