// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

var defaultBackOff = BackOff{Base: DefaultBackOffBase, Cap: DefaultBackOffCap}

func TestDelay(t *testing.T) {
	t.Parallel()
	for rounds, want := range map[int32]time.Duration{
		-1: 0, 0: 0, 1: 5 * time.Minute, 2: 10 * time.Minute, 3: 20 * time.Minute, 4: 20 * time.Minute, 100: 20 * time.Minute, math.MaxInt32: 20 * time.Minute,
	} {
		require.Equal(t, want, defaultBackOff.Delay(rounds), "M14.1: %d", rounds)
	}
	require.Equal(t, 7*time.Second, BackOff{Base: 7 * time.Second, Cap: 7 * time.Second}.Delay(1), "M14.1: the cap is the base")
	require.Equal(t, 25*time.Minute, BackOff{Base: 10 * time.Minute, Cap: 25 * time.Minute}.Delay(3), "M14.1: the cap is no multiple of the base")
	require.Equal(t, time.Duration(math.MaxInt64), BackOff{Base: time.Hour, Cap: math.MaxInt64}.Delay(math.MaxInt32), "M14.1: no overflow")
}

func TestDue(t *testing.T) {
	t.Parallel()
	last := epoch.Add(700 * time.Millisecond)
	for name, tc := range map[string]struct {
		rounds  Rounds
		created time.Time
		want    time.Duration // After the creation.
	}{
		"M14.2 the first":       {Rounds{}, epoch, 0},
		"M14.2 after one round": {Rounds{1, last}, epoch.Add(time.Minute), 5 * time.Minute},
		"M14.2 after two":       {Rounds{2, last}, epoch.Add(time.Minute), 10 * time.Minute},
		"M14.2 after many":      {Rounds{99, last}, epoch.Add(time.Minute), 20 * time.Minute},
		"M14.3 made before the round, it belongs to it":   {Rounds{1, last}, epoch.Add(-time.Second), 0},
		"M14.3 made before the second one":                {Rounds{2, last}, epoch.Add(-time.Second), 5 * time.Minute},
		"M14.3 made in the same second, by whole seconds": {Rounds{1, last}, epoch, 5 * time.Minute},
		"M14.3 not after the end of the rounds":           {Rounds{9, last}, epoch.Add(50 * time.Minute), 10*time.Minute + 700*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.created.Add(tc.want), defaultBackOff.Due(tc.rounds, tc.created))
		})
	}
}

// TestRounds: what an owner has gone through is known until a Machine that it has created since is healthy, or for three
// caps. A new process knows the last deletion of the history (spec M14.3, M14.4).
func TestRounds(t *testing.T) {
	t.Parallel()
	m, begun := machine("m"), epoch.Add(500*time.Millisecond)
	at := func(after time.Duration) *metav1.Time { return new(metav1.NewTime(epoch.Add(after))) }
	entry := func(change ...func(*v1beta1.Remediation)) v1beta1.Remediation {
		e := v1beta1.Remediation{Owner: string(m.Owner().UID), Reason: v1beta1.TriggerMachineFailed, Started: at(0)}
		for _, apply := range change {
			apply(&e)
		}
		return e
	}
	two := func(r *RoundsByOwner) { r.replace(m.Owner().UID, Rounds{}, Rounds{Count: 2, Last: begun}) }
	healthy := func(created time.Duration) func(*RoundsByOwner) {
		return func(r *RoundsByOwner) {
			two(r)
			r.healthy(machine("n", createdAt(epoch.Add(created))), defaultBackOff, epoch.Add(time.Minute))
		}
	}
	recalls := func(entries ...v1beta1.Remediation) func(*RoundsByOwner) {
		return func(r *RoundsByOwner) { r.Recall(entries) }
	}
	for name, tc := range map[string]struct {
		change func(*RoundsByOwner)
		after  time.Duration
		want   int32
	}{
		"M14.3 none":                            {change: func(*RoundsByOwner) {}},
		"M14.3 two":                             {change: two, want: 2},
		"M14.3 another sync has begun one":      {change: func(r *RoundsByOwner) { two(r); two(r) }, want: 2},
		"M14.3 shortly before three caps":       {change: two, after: time.Hour + 500*time.Millisecond - 1, want: 2},
		"M14.3 after three caps":                {change: two, after: time.Hour + 500*time.Millisecond},
		"M14.3 a healthy one of before":         {change: healthy(-time.Second), want: 2},
		"M14.3 a healthy one created since":     {change: healthy(time.Second)},
		"M14.3 a healthy one, by whole seconds": {change: healthy(0)},
		"M14.4 a new process":                   {change: recalls(entry(), entry(func(e *v1beta1.Remediation) { e.Started = at(-time.Minute) })), want: 1},
		"M14.4 which knows more":                {change: func(r *RoundsByOwner) { two(r); recalls(entry())(r) }, want: 2},
		"M14.4 its replacement was healthy":     {change: recalls(entry(func(e *v1beta1.Remediation) { e.Finished = at(time.Minute) }))},
		"M14.4 nothing was deleted":             {change: recalls(entry(func(e *v1beta1.Remediation) { e.Started = nil }))},
		"M14.1 it had a Node":                   {change: recalls(entry(func(e *v1beta1.Remediation) { e.Reason = "" }))},
		"M14.4 another owner":                   {change: recalls(entry(func(e *v1beta1.Remediation) { e.Owner = "other" }))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &RoundsByOwner{}
			tc.change(r)
			require.Equal(t, tc.want, r.of(m, defaultBackOff, epoch.Add(tc.after)).Count)
		})
	}
	r := &RoundsByOwner{}
	two(r)
	require.Equal(t, 1, r.Owners(defaultBackOff, epoch))
	require.Zero(t, r.Owners(defaultBackOff, epoch.Add(2*time.Hour)))
	require.Zero(t, r.of(machine("m", noOwner), defaultBackOff, epoch))
}

// TestBackOffDecides: which deletions are slowed down, and how.
func TestBackOffDecides(t *testing.T) {
	t.Parallel()
	rounds := func(count int32) func(*Target) {
		return func(t *Target) { t.Rounds = Rounds{Count: count, Last: epoch.Add(-time.Minute)} }
	}
	confirmAndDelete := []string{"Confirm", "DeleteMachine m"}
	for name, tc := range map[string]struct {
		policy  func(*Policy)
		target  Target
		now     time.Duration
		refused bool
		actions []string
	}{
		"M14.1 the first one that failed":        {target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed)), actions: confirmAndDelete},
		"M14.1 the first one that never started": {target: target(machine("m", noNode), because(v1beta1.TriggerNodeStartupTimeout)), actions: confirmAndDelete},
		"M14.2 a nanosecond too young":           {target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed), rounds(1)), now: 5*time.Minute - 1, refused: true},
		"M14.2 old enough":                       {target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed), rounds(1)), now: 5 * time.Minute, actions: confirmAndDelete},
		"M14.2 too young to have started":        {target: target(machine("m", noNode), because(v1beta1.TriggerNodeStartupTimeout), rounds(2)), now: 10*time.Minute - 1, refused: true},
		"M14.1 a missing Node is not slowed":     {target: target(machine("m"), because(v1beta1.TriggerNodeMissing), rounds(9), func(t *Target) { t.NodeUID = "" }), actions: confirmAndDelete},
		"M14.1 a condition is not slowed":        {target: target(machine("m"), rounds(9), func(t *Target) { t.NodeUID = "" }), actions: confirmAndDelete},
		"M14.1 nor is an annotation":             {policy: annotates, target: target(machine("m", noNode), because(v1beta1.TriggerNodeStartupTimeout), rounds(9)), actions: []string{"Confirm", "RequestExternal m"}},
		"M14.1 nor is a CR":                      {policy: byTemplate, target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed), rounds(9)), actions: []string{"Confirm", "Create m"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			if tc.policy != nil {
				tc.policy(p)
			}
			now := epoch.Add(tc.now)
			plan := planFor(p, tc.target, now)
			require.Equal(t, tc.actions, describeActions(plan.Actions))
			require.Equal(t, tc.refused, plan.Refused)
			if !tc.refused {
				return
			}
			due := defaultBackOff.Due(tc.target.Rounds, epoch)
			require.Equal(t, v1beta1.DecidedBackOff, plan.Reason)
			require.Equal(t, []time.Time{due, due}, []time.Time{plan.Until, plan.Recheck}, "M14.2: nextCheckTime, and the sync wakes up for it")
		})
	}
}

// TestRoundsOfSyncs: a sync that deletes Machines which the owner has made since the last round begins one, and a healthy
// one of these ends them all (spec M14.3).
func TestRoundsOfSyncs(t *testing.T) {
	t.Parallel()
	p := policy(func(p *Policy) { p.Criteria.MaxUnhealthy = intstr.FromString("100%") })
	failed := func(created time.Duration) Observed {
		return observed(machine("m", noNode, failedPhase, createdAt(epoch.Add(created))))
	}
	healthy := func(created time.Duration) Observed { return observed(machine("m", createdAt(epoch.Add(created)))) }
	for _, sync := range []struct {
		at       time.Duration
		observed []Observed
		result   remediation.Result
		want     int32
		message  string
	}{
		{30 * time.Second, []Observed{observed(machine("m"), missing)}, remediation.Requested, 0, "M14.1: it had a Node"},
		{30 * time.Second, []Observed{failed(0), failed(0)}, remediation.Requested, 1, "M14.3: those made together go together"},
		{4 * time.Minute, []Observed{failed(0)}, remediation.Requested, 1, "M14.3: however late they fail"},
		{9*time.Minute - time.Second, []Observed{failed(4 * time.Minute)}, remediation.Requested, 1, "M14.2: it is too young"},
		{9 * time.Minute, []Observed{failed(4 * time.Minute)}, remediation.Unknown, 2, "M14.3: a request without an answer counts"},
		{10 * time.Minute, []Observed{healthy(0)}, "", 2, "M14.3: a healthy one of before is no sign"},
		{10 * time.Minute, []Observed{healthy(9 * time.Minute)}, "", 0, "M14.3: the replacement is healthy"},
	} {
		now := epoch.Add(sync.at)
		in := &Input{Observed: sync.observed, Seen: func(*corev1.Node) []health.Sighting { return nil }, Lease: func(string) *coordinationv1.Lease { return nil }}
		var results []TargetResult
		for _, plan := range NewPlans(p, p.Evaluate(in, now), now) {
			result := TargetResult{Plan: &plan, Outcome: &remediation.Outcome{}}
			if plan.Creates() {
				result.Outcome.Result = sync.result
			}
			results = append(results, result)
		}
		p.CountRounds(results, now)
		require.Equal(t, sync.want, p.Rounds.of(machine("m"), p.BackOff, now).Count, sync.message)
	}
	require.Greater(t, defaultBackOff.Delay(3), 15*time.Minute+2*time.Minute+10*time.Second, "M14.5: the fourth lives for longer than the autoscaler waits")
}
