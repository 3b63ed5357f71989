// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestStepOwns(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		step Step
		cr   *object.CR
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
			require.Equal(t, tc.want, tc.step.Owns(tc.cr))
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
	uid := func(uid types.UID) func(*object.CR) { return func(c *object.CR) { c.UID = uid } }
	minute := func(n int) func(*object.CR) { return createdAt(epoch.Add(time.Duration(n) * time.Minute)) }
	stranger := func(changes ...func(*object.CR)) *object.CR {
		return cr("stranger", append([]func(*object.CR){forNode("n"), uid("stranger")}, changes...)...)
	}
	tests := map[string]struct {
		own     []*object.CR
		over    []*object.CR
		asked   []types.UID
		current int
		running types.UID
		going   int
		reached int
		strange bool
	}{
		"13.1 no CR":                                           {reached: -1},
		"13.2 the first step runs":                             {own: []*object.CR{soft()}, running: "soft-uid"},
		"13.2 over by its annotation":                          {own: []*object.CR{soft(timedOut)}, current: 1},
		"13.2 over by an annotation that is no time":           {own: []*object.CR{soft(annotate(v1alpha1.AnnotationTimedOut, "garbage"))}, current: 1},
		"13.2 over by its status entry":                        {own: []*object.CR{soft()}, over: []*object.CR{soft()}, current: 1},
		"13.2 not by the entry of another of that name":        {own: []*object.CR{soft(uid("new"))}, over: []*object.CR{soft()}, running: "new"},
		"13.2 over because the next step has a CR":             {own: []*object.CR{soft(), fence()}, current: 1, running: "fence-uid", reached: 1},
		"13.2 a later one counts too, those between are over":  {own: []*object.CR{soft(), hard()}, current: 2, running: "hard-uid", reached: 2},
		"13.2 a later CR that is going does not":               {own: []*object.CR{soft(), fence(deleting)}, running: "soft-uid", going: 1, reached: 1},
		"13.2 nor one whose deletion we have asked for":        {own: []*object.CR{soft(), fence()}, asked: []types.UID{"fence-uid"}, running: "soft-uid", going: 1, reached: 1},
		"13.2 one that is going stands for no step":            {own: []*object.CR{soft(deleting, timedOut)}, going: 1},
		"13.6 all are over":                                    {own: []*object.CR{soft(timedOut), fence(timedOut), hard(timedOut)}, current: 3, reached: 2},
		"13.6 the last one alone suffices":                     {own: []*object.CR{hard(timedOut)}, current: 3, reached: 2},
		"11.6 the current step's CR has vanished":              {own: []*object.CR{soft(timedOut)}, current: 1},
		"11.6 earlier CRs have vanished":                       {own: []*object.CR{fence()}, current: 1, running: "fence-uid", reached: 1},
		"P9 several templates of one kind: the first is over":  {own: []*object.CR{soft(timedOut), hard()}, current: 2, running: "hard-uid", reached: 2},
		"P9 several templates of one kind: only the last one":  {own: []*object.CR{hard()}, current: 2, running: "hard-uid", reached: 2},
		"11.8 the oldest is the step's":                        {own: []*object.CR{soft(minute(3), uid("b")), soft(minute(1), uid("c")), soft(minute(2), uid("a"))}, running: "c"},
		"11.8 equal creation seconds: always the same one":     {own: []*object.CR{soft(uid("b")), soft(uid("a"))}, running: "a"},
		"11.8 the oldest is over":                              {own: []*object.CR{soft(uid("a"), timedOut), soft(minute(1), uid("b"))}, current: 1},
		"11.8 a younger one that is over ends nothing":         {own: []*object.CR{soft(uid("a")), soft(minute(1), uid("b"), timedOut)}, running: "a"},
		"11.8 the entry of a younger one ends nothing":         {own: []*object.CR{soft(uid("a")), soft(minute(1), uid("b"))}, over: []*object.CR{soft(uid("b"))}, running: "a"},
		"11.8 13.2 the oldest is going: the next oldest is it": {own: []*object.CR{soft(uid("a"), deleting), soft(minute(1), uid("b"))}, running: "b", going: 1},
		"1.4 a CR of no step":                                  {own: []*object.CR{soft(), stranger()}, running: "soft-uid", strange: true},
		"1.4 a CR of no step alone":                            {own: []*object.CR{stranger()}, reached: -1, strange: true},
		"1.4 a CR of no step that is going disturbs nothing":   {own: []*object.CR{stranger(deleting)}, reached: -1, going: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := escalation().Steps
			node := sick("n", with(tc.own...), recordedAs(tc.over...), requested(tc.asked...))
			Sort(steps, node.Own)
			got := trace(&node, steps)
			require.Equal(t, tc.current, got.current)
			require.Len(t, got.deleting, tc.going)
			require.Equal(t, len(tc.own)-tc.going, got.remaining)
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
	second := object.Name("n", escalation().Templates[1])
	tests := map[string]struct {
		own  []*object.CR
		want []string
	}{
		"5.3 P9 it has failed, and the next CR is going":       {own: []*object.CR{soft(failed), fence(deleting, timedOut)}},
		"5.3 P9 it has succeeded, and the next CR is going":    {own: []*object.CR{soft(succeeded), fence(deleting, timedOut)}},
		"13.8 5.3 and the next CR is told to stop":             {own: []*object.CR{soft(failed), fence(deleting)}, want: []string{"mark fence at 01:00:00"}},
		"13.3 a CR of the step after the next is no obstacle":  {own: []*object.CR{soft(failed), hard(deleting, timedOut)}, want: []string{"confirm", "end soft at 01:00:00", "create " + second}},
		"13.6 the last step has no successor to wait for":      {own: []*object.CR{soft(deleting, timedOut), hard()}, want: []string{"confirm", "end hard at 01:00:00"}},
		"13.2 P9 it is over, and its own successor is going":   {own: []*object.CR{soft(timedOut), fence(deleting, timedOut)}},
		"13.2 P9 it is over, and only its former CR is going":  {own: []*object.CR{soft(timedOut), soft(deleting, timedOut, func(c *object.CR) { c.UID = "former" })}, want: []string{"confirm", "create " + second}},
		"P9 nothing begins while the only CR, a later, leaves": {own: []*object.CR{hard(deleting, timedOut)}},
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
	deletedAt := func(at time.Duration) func(*object.CR) {
		return func(c *object.CR) { c.DeletionTimestamp = new(metav1.NewTime(epoch.Add(at))) }
	}
	markedAt := func(at time.Duration) func(*object.CR) {
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

// TestStepsAreRankedByOrder shuffles the list: order alone ranks.
func TestStepsAreRankedByOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	orders := []int32{-7, 0, 3, 10, 2147483647}
	escalation := func(order int32) v1alpha1.EscalatingRemediation {
		return v1alpha1.EscalatingRemediation{
			Order: order, RemediationTemplate: corev1.ObjectReference{Name: fmt.Sprint("template", order)}, Timeout: metav1.Duration{Duration: time.Hour},
		}
	}
	for range 50 {
		var spec v1alpha1.NodeHealthCheckSpec
		for _, i := range random.Perm(len(orders)) {
			spec.EscalatingRemediations = append(spec.EscalatingRemediations, escalation(orders[i]))
		}
		before := *spec.DeepCopy()
		steps := Steps(&spec)
		require.Len(t, steps, len(orders))
		for i, step := range steps {
			require.Equal(t, Step{Order: orders[i], Reference: escalation(orders[i]).RemediationTemplate, Timeout: time.Hour}, step, "P7 13.1")
		}
		require.Equal(t, before, spec, "the spec stays as it is")
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	reference := corev1.ObjectReference{APIVersion: testGroupVersion, Kind: "ATemplate", Namespace: "n", Name: "a"}
	require.Equal(t, []Step{{Reference: reference}}, Steps(&v1alpha1.NodeHealthCheckSpec{RemediationTemplate: &reference}), "1.4: a classic one has a single step")
	require.Empty(t, Steps(&v1alpha1.NodeHealthCheckSpec{}), "4.7: a stored spec without any")
}

func TestRemediationKind(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reference corev1.ObjectReference
		want      schema.GroupVersionKind
		ok        bool
	}{
		"11.1 without Template":      {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "FooTemplate"}, want: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Foo"}, ok: true},
		"11.1 only the end is cut":   {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "TemplateFooTemplate"}, want: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "TemplateFoo"}, ok: true},
		"11.1 core group":            {reference: corev1.ObjectReference{APIVersion: "v1", Kind: "PodTemplate"}, want: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, ok: true},
		"6.1 without the suffix":     {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "Foo"}},
		"6.1 in another case":        {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "Footemplate"}},
		"6.1 in the middle":          {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "FooTemplates"}},
		"6.1 nothing but the suffix": {reference: corev1.ObjectReference{APIVersion: "g.io/v1", Kind: "Template"}},
		"6.1 no kind":                {reference: corev1.ObjectReference{APIVersion: "g.io/v1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := Step{Reference: tc.reference}.RemediationKind()
			require.Equal(t, tc.ok, ok)
			if tc.ok {
				require.Equal(t, tc.want, got)
			}
		})
	}
}

func TestNodeAndTemplateOfCR(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cr   *object.CR
		node string
		owns bool
	}{
		"1.4 without annotations, named like the node":             {cr: cr("node-1"), node: "node-1", owns: true},
		"1.4 the annotation names the node":                        {cr: cr("x", forNode("node-1"), from("reboot")), node: "node-1", owns: true},
		"1.4 without template annotation, not named like the node": {cr: cr("x", forNode("node-1")), node: "node-1"},
		"1.4 without template annotation, named like the node":     {cr: cr("node-1", forNode("node-1")), node: "node-1", owns: true},
		"1.4 another template, although named like the node":       {cr: cr("node-1", from("fence")), node: "node-1"},
		"1.4 told apart by the namespace":                          {cr: cr("node-1", from("reboot"), inNamespace("other")), node: "node-1"},
		"1.4 another kind":                                         {cr: cr("node-1", from("reboot"), ofKind("FenceRemediation")), node: "node-1"},
		"1.4 another group":                                        {cr: cr("node-1", from("reboot"), ofGroup("example.org/v1")), node: "node-1"},
		"1.4 another version is the same kind":                     {cr: cr("node-1", from("reboot"), ofGroup("example.com/v2")), node: "node-1", owns: true},
		"1.4 cluster-scoped":                                       {cr: cr("node-1", from("reboot"), inNamespace("")), node: "node-1", owns: true},
		"1.4 an empty template annotation names no template":       {cr: cr("node-1", from("")), node: "node-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.node, tc.cr.Node())
			require.Equal(t, tc.owns, rebootStep().Owns(tc.cr))
		})
	}
}

// What is rendered is recognised as our own CR for this node and template.
func TestRenderIsParsedBack(t *testing.T) {
	t.Parallel()
	for _, template := range []*object.Template{reboot(), reboot(supportsMultiple)} {
		parsed := object.ParseCR(rendered(sick(strings.Repeat("n", 253)), template))
		require.True(t, parsed.OwnedBy(ownerNamed("workers")), "1.4")
		require.Equal(t, strings.Repeat("n", 253), parsed.Node(), "1.4")
		require.True(t, rebootStep().Owns(parsed), "1.4")
		_, controlPlane := parsed.Labels[v1alpha1.LabelControlPlane]
		require.False(t, controlPlane, "11.1")
	}
}
