// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func TestStepOwns(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		step Step
		cr   *CR
		want bool
	}{
		"1.4 named by its annotation":                       {step: rebootStep(), cr: cr("anything", forNode("n"), from("reboot")), want: true},
		"1.4 another template of the kind":                  {step: rebootStep(), cr: cr("n", forNode("n"), from("other"))},
		"1.4 an empty annotation names another template":    {step: rebootStep(), cr: cr("n", from(""))},
		"1.4 without annotation, named like the node":       {step: rebootStep(), cr: cr("n"), want: true},
		"1.4 without annotation, not named like the node":   {step: rebootStep(), cr: cr("n-x7k2p", forNode("n"))},
		"1.4 same kind and name, told apart by namespace":   {step: step("RebootRemediationTemplate", "elsewhere", "reboot"), cr: cr("n", from("reboot"))},
		"P9 same name, another kind":                        {step: step("FenceRemediationTemplate", testNamespace, "reboot"), cr: cr("n", from("reboot"))},
		"P9 same name and kind, another group":              {step: rebootStep(), cr: cr("n", from("reboot"), ofGroup("example.org/v1"))},
		"1.4 another version of the kind is the same thing": {step: rebootStep(), cr: cr("n", from("reboot"), ofGroup("example.com/v2")), want: true},
		"1.4 a cluster-scoped CR has no namespace":          {step: rebootStep(), cr: cr("n", from("reboot"), inNamespace("")), want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.step.owns(tc.cr))
		})
	}
}

func TestStepDurations(t *testing.T) {
	t.Parallel()
	template := rebootStep().Reference
	entry := func(order int32, timeout time.Duration) v1alpha1.EscalatingRemediation {
		return v1alpha1.EscalatingRemediation{Order: order, RemediationTemplate: template, Timeout: metav1.Duration{Duration: timeout}}
	}
	tests := map[string]struct {
		spec      v1alpha1.NodeHealthCheckSpec
		durations []time.Duration
	}{
		"1.4 classic: a single step of 10 minutes":            {spec: v1alpha1.NodeHealthCheckSpec{RemediationTemplate: &template}, durations: []time.Duration{10 * time.Minute}},
		"13.1 ascending order, negative ones first":           {spec: v1alpha1.NodeHealthCheckSpec{EscalatingRemediations: []v1alpha1.EscalatingRemediation{entry(7, 3*time.Minute), entry(-2, time.Minute), entry(0, 2*time.Minute)}}, durations: []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}},
		"4.7 a stored spec with both is classic":              {spec: v1alpha1.NodeHealthCheckSpec{RemediationTemplate: &template, EscalatingRemediations: []v1alpha1.EscalatingRemediation{entry(1, time.Minute)}}, durations: []time.Duration{10 * time.Minute}},
		"4.7 a stored spec with the same order twice":         {spec: v1alpha1.NodeHealthCheckSpec{EscalatingRemediations: []v1alpha1.EscalatingRemediation{entry(1, time.Hour), entry(1, time.Minute)}}, durations: []time.Duration{time.Hour, time.Minute}},
		"4.7 a stored spec without template":                  {durations: []time.Duration{}},
		"13.1 the extremes of order do not wrap around":       {spec: v1alpha1.NodeHealthCheckSpec{EscalatingRemediations: []v1alpha1.EscalatingRemediation{entry(1<<31-1, 2*time.Minute), entry(-1<<31, time.Minute)}}, durations: []time.Duration{time.Minute, 2 * time.Minute}},
		"4.7 a stored timeout of zero: no end by its timeout": {spec: v1alpha1.NodeHealthCheckSpec{EscalatingRemediations: []v1alpha1.EscalatingRemediation{entry(1, 0)}}, durations: []time.Duration{10 * time.Minute}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			durations := []time.Duration{}
			for _, step := range Steps(&tc.spec) {
				durations = append(durations, step.Duration())
			}
			require.Equal(t, tc.durations, durations)
		})
	}
}

// TestTrace: how far a node with some CRs has come, of the three steps of escalation.
func TestTrace(t *testing.T) {
	t.Parallel()
	uid := func(uid types.UID) func(*CR) { return func(c *CR) { c.UID = uid } }
	minute := func(n int) func(*CR) { return createdAt(epoch.Add(time.Duration(n) * time.Minute)) }
	stranger := func(changes ...func(*CR)) *CR {
		return cr("stranger", append([]func(*CR){forNode("n"), uid("stranger")}, changes...)...)
	}
	tests := map[string]struct {
		own     []*CR
		over    []*CR
		asked   []types.UID
		current int
		running types.UID
		going   int
		reached int
		strange bool
	}{
		"13.1 no CR":                                           {reached: -1},
		"13.2 the first step runs":                             {own: []*CR{soft()}, running: "soft-uid"},
		"13.2 over by its annotation":                          {own: []*CR{soft(timedOut)}, current: 1},
		"13.2 over by an annotation that is no time":           {own: []*CR{soft(annotate(v1alpha1.AnnotationTimedOut, "garbage"))}, current: 1},
		"13.2 over by its status entry":                        {own: []*CR{soft()}, over: []*CR{soft()}, current: 1},
		"13.2 not by the entry of a namesake":                  {own: []*CR{soft(uid("new"))}, over: []*CR{soft()}, running: "new"},
		"13.2 over because the next step has a CR":             {own: []*CR{soft(), fence()}, current: 1, running: "fence-uid", reached: 1},
		"13.2 a later one counts too, those between are over":  {own: []*CR{soft(), hard()}, current: 2, running: "hard-uid", reached: 2},
		"13.2 a later CR that is going does not":               {own: []*CR{soft(), fence(deleting)}, running: "soft-uid", going: 1, reached: 1},
		"13.2 nor one whose deletion we have asked for":        {own: []*CR{soft(), fence()}, asked: []types.UID{"fence-uid"}, running: "soft-uid", going: 1, reached: 1},
		"13.2 one that is going stands for no step":            {own: []*CR{soft(deleting, timedOut)}, going: 1},
		"13.6 all are over":                                    {own: []*CR{soft(timedOut), fence(timedOut), hard(timedOut)}, current: 3, reached: 2},
		"13.6 the last one alone suffices":                     {own: []*CR{hard(timedOut)}, current: 3, reached: 2},
		"11.6 the current step's CR has vanished":              {own: []*CR{soft(timedOut)}, current: 1},
		"11.6 earlier CRs have vanished":                       {own: []*CR{fence()}, current: 1, running: "fence-uid", reached: 1},
		"P9 several templates of one kind: the first is over":  {own: []*CR{soft(timedOut), hard()}, current: 2, running: "hard-uid", reached: 2},
		"P9 several templates of one kind: only the last one":  {own: []*CR{hard()}, current: 2, running: "hard-uid", reached: 2},
		"11.8 the oldest is the step's":                        {own: []*CR{soft(minute(3), uid("b")), soft(minute(1), uid("c")), soft(minute(2), uid("a"))}, running: "c"},
		"11.8 equal creation seconds: always the same one":     {own: []*CR{soft(uid("b")), soft(uid("a"))}, running: "a"},
		"11.8 the oldest is over":                              {own: []*CR{soft(uid("a"), timedOut), soft(minute(1), uid("b"))}, current: 1},
		"11.8 a younger one that is over ends nothing":         {own: []*CR{soft(uid("a")), soft(minute(1), uid("b"), timedOut)}, running: "a"},
		"11.8 the entry of a younger one ends nothing":         {own: []*CR{soft(uid("a")), soft(minute(1), uid("b"))}, over: []*CR{soft(uid("b"))}, running: "a"},
		"11.8 13.2 the oldest is going: the next oldest is it": {own: []*CR{soft(uid("a"), deleting), soft(minute(1), uid("b"))}, running: "b", going: 1},
		"1.4 a CR of no step":                                  {own: []*CR{soft(), stranger()}, running: "soft-uid", strange: true},
		"1.4 a CR of no step alone":                            {own: []*CR{stranger()}, reached: -1, strange: true},
		"1.4 a CR of no step that is going disturbs nobody":    {own: []*CR{stranger(deleting)}, reached: -1, going: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := escalation().Steps
			node := sick("n", with(tc.own...), recordedAs(tc.over...), requested(tc.asked...))
			Sort(steps, node.Own)
			got := trace(&node, steps)
			require.Equal(t, tc.current, got.current)
			require.Len(t, got.going, tc.going)
			require.Equal(t, len(tc.own)-tc.going, got.standing)
			require.Equal(t, tc.reached, got.reached)
			require.Equal(t, tc.strange, got.unknown)
			if tc.running == "" {
				require.Nil(t, got.running)
			} else {
				require.Equal(t, tc.running, got.running.UID)
			}
		})
	}
}

// TestNextStepWaits: a step goes on until what its successor replaces is gone. This
// needs a status that was lost: it would say that the step is over.
func TestNextStepWaits(t *testing.T) {
	t.Parallel()
	lease := leased(held(ours, epoch, lasting(36000)))
	second := Name("n", escalation().Templates[1])
	tests := map[string]struct {
		own  []*CR
		want []string
	}{
		"5.3 P9 it has failed, and the next CR is going":       {own: []*CR{soft(failed), fence(deleting, timedOut)}},
		"5.3 P9 it has succeeded, and the next CR is going":    {own: []*CR{soft(succeeded), fence(deleting, timedOut)}},
		"13.8 5.3 and the next CR is told to stop":             {own: []*CR{soft(failed), fence(deleting)}, want: []string{"mark fence at 01:00:00"}},
		"13.3 a CR of the step after the next is no obstacle":  {own: []*CR{soft(failed), hard(deleting, timedOut)}, want: []string{"confirm", "end soft at 01:00:00", "create " + second}},
		"13.6 the last step has no successor to wait for":      {own: []*CR{soft(deleting, timedOut), hard()}, want: []string{"confirm", "end hard at 01:00:00"}},
		"13.2 P9 it is over, and its own successor is going":   {own: []*CR{soft(timedOut), fence(deleting, timedOut)}},
		"13.2 P9 it is over, and only its former CR is going":  {own: []*CR{soft(timedOut), soft(deleting, timedOut, func(c *CR) { c.UID = "former" })}, want: []string{"confirm", "create " + second}},
		"P9 nothing begins while the only CR, a later, leaves": {own: []*CR{hard(deleting, timedOut)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := escalation()
			node := sick("n", lease, with(tc.own...))
			Sort(s.Steps, node.Own)
			require.Equal(t, tc.want, describe(planBy(s, node, epoch.Add(time.Hour)).Actions))
		})
	}
}

// TestRecheckOfShortestStep: with a timeout of a minute, a lease is due when it may
// not be renewed yet. The controller must not spin until it may.
func TestRecheckOfShortestStep(t *testing.T) {
	t.Parallel()
	s := escalation()
	s.Steps[0].Timeout = time.Minute
	now := epoch.Add(time.Minute)
	tests := map[string]struct {
		lease   *coordinationv1.Lease
		node    Node
		now     time.Time
		want    []string
		recheck time.Time
	}{
		"14.5 at the boundary: no renewal, and soon another look": {lease: held(ours, epoch, lasting(120)), node: sick("n", well, with(soft(deleting))), now: now, recheck: now.Add(time.Second)},
		"14.5 after the boundary":                                 {lease: held(ours, epoch, lasting(120)), node: sick("n", well, with(soft(deleting))), now: now.Add(time.Second), want: []string{"lease node-n"}, recheck: now.Add(61 * time.Second)},
		"14.5 before the boundary":                                {lease: held(ours, epoch, lasting(120)), node: sick("n", well, with(soft(deleting))), now: now.Add(-1), recheck: now},
		"14.6 acquireTime repaired at the boundary": {
			lease: held(ours, epoch, lasting(120), noAcquireTime), node: sick("n", soon, with(soft())), now: now, want: []string{"lease node-n"}, recheck: now.Add(time.Second),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leased(tc.lease)(&tc.node)
			plan := planBy(s, tc.node, tc.now)
			require.Equal(t, tc.want, describe(plan.Actions))
			require.Equal(t, tc.recheck, plan.Recheck, "P2")
		})
	}
}

// TestLeaseWithoutHolder: one that stands in the way is not removed, although a CR of
// ours was there (spec 14.3, 14.9).
func TestLeaseWithoutHolder(t *testing.T) {
	t.Parallel()
	node := sick("n", leased(held("", epoch, noHolder)), recordedAs(soft()))
	plan := planBy(escalation(), node, epoch.Add(time.Minute))
	require.Empty(t, plan.Actions)
	require.Equal(t, v1alpha1.DecidedLeaseTaken, plan.Refusal())
	require.Equal(t, epoch.Add(2*time.Minute), plan.Recheck, "14.3: the next attempt within a minute")
}

// TestRemind: a remediator that has missed the return of the Node is told once more, and
// only once for each return (spec 13.8).
func TestRemind(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	created := func(at time.Duration) func(*Node) { return func(n *Node) { n.Created = epoch.Add(at) } }
	deletedAt := func(at time.Duration) func(*CR) {
		return func(c *CR) { c.DeletionTimestamp = new(metav1.NewTime(epoch.Add(at))) }
	}
	markedAt := func(at time.Duration) func(*CR) {
		return annotate(v1alpha1.AnnotationTimedOut, epoch.Add(at).Format(time.RFC3339))
	}
	tests := map[string]struct {
		node    Node
		now     time.Duration
		want    []string
		recheck time.Duration
	}{
		"13.8 the Node is back, healthy, for a minute":   {node: sick("n", well, created(5*m), with(cr("n", deletedAt(m), markedAt(m)))), now: 6 * m, want: []string{"remind n at 00:06:00"}},
		"13.8 the Node is back, unhealthy":               {node: sick("n", created(5*m), with(cr("n", deletedAt(m), markedAt(m)))), now: 6 * m, want: []string{"remind n at 00:06:00"}},
		"13.8 soon-unhealthy as well":                    {node: sick("n", soon, created(5*m), with(cr("n", deletedAt(m), markedAt(m)))), now: 6 * m, want: []string{"remind n at 00:06:00"}},
		"13.8 not before a minute has passed":            {node: sick("n", well, created(5*m), with(cr("n", deletedAt(m), markedAt(m)))), now: 6*m - 1, recheck: 6 * m},
		"13.8 a minute since the deletion too":           {node: sick("n", well, created(5*m), with(cr("n", deletedAt(8*m), markedAt(m)))), now: 6 * m, recheck: 9 * m},
		"13.8 once per return":                           {node: sick("n", well, created(5*m), with(cr("n", deletedAt(m), markedAt(6*m)))), now: 20 * m},
		"13.8 once per return: and again after the next": {node: sick("n", well, created(30*m), with(cr("n", deletedAt(m), markedAt(6*m)))), now: 31 * m, want: []string{"remind n at 00:31:00"}},
		"13.8 back in the same second":                   {node: sick("n", well, created(m), with(cr("n", deletedAt(m), markedAt(m)))), now: 2 * m, want: []string{"remind n at 00:02:00"}},
		"13.8 the Node was there all the time":           {node: sick("n", well, created(-m), with(cr("n", deletedAt(m), markedAt(m)))), now: 20 * m},
		"13.8 never on a success":                        {node: sick("n", well, created(5*m), with(cr("n", deletedAt(m), markedAt(m), succeeded))), now: 20 * m},
		"13.8 the mark was denied when the Node went":    {node: sick("n", well, created(5*m), with(cr("n", deletedAt(m)))), now: 20 * m, want: []string{"remind n at 00:20:00"}},
		"13.8 deleted because the Node has recovered":    {node: sick("n", well, created(m), with(cr("n", deletedAt(5*m)))), now: 20 * m},
		"13.8 not what is not being deleted":             {node: sick("n", soon, created(5*m), with(cr("n", markedAt(m)))), now: 20 * m},
		"13.8 the Node is gone":                          {node: sick("n", gone, with(cr("n", deletedAt(m), markedAt(m)))), now: 20 * m},
		"6.7 not in a conflict":                          {node: sick("n", created(5*m), with(cr("n", deletedAt(m), markedAt(m))), under(func(c *Constraints) { c.Conflict = true })), now: 20 * m},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(tc.node, epoch.Add(tc.now))
			require.Equal(t, tc.want, describe(plan.Actions))
			if tc.recheck == 0 {
				require.Zero(t, plan.Recheck)
			} else {
				require.Equal(t, epoch.Add(tc.recheck), plan.Recheck, "P2")
			}
		})
	}
}
