// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/batch"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
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
	c := &Controller{budgets: budget.None{}, clock: clock.RealClock{}}
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

// TestBatchOfNodes: what does not fit into a batch is deferred, in order of name, and the sync looks
// again at once for it (spec 8.4).
func TestBatchOfNodes(t *testing.T) {
	t.Parallel()
	c := &Controller{budgets: budget.None{}, clock: clocktesting.NewFakePassiveClock(epoch)}
	batched := &snapshot{nhc: testCheck(), state: (&nhcStates{}).of(testCheck())}
	results := failing(batch.MaxSize + 10)
	acted := make([]bool, len(results))
	c.actOn(batched, batch.Beginning, results, func(plan *remediation.NodePlan) remediation.Outcome {
		var i int
		_, err := fmt.Sscanf(plan.Node.Name, "node-%d", &i)
		acted[i] = err == nil
		return remediation.Outcome{Result: remediation.Created}
	})
	for i := range results {
		want := remediation.Deferred
		if i < batch.MaxSize {
			want = remediation.Created
		}
		require.Equal(t, want, results[i].Outcome.Result, "%s: in order of name", results[i].Plan.Node.Name)
		require.Equal(t, want == remediation.Created, acted[i])
	}
	s := newStory(t)
	deferred := sick("n", func(p *part) { p.outcome.Result = remediation.Deferred })
	require.Equal(t, s.now, s.result(deferred).recheck(), "8.4: the sync is repeated at once")
}

// TestLateAnswer: a node for which a request is not answered is left alone until it is. What is due for it then is done by the
// next sync, which the answer and its report call (spec 8.4, P2).
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics, err := newMetrics(prometheus.NewRegistry())
		require.NoError(t, err)
		c := newPlatformController()
		c.clock, c.metrics, c.remediations = clock.RealClock{}, metrics, watches.NewSet[schema.GroupKind](watches.Config{})
		defer c.queue.ShutDown()
		defer endWatches(t, c.remediations)
		s := testSnapshot(testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
			nhc.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootRemediationTemplate", Name: "reboot"}
		}), testNode("n"))
		nhcs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
		require.NoError(t, nhcs.Add(s.nhc))
		c.nhcs = nhclisters.NewNodeHealthCheckLister(nhcs)
		plans := []remediation.NodePlan{{Node: &s.nodes[0], Actions: []remediation.Action{remediation.Delete{CR: testCR("n", "1")}}}}
		hangs := func(*remediation.NodePlan) remediation.Outcome {
			time.Sleep(10 * time.Second)
			return remediation.Outcome{Result: remediation.Created, CR: testCR("n", "1")}
		}
		results := []remediation.NodeResult{{Plan: &plans[0], Outcome: &remediation.Outcome{}}}
		c.actOn(s, batch.Beginning, results, hangs)
		require.Equal(t, remediation.Unanswered, results[0].Outcome.Result)
		require.Equal(t, remediation.Unanswered, c.act(t.Context(), s, &evaluation.Result{}, plans)[0].Outcome.Result, "nothing is sent: there is no client")
		require.Empty(t, woken(c))
		require.False(t, s.state.acting.Idle())

		c.acting.Wait()
		require.Equal(t, []string{"workers"}, woken(c), "the answer calls")
		require.Equal(t, remediation.Created, c.act(t.Context(), s, &evaluation.Result{}, plans)[0].Outcome.Result)
		require.Equal(t, []string{"workers"}, woken(c), "the deletion is due")
	})
}

// TestDeferredPlansAreNotAttempts: a plan that was left to the next batch has neither succeeded
// nor failed.
func TestDeferredPlansAreNotAttempts(t *testing.T) {
	t.Parallel()
	c, s := &Controller{budgets: budget.None{}, clock: clock.RealClock{}}, testSnapshot(testCheck(), testNode("n"))
	node := &s.nodes[0]
	s.state.attempts.Failed(keyOf(node), &remediation.Outcome{Err: errors.New("denied")}, epoch)
	s.state.releasing.Insert("n")
	node.Lease = &coordinationv1.Lease{}
	plan := &remediation.NodePlan{Node: node, Actions: []remediation.Action{remediation.Create{}}}
	c.rememberOutcomes(t.Context(), s, []remediation.NodeResult{{Plan: plan, Outcome: &remediation.Outcome{Result: remediation.Deferred}}})
	require.NotZero(t, s.state.attempts.Of(keyOf(node)).Due)
	require.True(t, s.state.releasing.Has("n"))
	c.rememberOutcomes(t.Context(), s, []remediation.NodeResult{{Plan: plan, Outcome: &remediation.Outcome{Result: remediation.Created}}})
	require.Zero(t, s.state.attempts.Of(keyOf(node)).Due)
	require.False(t, s.state.releasing.Has("n"))
}

// TestOutdated: a plan by another spec does not begin (spec 5.1, 13.3).
func TestOutdated(t *testing.T) {
	t.Parallel()
	change := func(change func(*v1alpha1.NodeHealthCheck)) func(*testing.T, *preflight) {
		return func(t *testing.T, p *preflight) {
			t.Helper()
			require.NoError(t, p.nhcStore.Update(testCheck(change)))
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
		"5.1 it is gone":                           {event: func(t *testing.T, p *preflight) { t.Helper(); require.NoError(t, p.nhcStore.Delete(testCheck())) }, want: true},
		"the clock is no longer trusted":           {event: func(_ *testing.T, p *preflight) { p.clockTrusted = func() bool { return false } }, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPreflight(testCheck(), clocktesting.NewFakePassiveClock(epoch))
			require.False(t, p.outdated(p.snapshot))
			tc.event(t, p)
			require.Equal(t, tc.want, p.outdated(p.snapshot))
			plan := &remediation.NodePlan{Node: &remediation.Node{}}
			require.Equal(t, tc.want, p.newActor(p.snapshot, &remediation.Policy{}).carryOut(t.Context(), plan).Result == remediation.Deferred)
		})
	}
}
