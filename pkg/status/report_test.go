// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// testInput returns what a sync of these results is reported by, at epoch.
func testInput(results ...remediation.NodeResult) *Input {
	check := testCheck()
	in := &Input{Check: check, Policy: &remediation.Policy{}, Results: results, Listed: make([]*v1alpha1.UnhealthyNode, len(results)), Now: epoch}
	in.Before.Ledger = history.Recall(&check.Status)
	return in
}

// testResult returns that of a node with these own CRs.
func testResult(node *remediation.Node, crs ...*object.CR) remediation.NodeResult {
	node.Own = crs
	return remediation.NodeResult{Plan: &remediation.NodePlan{Node: node}, Outcome: &remediation.Outcome{}}
}

// TestNewStatus has nine selected nodes. Seven are healthy, one is unhealthy, and one is under remediation (spec 18).
func TestNewStatus(t *testing.T) {
	t.Parallel()
	in := testInput(testResult(testNode("a"), testCR("a", "1")), testResult(testNode("b")))
	in.Summary = health.Summary{Observed: 9, Healthy: 7, Unhealthy: 2, SoonUnhealthy: 1}
	in.Policy.Context.Gate = health.Gate{Observed: 9, Healthy: 7, Required: 5}
	status := New(in).Status
	require.EqualValues(t, 9, *status.ObservedNodes, "7.8: true counts")
	require.EqualValues(t, 7, *status.HealthyNodes)
	require.EqualValues(t, 2, *status.UnhealthyNodeCount)
	require.EqualValues(t, 1, *status.SoonUnhealthyNodes)
	require.EqualValues(t, 1, *status.RemediatingNodes, "18.3: those with remediations")
	require.EqualValues(t, 2, *status.RemediationsAllowed, "18.3: what the gate leaves")
	require.Equal(t, v1alpha1.PhaseRemediating, status.Phase)
	require.Equal(t, "NHC is remediating 1 nodes", status.Reason, "all are listed")
	require.Equal(t, epoch, status.LastUpdateTime.Time)
	require.Nil(t, status.StormRecoveryActive, "9.9: only with a threshold")
	require.Nil(t, status.StormRecoveryStartTime)

	in.Check.Status = *status
	later := *in
	later.Now = epoch.Add(time.Minute)
	require.Same(t, &in.Check.Status, New(&later).Status, "18.2: nothing has changed")

	later.Policy = &remediation.Policy{}
	later.Policy.Context.Gate = health.Gate{Observed: 9, Healthy: 4, Required: 5}
	later.Policy.Context.Storm = health.Storm{Active: true, Since: epoch}
	later.Check.Spec.StormRecoveryThreshold = new(int32(1))
	status = New(&later).Status
	require.Zero(t, *status.RemediationsAllowed, "18.3: not negative")
	require.True(t, *status.StormRecoveryActive)
	require.Equal(t, epoch, status.StormRecoveryStartTime.Time)
}

// TestNewEntry: which nodes are listed, and since when one is healthy (spec 18.4).
func TestNewEntry(t *testing.T) {
	t.Parallel()
	node := func(state health.State, change func(*remediation.NodePlan)) remediation.NodeResult {
		n := testNode("n")
		n.Verdict.State = state
		result := testResult(n)
		if change != nil {
			change(result.Plan)
		}
		return result
	}
	unselected := func(p *remediation.NodePlan) { p.Node.Constraints.Unselected = true }
	neverReported := func(p *remediation.NodePlan) { p.Node.Verdict.Status = "" }
	withCR := func(p *remediation.NodePlan) { p.Node.Own = []*object.CR{testCR("n", "1")} }
	healthySince := func(p *remediation.NodePlan) {
		withCR(p)
		p.Delayed, p.Node.HealthySince = true, epoch.Add(-time.Minute)
	}
	deleted := func(p *remediation.NodePlan) {
		withCR(p)
		p.Node.Constraints.NodeDeleted = true
	}
	before := &v1alpha1.UnhealthyNode{Name: "n"}
	for name, tc := range map[string]struct {
		result remediation.NodeResult
		old    *v1alpha1.UnhealthyNode
		listed bool
		since  time.Time
		delay  bool
	}{
		"unhealthy":                           {result: node(health.Unhealthy, nil), listed: true},
		"unhealthy, not selected":             {result: node(health.Unhealthy, unselected)},
		"soon unhealthy":                      {result: node(health.SoonUnhealthy, nil)},
		"soon unhealthy, listed before":       {result: node(health.SoonUnhealthy, nil), old: before, listed: true},
		"… but not selected any more":         {result: node(health.SoonUnhealthy, unselected), old: before},
		"7.6 it has never reported":           {result: node(health.SoonUnhealthy, neverReported), listed: true},
		"healthy":                             {result: node(health.Healthy, nil), old: before},
		"healthy, under remediation":          {result: node(health.Healthy, withCR), listed: true, since: epoch},
		"healthy for a minute, healthy delay": {result: node(health.Healthy, healthySince), listed: true, since: epoch.Add(-time.Minute), delay: true},
		"its Node is gone":                    {result: node(health.Healthy, deleted), listed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry, listed := newEntry(tc.result, tc.old, epoch)
			require.Equal(t, tc.listed, listed)
			require.Equal(t, !tc.since.IsZero(), entry.ConditionsHealthyTimestamp != nil)
			if entry.ConditionsHealthyTimestamp != nil {
				require.Equal(t, tc.since, entry.ConditionsHealthyTimestamp.Time)
			}
			require.Equal(t, tc.delay, entry.HealthyDelayed != nil && *entry.HealthyDelayed)
		})
	}
}

// TestDateDecision: a decision has been the same since status says so, or else the last report (spec 18.5).
func TestDateDecision(t *testing.T) {
	t.Parallel()
	decision := func(reason v1alpha1.DecisionReason, minutes int) *v1alpha1.Decision {
		return &v1alpha1.Decision{Type: v1alpha1.DecisionHeld, Reason: reason, Since: metav1.NewTime(epoch.Add(time.Duration(minutes) * time.Minute))}
	}
	entry := func(d *v1alpha1.Decision) *v1alpha1.UnhealthyNode { return &v1alpha1.UnhealthyNode{Decision: d} }
	remembered := decision(v1alpha1.DecidedPaused, -2)
	for name, tc := range map[string]struct {
		reason v1alpha1.DecisionReason
		old    *v1alpha1.UnhealthyNode
		known  *v1alpha1.Decision
		since  int
		same   bool
	}{
		"none":                            {},
		"it is new":                       {reason: v1alpha1.DecidedPaused},
		"an entry without one":            {reason: v1alpha1.DecidedPaused, old: entry(nil)},
		"it was another one":              {reason: v1alpha1.DecidedPaused, old: entry(decision(v1alpha1.DecidedGateClosed, -1)), known: decision(v1alpha1.DecidedGateClosed, -2)},
		"status has it":                   {reason: v1alpha1.DecidedPaused, old: entry(decision(v1alpha1.DecidedPaused, -1)), known: remembered, since: -1},
		"only the last report has it":     {reason: v1alpha1.DecidedPaused, known: remembered, since: -2, same: true},
		"status has another one, and not": {reason: v1alpha1.DecidedPaused, old: entry(decision(v1alpha1.DecidedGateClosed, -1)), known: remembered, since: -2, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := dateDecision(v1alpha1.Decision{Type: v1alpha1.DecisionHeld, Reason: tc.reason}, tc.old, tc.known, epoch)
			if tc.reason == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, decision(tc.reason, tc.since), got)
			require.Equal(t, tc.same, got == tc.known, "the same object")
		})
	}
}

// TestFinder finds entries in order, out of order, and none.
func TestFinder(t *testing.T) {
	t.Parallel()
	decision := &v1alpha1.Decision{Reason: v1alpha1.DecidedPaused}
	finder := Finder{Entries: []v1alpha1.UnhealthyNode{{Name: "a"}, {Name: "c", Decision: decision}, {Name: "d"}}}
	for _, name := range []string{"a", "c", "d", "c", "a", "b", "c", "e", "d", "0"} {
		entry := finder.Entry(name)
		if name == "b" || name == "e" || name == "0" {
			require.Nil(t, entry, name)
			continue
		}
		require.NotNil(t, entry, name)
		require.Equal(t, name, entry.Name)
	}
	require.Same(t, decision, finder.Decision("c"))
	require.Nil(t, finder.Decision("b"))
	require.Nil(t, finder.Decision("d"))
}

// TestLeftoverRemediations names some of what remediators hold, and counts the rest (spec 17.4).
func TestLeftoverRemediations(t *testing.T) {
	t.Parallel()
	var crs []*object.CR
	for i := range 12 {
		name := string(rune('a' + i))
		crs = append(crs, testCR(name, name))
	}
	crs[0].Namespace = ""
	c := &conditions{now: epoch}
	set := func(crs []*object.CR) *metav1.Condition {
		c.setLeftoverRemediations(crs)
		return meta.FindStatusCondition(c.list, v1alpha1.ConditionLeftoverRemediations)
	}
	require.Equal(t, "Remediation objects whose Nodes are gone are still being deleted (1 in all): RebootRemediation a", set(crs[:1]).Message)
	require.NotContains(t, set(crs[:10]).Message, "more")
	require.Contains(t, set(crs).Message, "RebootRemediation remediators/j and 2 more")
	require.Nil(t, set(nil))
}
