// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// TestProperties follows random simulations for some thousand syncs.
func TestProperties(t *testing.T) {
	t.Parallel()
	outcomes, results := map[v1alpha1.EpisodeOutcome]int{}, map[v1alpha1.StepResult]int{}
	for seed := range uint64(15) {
		w := newSimulation(seed, 6)
		var before *Ledger
		for round := range 200 {
			w.step()
			seen := w.observe()
			next, ended := before.Update(slices.Values(seen), w.now)
			requireConsistent(t, before, next, ended)
			requireSpec(t, seen, before, next)
			requireWakes(t, next, w.now)
			requireQuiet(t, seen, next, w.now)
			requireRestart(t, before, seen, w.now)
			if round%20 == 0 {
				requireBounded(t, next)
			}
			for i := range ended {
				outcomes[ended[i].Outcome]++
				for _, step := range ended[i].Steps {
					results[step.Result]++
				}
			}
			before = next
		}
	}
	t.Logf("%v %v", outcomes, results)
	require.Len(t, outcomes, 5, "all ends are reached")
	require.Len(t, results, 5, "all results are reached")
}

// names returns those of all nodes with an open episode.
func names(l *Ledger) []string { return slices.Sorted(l.Nodes(func(string) bool { return true })) }

// requireConsistent: every episode ends exactly once, and is well-formed.
func requireConsistent(t *testing.T, before, next *Ledger, ended []v1alpha1.Episode) {
	t.Helper()
	over := map[string]v1alpha1.Episode{}
	for i := range ended {
		episode := ended[i]
		was := before.Episode(episode.Node)
		require.NotNil(t, was, "only what was open ends: %+v", episode)
		require.Equal(t, was.Detected, episode.Detected)
		require.Equal(t, was.Trigger, episode.Trigger)
		require.NotContains(t, over, episode.Node, "ended twice")
		over[episode.Node] = episode
		requireOrdered(t, episode)
		require.NotNil(t, episode.Finished)
		require.NotEmpty(t, episode.Outcome)
		require.Equal(t, len(episode.Steps) > 0, episode.Released != nil)
		for _, step := range episode.Steps {
			require.NotNil(t, step.Ended, "nothing goes on in what is over")
		}
	}
	for _, node := range names(before) {
		was := before.Episode(node)
		is := next.Episode(node)
		_, finished := over[node]
		require.True(t, is != nil || finished, "%s is lost", node)
		if is != nil && !finished {
			require.Equal(t, was.Detected, is.Detected, "it is the same one")
			require.Equal(t, was.Trigger, is.Trigger)
			require.True(t, was.Started == nil || was.Started.Equal(is.Started) || len(was.Steps) == 0, "the start stays, unless a dry run has dated it")
			require.True(t, was.Fenced == nil || !is.Fenced.After(was.Fenced.Time), "the fencing does not move later")
		}
	}
	for _, node := range names(next) {
		episode := next.Episode(node)
		requireOrdered(t, *episode)
		require.Nil(t, episode.Released)
		require.Empty(t, episode.Outcome)
	}
}

func requireOrdered(t *testing.T, episode v1alpha1.Episode) {
	t.Helper()
	latest := episode.Detected
	require.False(t, latest.IsZero())
	require.True(t, episode.Started != nil || len(episode.Steps) == 0)
	require.True(t, episode.Fenced == nil || len(episode.Steps) > 0)
	if episode.Started != nil {
		require.False(t, episode.Started.Time.Before(latest.Time), "%+v", episode)
		latest = *episode.Started
	}
	if episode.Fenced != nil {
		require.False(t, episode.Fenced.Time.Before(latest.Time), "%+v", episode)
	}
	if episode.Finished != nil {
		require.False(t, episode.Finished.Time.Before(latest.Time), "%+v", episode)
	}
	if episode.Released != nil {
		require.False(t, episode.Released.Time.Before(episode.Finished.Time), "%+v", episode)
	}
	for i := range episode.Steps {
		step := &episode.Steps[i]
		require.Equal(t, step.Ended != nil, step.Result != "", "%+v", step)
		require.True(t, step.Ended == nil || !step.Ended.Time.Before(step.Started.Time), "%+v", step)
		require.True(t, i == 0 || !step.Started.Time.Before(episode.Steps[i-1].Started.Time), "in the order of their start")
	}
	require.LessOrEqual(t, len(episode.Steps), maxSteps)
}

func requireBounded(t *testing.T, l *Ledger) {
	t.Helper()
	for _, limit := range []int32{0, 1, 7, 100} {
		list := l.List(&limit)
		require.Len(t, list, min(int(limit), len(l.open))+min(int(limit), len(l.closed)))
		encoded, err := json.Marshal(list)
		require.NoError(t, err)
		require.LessOrEqual(t, len(encoded), MaxSize)
		for i := range list {
			require.True(t, i == 0 || !list[i].Detected.After(list[i-1].Detected.Time), "newest first")
		}
	}
}

// requireSpec compares with the definition of an episode (spec 1.4).
func requireSpec(t *testing.T, seen []Observation, before, next *Ledger) {
	t.Helper()
	known := map[string]bool{}
	for i := range seen {
		o := &seen[i]
		known[o.Node] = true
		old, episode := before.Episode(o.Node), next.Episode(o.Node)
		was, is := old != nil, episode != nil
		left := slices.ContainsFunc(o.CRs, func(cr CR) bool { return !cr.Gone })
		switch {
		case o.NodeDeleted:
			require.False(t, is && !was, "a deleted Node is not unhealthy: %+v", o)
			require.False(t, is && !left && old.Started == nil && episode.Started == nil, "a Node without CR is gone: %+v", o)
			require.False(t, is && episode.Finished != nil, "23b.2: it is fenced, not finished")
		case o.State == health.Unhealthy && o.Selected:
			require.True(t, is, "unhealthy: %+v", o)
			require.Nil(t, episode.Finished, "23b.1")
		case o.State == health.Healthy:
			require.False(t, is && !left, "healthy, without CR: %+v", o)
			require.False(t, is && !was, "healthy: %+v", o)
			require.False(t, is && episode.Finished == nil, "23b.1: it shows at once")
		case o.State == health.SoonUnhealthy:
			require.False(t, is && !was, "not unhealthy yet: %+v", o)
			require.False(t, is && episode.Finished != nil, "23b.1")
		}
	}
	for _, node := range slices.Sorted(next.Nodes(func(string) bool { return false })) {
		require.True(t, known[node], "%s is not looked after", node)
	}
}

// requireWakes: an episode that only time ends causes a recheck, and not for ever (P2).
func requireWakes(t *testing.T, l *Ledger, now time.Time) {
	t.Helper()
	recheck := l.Recheck(now)
	require.True(t, recheck.IsZero() || recheck.After(now), "%s is not after %s", recheck, now)
	if absent := slices.Sorted(l.Nodes(func(string) bool { return false })); len(names(l)) > len(absent) {
		require.False(t, recheck.IsZero(), "it waits for ever")
	}
}

// requireQuiet: an unchanged simulation is no news.
func requireQuiet(t *testing.T, seen []Observation, l *Ledger, now time.Time) {
	t.Helper()
	at := now.Add(time.Minute)
	if recheck := l.Recheck(now); !recheck.IsZero() && recheck.Before(at) {
		at = recheck.Add(-1)
	}
	again, ended := l.Update(slices.Values(seen), at)
	require.Empty(t, ended)
	require.Equal(t, l.List(new(int32(100))), again.List(new(int32(100))))
}

// requireRestart: a process that reads the status of the one before comes to the
// same conclusions. The open episodes all fit.
func requireRestart(t *testing.T, before *Ledger, seen []Observation, now time.Time) {
	t.Helper()
	status := &v1alpha1.NodeHealthCheckStatus{RemediationHistory: before.List(new(int32(100)))}
	if before == nil {
		before = &Ledger{}
	}
	for node, episode := range before.open {
		if !episode.awaited() || episode.returned {
			entry := v1alpha1.UnhealthyNode{Name: node}
			if episode.remediated {
				entry.Remediations = []v1alpha1.Remediation{reboot(0)}
			}
			status.UnhealthyNodes = append(status.UnhealthyNodes, entry)
		}
	}
	encoded, err := json.Marshal(status)
	require.NoError(t, err)
	stored := &v1alpha1.NodeHealthCheckStatus{}
	require.NoError(t, json.Unmarshal(encoded, stored))

	// Not all steps tell when a Node was deleted: then its hour begins anew.
	recalled := Recall(stored)
	for node, episode := range recalled.open {
		was := before.open[node]
		if !was.deleted.IsZero() && !episode.deleted.Equal(was.deleted) {
			episode.deleted, episode.returned = was.deleted, was.returned
			recalled.open[node] = episode
		}
	}
	next, ended := before.Update(slices.Values(seen), now)
	restarted, endedAfter := recalled.Update(slices.Values(seen), now)
	require.True(t, equality.Semantic.DeepEqual(ended, endedAfter), "%+v\n%+v", ended, endedAfter)
	require.Equal(t, names(next), names(restarted))
	for _, node := range names(next) {
		one := next.Episode(node)
		other := restarted.Episode(node)
		require.True(t, equality.Semantic.DeepEqual(one, other), "%+v\n%+v", one, other)
	}
}

// TestRestartWithoutHistory: without a history, the entries of the nodes tell which
// episodes are open, and since when.
func TestRestartWithoutHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		w := newSimulation(seed, 6)
		var before *Ledger
		for range 200 {
			w.step()
			before, _ = before.Update(slices.Values(w.observe()), w.now)
			status := &v1alpha1.NodeHealthCheckStatus{}
			listed := slices.Sorted(before.Nodes(func(string) bool { return false }))
			for _, node := range listed {
				episode := before.Episode(node)
				status.UnhealthyNodes = append(status.UnhealthyNodes, v1alpha1.UnhealthyNode{
					Name: node, Trigger: episode.Trigger, Detected: &episode.Detected, Remediations: w.nodes[node].crs,
				})
			}
			recalled := Recall(status)
			require.Equal(t, listed, names(recalled), "what waits for a Node has no entry")
			for node, episode := range maps.All(recalled.open) {
				was := before.Episode(node)
				require.Equal(t, was.Detected, episode.Detected)
				require.Equal(t, was.Trigger, episode.Trigger)
			}
		}
	}
}
