// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
)

// failing returns the plans of a number of nodes, and their failed outcomes.
func failing(n int) []remediation.NodeResult {
	results := make([]remediation.NodeResult, n)
	for i := range n {
		name := fmt.Sprintf("node-%04d", i)
		results[i].Plan = &remediation.NodePlan{Node: &remediation.Node{Name: name}}
		results[i].Outcome = &remediation.Outcome{Err: fmt.Errorf("creating remediation for node %s: %w", name, errors.New("exceeded quota"))}
	}
	return results
}

// TestFailuresAreOneError: one cause that fails thousands of nodes is one error per sync.
func TestFailuresAreOneError(t *testing.T) {
	t.Parallel()
	c := bareController()
	for n, want := range map[int][]string{
		0:    nil,
		1:    {"Acting on nodes failed, retrying nodes=1 first=node-0000: creating remediation for node node-0000: exceeded quota"},
		5000: {"Acting on nodes failed, retrying nodes=5000 first=node-0000: creating remediation for node node-0000: exceeded quota"},
	} {
		logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(1), ktesting.BufferLogs(true)))
		s := &snapshot{nhc: testCheck(), state: (&nhcStates{}).of(testCheck())}
		c.rememberOutcomes(klog.NewContext(t.Context(), logger), s, failing(n))
		sink, ok := logger.GetSink().(ktesting.Underlier)
		require.True(t, ok)
		var lines []string
		for _, entry := range sink.GetBuffer().Data() {
			line := entry.Message
			for i := 0; i+1 < len(entry.ParameterKVList); i += 2 {
				line += fmt.Sprintf(" %v=%v", entry.ParameterKVList[i], entry.ParameterKVList[i+1])
			}
			lines = append(lines, fmt.Sprintf("%s: %v", line, entry.Err))
		}
		require.Equal(t, want, lines)
	}
}

// TestDeferredNodes: the sync looks again at once for what is left to the next batch (spec 8.4).
func TestDeferredNodes(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	deferred := sick("n", func(p *part) { p.outcome.Result = remediation.Deferred })
	require.Equal(t, s.now, s.result(deferred).recheck())
}

// TestDeferredPlansAreNotAttempts: a plan that was left to the next batch has neither succeeded
// nor failed.
func TestDeferredPlansAreNotAttempts(t *testing.T) {
	t.Parallel()
	c, s := bareController(), testSnapshot(testCheck(), testNode("n"))
	node := &s.nodes[0]
	s.state.attempts.Failed(attemptOf(node), &remediation.Outcome{Err: errors.New("denied")}, epoch)
	s.state.releasing.Insert("n")
	node.Lease = &coordinationv1.Lease{}
	plan := &remediation.NodePlan{Node: node, Actions: []remediation.Action{remediation.Create{}}}
	c.rememberOutcomes(t.Context(), s, []remediation.NodeResult{{Plan: plan, Outcome: &remediation.Outcome{Result: remediation.Deferred}}})
	require.NotZero(t, s.state.attempts.Of(attemptOf(node)).Due)
	require.True(t, s.state.releasing.Has("n"))
	c.rememberOutcomes(t.Context(), s, []remediation.NodeResult{{Plan: plan, Outcome: &remediation.Outcome{Result: remediation.Created}}})
	require.Zero(t, s.state.attempts.Of(attemptOf(node)).Due)
	require.False(t, s.state.releasing.Has("n"))
}

// TestOutdated: a plan by another spec does not begin (spec 5.1, 13.3).
func TestOutdated(t *testing.T) {
	t.Parallel()
	change := func(change func(*v1alpha1.NodeHealthCheck)) func(*testing.T, *preflight) {
		return func(t *testing.T, p *preflight) {
			t.Helper()
			require.NoError(t, p.Checks.Store.Update(testCheck(change)))
		}
	}
	tests := map[string]struct {
		event func(*testing.T, *preflight)
		want  bool
	}{
		"nothing has happened":                     {event: func(*testing.T, *preflight) {}},
		"5.1 a status was written":                 {event: change(func(n *v1alpha1.NodeHealthCheck) { n.ResourceVersion = "99" })},
		"10.1 it was paused, or edited":            {event: change(func(n *v1alpha1.NodeHealthCheck) { n.Generation++ }), want: true},
		"5.1 it is being deleted":                  {event: change(func(n *v1alpha1.NodeHealthCheck) { n.DeletionTimestamp = new(metav1.NewTime(epoch)) }), want: true},
		"5.1 another of that name has replaced it": {event: change(func(n *v1alpha1.NodeHealthCheck) { n.UID = "other" }), want: true},
		"5.1 it is gone":                           {event: func(t *testing.T, p *preflight) { t.Helper(); require.NoError(t, p.Checks.Store.Delete(testCheck())) }, want: true},
		"the clock is no longer trusted":           {event: func(_ *testing.T, p *preflight) { p.ClockTrusted = func() bool { return false } }, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPreflight(testCheck(), clocktesting.NewFakePassiveClock(epoch))
			acting := p.acting(p.snapshot, &remediation.Policy{}, nil)
			acting.Confirm = func(context.Context, int) (execute.Confirmation, error) {
				return execute.Confirmation{Refusal: v1alpha1.DecidedRecovering}, nil
			}
			plan := &remediation.NodePlan{Node: &remediation.Node{}, Actions: []remediation.Action{remediation.Confirm{}}}
			require.Equal(t, remediation.Recovered, acting.Act(t.Context(), []*remediation.NodePlan{plan})[0].Outcome.Result)
			tc.event(t, p)
			require.Equal(t, tc.want, acting.Act(t.Context(), []*remediation.NodePlan{plan})[0].Outcome.Result == remediation.Deferred)
		})
	}
}
