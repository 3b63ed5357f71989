// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// FuzzStatus: the controller can go on with any status, and the API accepts the result.
func FuzzStatus(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"remediationHistory": [{}, {"node": ""}, {"node": "a"}, {"node": "a", "detected": null}]}`,
		`{"remediationHistory": [{"node": "a", "detected": "2026-01-01T00:00:00Z"}, {"node": "a", "detected": "2026-01-01T00:00:00Z"}, {"node": "a", "detected": "2026-01-02T00:00:00Z"}]}`,
		`{"remediationHistory": [{"node": "a", "detected": "2026-01-01T00:00:00Z", "started": null, "steps": [{}, {"kind": "K", "started": "9999-12-31T23:59:59Z"}]}]}`,
		`{"remediationHistory": [{"node": "a", "detected": "9999-12-31T23:59:59Z", "finished": "0001-01-01T00:00:00Z", "outcome": "Recovered"}]}`,
		`{"remediationHistory": [{"node": "b", "detected": "2026-01-01T00:00:00Z", "finished": "2025-01-01T00:00:00Z", "outcome": "x", "steps": [{"kind": "K", "started": "2026-01-01T00:00:00Z", "result": "Vanished"}]}]}`,
		`{"remediationHistory": [{"node": "a", "detected": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:00:00Z", "released": "0001-01-01T00:00:00Z", "steps": [{"kind": "K", "started": "2026-01-01T00:00:00Z", "ended": "9999-12-31T00:00:00Z", "result": "NodeDeleted"}, {"kind": "L", "started": "2026-01-01T00:00:00Z", "result": "NodeDeleted"}]}], "unhealthyNodes": [{"name": "a"}]}`,
		`{"remediationHistory": [{"node": "a", "detected": "2026-01-01T00:00:00Z", "started": "2026-01-01T00:00:00Z", "outcome": "Replaced", "finished": "2026-01-01T00:00:00Z"}, {"node": "b", "detected": "2026-01-01T00:00:00Z", "outcome": "?"}]}`,
		`{"unhealthyNodes": [{}, {"name": "a"}, {"name": "a", "detected": null, "trigger": null, "remediations": [{}, {"started": "2026-01-01T00:00:00Z", "timedOut": "2020-01-01T00:00:00Z"}]}]}`,
		`{"unhealthyNodes": [{"name": "b", "trigger": {}, "detected": "0001-01-01T00:00:01Z", "remediations": [{"resource": {"kind": "K", "uid": "u"}, "started": "9999-01-01T00:00:00Z"}]}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		status := &v1alpha1.NodeHealthCheckStatus{}
		if json.Unmarshal([]byte(text), status) != nil {
			return
		}
		l := Recall(status)
		for i, seen := range [][]Observation{sights(status, health.Unhealthy), sights(status, health.Healthy), sights(status, health.SoonUnhealthy), nil} {
			var ended []v1alpha1.Episode
			now := at(float64(i))
			l, ended = l.Update(slices.Values(seen), now)
			requireSound(t, ended)
			requireSound(t, l.List(new(int32(100))))
			again, ended := l.Update(slices.Values(seen), now.Add(time.Second))
			require.Empty(t, ended)
			require.Equal(t, l.List(nil), again.List(nil), "no news")
		}
		require.Empty(t, slices.Collect(l.Nodes()))
	})
}

// sights returns observations of all nodes that a status names.
func sights(status *v1alpha1.NodeHealthCheckStatus, state health.State) []Observation {
	var seen []Observation
	for i := range status.UnhealthyNodes {
		node := &status.UnhealthyNodes[i]
		o := Observation{Node: node.Name, State: state, Selected: true}
		if node.Trigger != nil {
			o.Trigger = *node.Trigger
		}
		with(node.Remediations...)(&o)
		seen = append(seen, o)
	}
	for i := range status.RemediationHistory {
		seen = append(seen, Observation{Node: status.RemediationHistory[i].Node, State: state, Created: status.RemediationHistory[i].Detected.Time})
	}
	slices.SortStableFunc(seen, func(a, b Observation) int { return strings.Compare(a.Node, b.Node) })
	return slices.CompactFunc(seen, func(a, b Observation) bool { return a.Node == b.Node })
}

func requireSound(t *testing.T, episodes []v1alpha1.Episode) {
	t.Helper()
	for i := range episodes {
		require.True(t, sound(&episodes[i]), "%+v", episodes[i])
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
