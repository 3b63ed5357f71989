// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
)

// replayTolerance is by how much the beginning of a remediation may differ from that of its replay: a
// second by which the API server rounds, and what the controller takes on a busy machine.
const replayTolerance = 3 * time.Second

// TestReplayAgreesWithHistory: a recording of a storm, replayed with the same NodeHealthCheck, has the
// remediations of the controller's history. A replay with another NodeHealthCheck differs as expected.
func TestReplayAgreesWithHistory(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t) // Other nodes would be recorded, and other NodeHealthChecks replayed, too.
	c.startController(t, "replay")
	s := newScenario(t, c)
	viewer := s.newUser("nhc-view", "")
	s.eventually("the role", func() bool { return viewer.kubectl("kubectl get nodes,nhc,remediationbudgets", "") == nil })
	s.createNodes("a", "b", "c", "d", "e", "f", "g")
	rules := func(spec *v1alpha1.NodeHealthCheckSpec) {
		maxUnhealthy(intstr.FromInt32(3))(spec)
		conditions(v1alpha1.UnhealthyCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: 3 * time.Second}})(spec)
	}
	s.createNHC(rules)
	s.eventuallyCounts(7, 7)

	recording := filepath.Join(t.TempDir(), "storm.json")
	stop := viewer.records(recording)
	s.storm()
	stop()

	same := s.manifest(rules)
	replay := func(change ...func(*v1alpha1.NodeHealthCheckSpec)) (result simulation.Result) {
		out := viewer.shows(nil, "simulate", "--replay", recording, "-f", s.manifest(append([]func(*v1alpha1.NodeHealthCheckSpec){rules}, change...)...), "--against", same, "-o", "json")
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		require.Empty(t, result.Notes)
		return result
	}
	result := replay()
	require.Empty(t, result.Comparison.Differences)
	s.requireSameRemediations(&result)

	none := replay(maxUnhealthy(intstr.FromInt32(0)))
	require.Equal(t, 5, none.Comparison.Count(simulation.NotStarted))
	require.Contains(t, none.Comparison.Differences[0].Why, "GateClosed: ")
	all := replay(maxUnhealthy(intstr.FromString("100%")))
	var earlier []string
	for _, difference := range all.Comparison.Differences {
		require.Equal(t, simulation.Earlier, difference.What)
		require.Contains(t, difference.Why, "without the wait for GateClosed: ")
		earlier = append(earlier, difference.Node)
	}
	require.ElementsMatch(t, []string{s.node("d"), s.node("e")}, earlier)
}

// storm has five nodes remediated, and one that recovers in time. Two of the five have to wait.
func (s *scenario) storm() {
	s.t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		s.fail(name)
	}
	for _, name := range []string{"a", "b", "c"} {
		s.eventuallyCR(name)
	}
	for _, name := range []string{"d", "e"} {
		s.fail(name)
	}
	for _, name := range []string{"d", "e"} {
		s.eventuallyDecided(name, v1alpha1.DecidedGateClosed)
	}
	time.Sleep(2 * time.Second) // What begins less than a second earlier is no difference.
	for _, name := range []string{"a", "b"} {
		s.heal(name)
	}
	for _, name := range []string{"d", "e"} {
		s.eventuallyCR(name)
	}
	time.Sleep(time.Second) // No repair is faster: a replay decides a moment after a change.
	for _, name := range []string{"c", "d", "e"} {
		s.heal(name)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.eventuallyFinished(name, v1alpha1.OutcomeRecovered)
	}
	s.fail("f")
	s.heal("f")
	s.eventuallyCounts(7, 7)
}

// requireSameRemediations compares a replay with the history of the NodeHealthCheck.
func (s *scenario) requireSameRemediations(replay *simulation.Result) {
	s.t.Helper()
	replayed := map[string]time.Time{}
	for _, episode := range replay.Episodes {
		require.NotNil(s.t, episode.Began, episode.Node)
		replayed[episode.Node] = replay.Start.Add(episode.Began.Duration)
	}
	history := s.status().RemediationHistory
	require.Len(s.t, history, 5)
	require.Len(s.t, replayed, len(history))
	for i := range history {
		episode := &history[i]
		require.Contains(s.t, replayed, episode.Node)
		s.t.Logf("%s began at %s, and %s later in the replay", episode.Node, episode.Started.UTC(), replayed[episode.Node].Sub(episode.Started.Time))
		require.WithinDuration(s.t, episode.Started.Time, replayed[episode.Node], replayTolerance, episode.Node)
	}
}

// records has kubectl record as the user until the returned function stops it.
func (u *user) records(file string) (stop func()) {
	u.t.Helper()
	end, done := filepath.Join(u.t.TempDir(), "end"), make(chan error, 1)
	go func() {
		done <- u.kubectl("kubectl get nodes --watch --output-watch-events -o json > "+file+" & until [ -e "+end+" ]; do sleep 0.1; done; kill $!", "false")
	}()
	events := func() int {
		written, _ := os.ReadFile(file) // There is none at first.
		return strings.Count(string(written), `"ADDED"`)
	}
	u.eventually("the recording", func() bool { return events() == 7 })
	return func() {
		u.t.Helper()
		require.NoError(u.t, os.WriteFile(end, nil, 0o600))
		require.NoError(u.t, <-done)
	}
}
