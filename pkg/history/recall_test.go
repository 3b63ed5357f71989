// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func entry(changes ...func(*v1alpha1.UnhealthyNode)) v1alpha1.UnhealthyNode {
	entry := v1alpha1.UnhealthyNode{Name: "node-1"}
	for _, change := range changes {
		change(&entry)
	}
	return entry
}

func remediatedBy(crs ...v1alpha1.Remediation) func(*v1alpha1.UnhealthyNode) {
	return func(n *v1alpha1.UnhealthyNode) { n.Remediations = crs }
}

func detected(n *v1alpha1.UnhealthyNode) { n.Trigger, n.Detected = notReady(), new(stamp(5)) }

func TestRecall(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	tests := map[string]struct {
		history []v1alpha1.Episode
		nodes   []v1alpha1.UnhealthyNode
		open    []v1alpha1.Episode
		closed  []string
	}{
		"nothing":              {},
		"an open one":          {history: []v1alpha1.Episode{remediated}, open: []v1alpha1.Episode{remediated}},
		"the history prevails": {history: []v1alpha1.Episode{remediated}, nodes: []v1alpha1.UnhealthyNode{entry(remediatedBy(fencing(9)))}, open: []v1alpha1.Episode{remediated}},
		"a closed one":         {history: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeRecovered))}, closed: []string{"node-1 00:05 - 00:09"}},
		"closed ones, the last to end first": {
			history: []v1alpha1.Episode{open(endedAt(8, v1alpha1.OutcomeRecovered)), open(endedAt(9, v1alpha1.OutcomeRecovered))},
			closed:  []string{"node-1 00:05 - 00:09", "node-1 00:05 - 00:08"},
		},
		"closed, and listed again": {
			history: []v1alpha1.Episode{open(detectedAt(1), endedAt(4, v1alpha1.OutcomeRecovered))}, nodes: []v1alpha1.UnhealthyNode{entry(detected)},
			open: []v1alpha1.Episode{open()}, closed: []string{"node-1 00:01 - 00:04"},
		},
		"open twice, the later": {history: []v1alpha1.Episode{open(detectedAt(1)), open(), open(detectedAt(3))}, open: []v1alpha1.Episode{open()}},
		"open twice, the first": {history: []v1alpha1.Episode{remediated, open()}, open: []v1alpha1.Episode{remediated}},
		"an outcome without an end": {
			history: []v1alpha1.Episode{open(func(e *v1alpha1.Episode) { e.Finished, e.Outcome = &metav1.Time{}, v1alpha1.OutcomeRecovered })},
			open:    []v1alpha1.Episode{open()},
		},
		"what the API would refuse": {history: []v1alpha1.Episode{
			{}, open(of("")), open(func(e *v1alpha1.Episode) { e.Detected = metav1.Time{} }),
			open(took(make([]v1alpha1.EpisodeStep, 1)...)), open(took(manySteps(33)...)), open(took(manySteps(33)...), endedAt(9, v1alpha1.OutcomeRecovered)),
		}},
		"as many steps as there may be": {history: []v1alpha1.Episode{open(took(manySteps(32)...))}, open: []v1alpha1.Episode{open(took(manySteps(32)...))}},

		"listed":                           {nodes: []v1alpha1.UnhealthyNode{entry(detected)}, open: []v1alpha1.Episode{open()}},
		"listed twice":                     {nodes: []v1alpha1.UnhealthyNode{entry(detected), entry(remediatedBy(reboot(6)))}, open: []v1alpha1.Episode{open()}},
		"listed, by the upstream operator": {nodes: []v1alpha1.UnhealthyNode{entry()}},
		"listed without a name":            {nodes: []v1alpha1.UnhealthyNode{entry(detected, func(n *v1alpha1.UnhealthyNode) { n.Name = "" })}},
		"remediated": {
			nodes: []v1alpha1.UnhealthyNode{entry(detected, remediatedBy(timedOut(7, reboot(6)), fencing(7)))},
			open:  []v1alpha1.Episode{open(took(ended(step("Reboot", 6), 7, v1alpha1.StepTimedOut), step("Fence", 7)))},
		},
		"remediated, not in order": {
			nodes: []v1alpha1.UnhealthyNode{entry(detected, remediatedBy(fencing(7), reboot(6)))},
			open:  []v1alpha1.Episode{open(took(step("Reboot", 6), step("Fence", 7)))},
		},
		"remediated by the upstream operator": {
			nodes: []v1alpha1.UnhealthyNode{entry(remediatedBy(reboot(6)))},
			open:  []v1alpha1.Episode{{Node: "node-1", Steps: []v1alpha1.EpisodeStep{step("Reboot", 6)}}},
		},
		"remediation without a time": {nodes: []v1alpha1.UnhealthyNode{entry(remediatedBy(v1alpha1.Remediation{}))}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := &v1alpha1.NodeHealthCheckStatus{RemediationHistory: tc.history, UnhealthyNodes: tc.nodes}
			before := status.DeepCopy()
			got := Recall(status)
			require.Equal(t, before, status, "it stays as it is")
			require.Equal(t, ledger(tc.open...).open, got.open)
			require.Equal(t, tc.closed, describe(got.closed))
		})
	}
	require.Equal(t, ledger(), Recall(nil))
}

func manySteps(n int) (steps []v1alpha1.EpisodeStep) {
	for i := range n {
		steps = append(steps, step("Reboot", float64(i)))
	}
	return steps
}

// TestRecalledIsCompleted takes over from the upstream operator, whose status does
// not tell when a node was detected.
func TestRecalledIsCompleted(t *testing.T) {
	t.Parallel()
	takenOver := v1alpha1.Episode{Node: "node-1", Steps: []v1alpha1.EpisodeStep{step("Reboot", 6)}}
	noTrigger := func(e *v1alpha1.Episode) { e.Trigger = nil }
	rows{
		"the condition shows it": {before: &takenOver, saw: unhealthy(with(reboot(6))), now: at(9), after: new(open(startedAt(6), took(step("Reboot", 6))))},
		"another condition by now": {
			before: &takenOver, saw: unhealthy(since(at(8)), with(reboot(6))), now: at(9),
			after: new(open(detectedAt(6), startedAt(6), took(step("Reboot", 6)))),
		},
		"healthy by now": {before: &takenOver, saw: healthy(with(reboot(6))), now: at(9), after: new(open(detectedAt(6), noTrigger, startedAt(6), took(step("Reboot", 6)), finishedAt(9)))},
		"it is over": {
			before: &takenOver, saw: healthy(), now: at(9),
			done: []v1alpha1.Episode{open(detectedAt(6), noTrigger, startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepRecovered)), endedAt(9, v1alpha1.OutcomeRecovered))},
		},
		"deleted by now, whatever its conditions were": {
			before: &takenOver, saw: unhealthy(with(reboot(6)), func(o *Observation) { o.NodeDeleted = true }), now: at(9),
			after: new(open(detectedAt(6), noTrigger, startedAt(6), fencedAt(9), took(step("Reboot", 6)))),
		},
		"not observed": {
			before: &takenOver, saw: healthy(named("node-2")), now: at(9),
			done: []v1alpha1.Episode{open(detectedAt(6), noTrigger, startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepVanished)), endedAt(9, v1alpha1.OutcomeCancelled))},
		},
		"another Node by now": {
			before: &takenOver, saw: unhealthy(created(8), since(at(8.5)), with(reboot(6))), now: at(9),
			after: new(open(detectedAt(6), startedAt(6), fencedAt(8), took(step("Reboot", 6)))),
		},
	}.run(t)
}

// TestRecallInventsNothing: a CR for a node that was never unhealthy begins no episode, for no process (spec 23b.1). S21: it
// did after a restart.
func TestRecallInventsNothing(t *testing.T) {
	t.Parallel()
	decided := func(n *v1alpha1.UnhealthyNode) { n.Decision = &v1alpha1.Decision{Type: v1alpha1.DecisionWaiting} }
	status := &v1alpha1.NodeHealthCheckStatus{UnhealthyNodes: []v1alpha1.UnhealthyNode{entry(remediatedBy(reboot(6)), decided)}}
	require.Empty(t, Recall(status).open)
}
