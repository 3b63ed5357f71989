// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// fleetOf is a controller of which only the handlers work, with the caches that they
// are told about. It changes a cache first and then tells the handlers, as informers
// do; tell decides when.
type fleetOf struct {
	*Controller
	nhcs map[string]*v1alpha1.NodeHealthCheck
	tell func(event func())
}

func newFleet(t *testing.T) *fleetOf {
	t.Helper()
	c := listener(t)
	for _, name := range c.selectors.names() {
		c.selectors.remove(name)
	}
	return &fleetOf{Controller: c, nhcs: map[string]*v1alpha1.NodeHealthCheck{}, tell: func(event func()) { event() }}
}

// put creates or updates a node.
func (f *fleetOf) put(node *corev1.Node) {
	old, exists, _ := f.nodeStore.GetByKey(node.Name)
	_ = f.nodeStore.Update(node)
	if exists {
		f.tell(func() { f.nodeChanged(old.(*corev1.Node), node) })
	} else {
		f.tell(func() { f.nodeChanged(nil, node) })
	}
}

// drop deletes a node. Nobody may know what it was like.
func (f *fleetOf) drop(name string, known bool) {
	old, exists, _ := f.nodeStore.GetByKey(name)
	if !exists {
		return
	}
	_ = f.nodeStore.Delete(old)
	if known {
		f.tell(func() { f.nodeDeleted(name, old.(*corev1.Node)) })
	} else {
		f.tell(func() { f.nodeDeleted(name, nil) })
	}
}

// check creates or updates a NodeHealthCheck.
func (f *fleetOf) check(name string, selector metav1.LabelSelector) {
	old := f.nhcs[name]
	nhc := selecting(name, selector)
	if old != nil {
		nhc.Generation = old.Generation + 1
	}
	nhc.ResourceVersion = fmt.Sprint(nhc.Generation)
	f.nhcs[name] = nhc
	f.nhcChanged(old, nhc)
}

func (f *fleetOf) uncheck(name string) {
	delete(f.nhcs, name)
	f.nhcDeleted(name)
}

// shared compares lists of nodes, which overlaps never does.
func (f *fleetOf) shared() map[string]map[string]int {
	selected := map[string][]string{}
	nodes := f.nodeStore.List()
	for name, nhc := range f.nhcs {
		selector := selectorOf(nhc)
		for _, object := range nodes {
			if node := object.(*corev1.Node); selector.Matches(labelSet(node)) {
				selected[name] = append(selected[name], node.Name)
			}
		}
	}
	shared := map[string]map[string]int{}
	for a, some := range selected {
		for b, others := range selected {
			n := 0
			for _, node := range some {
				if slices.Contains(others, node) {
					n++
				}
			}
			if a == b || n == 0 {
				continue
			}
			if shared[a] == nil {
				shared[a] = map[string]int{}
			}
			shared[a][b] = n
		}
	}
	return shared
}

func withRole(name, role string) *corev1.Node { return testNode(name, labelled("role", role)) }

// broken is a selector that was stored before it was checked.
var broken = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Near"}}}

// TestOverlaps: who shares nodes after an event, and whom it wakes, given that "all"
// selects all nodes, "workers" those with role worker, and "broken" has an invalid
// selector; the node w is a worker, and x is not.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	pair := func(n int) map[string]map[string]int {
		if n == 0 {
			return map[string]map[string]int{}
		}
		return map[string]map[string]int{"all": {"workers": n}, "workers": {"all": n}}
	}
	both := []string{"all", "workers"}
	tests := map[string]struct {
		event func(f *fleetOf)
		want  map[string]map[string]int
		woken []string
	}{
		"nothing":                        {event: func(*fleetOf) {}, want: pair(1)},
		"a node more":                    {event: func(f *fleetOf) { f.put(withRole("v", "worker")) }, want: pair(2), woken: both},
		"of only one of them":            {event: func(f *fleetOf) { f.put(withRole("y", "other")) }, want: pair(1), woken: []string{"all"}},
		"relabelled, both now":           {event: func(f *fleetOf) { f.put(withRole("x", "worker")) }, want: pair(2), woken: both},
		"relabelled, one now":            {event: func(f *fleetOf) { f.put(withRole("w", "other")) }, want: pair(0), woken: both},
		"relabelled, which says nothing": {event: func(f *fleetOf) { f.put(testNode("w", labelled("role", "worker"), labelled("a", "b"))) }, want: pair(1)},
		"a resync":                       {event: func(f *fleetOf) { f.put(withRole("w", "worker")) }, want: pair(1)},
		"replaced by a namesake":         {event: func(f *fleetOf) { f.put(testNode("w", func(n *corev1.Node) { n.UID = "new" })) }, want: pair(0), woken: both},
		"deleted":                        {event: func(f *fleetOf) { f.drop("w", true) }, want: pair(0), woken: both},
		"deleted, nobody knows what":     {event: func(f *fleetOf) { f.drop("w", false) }, want: pair(0), woken: []string{"all", "broken", "workers"}},
		"one deleted":                    {event: func(f *fleetOf) { f.uncheck("workers") }, want: pair(0), woken: both},
		"one deleted that shared none":   {event: func(f *fleetOf) { f.uncheck("broken") }, want: pair(1), woken: []string{"broken"}},
		"another selector":               {event: func(f *fleetOf) { f.check("workers", byRole("none")) }, want: pair(0), woken: both},
		"a selector for all":             {event: func(f *fleetOf) { f.check("workers", metav1.LabelSelector{}) }, want: pair(2), woken: both},
		"an invalid selector":            {event: func(f *fleetOf) { f.check("all", broken) }, want: pair(0), woken: both},
		"another spec":                   {event: func(f *fleetOf) { f.check("workers", byRole("worker")) }, want: pair(1), woken: []string{"workers"}},
		"another selector, same number":  {event: func(f *fleetOf) { f.check("workers", byRole("other")) }, want: pair(1), woken: []string{"workers"}},
		"created again": {event: func(f *fleetOf) {
			old := f.nhcs["workers"]
			again := old.DeepCopy()
			again.UID, again.ResourceVersion = "again", "99"
			f.nhcChanged(old, again)
		}, want: pair(1), woken: []string{"workers"}},
		"a third one": {
			event: func(f *fleetOf) { f.check("third", byRole("other")) },
			want:  map[string]map[string]int{"all": {"workers": 1, "third": 1}, "workers": {"all": 1}, "third": {"all": 1}}, woken: []string{"all", "third"},
		},
		"an event that comes late": {event: func(f *fleetOf) {
			old := withRole("w", "worker")
			f.drop("w", true)
			f.nodeChanged(nil, old)
		}, want: pair(0), woken: both},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.put(withRole("w", "worker")) // Before there is a NodeHealthCheck.
			f.check("all", metav1.LabelSelector{})
			f.check("workers", byRole("worker"))
			f.check("broken", broken)
			f.put(withRole("x", "other"))
			woken(f.Controller)

			tc.event(f)
			require.Equal(t, tc.want, f.overlaps.shared)
			require.Equal(t, tc.woken, woken(f.Controller), "P2, and nobody else")
		})
	}
}

// TestOverlapsOfANode: who is told that it shares more nodes now, or fewer.
func TestOverlapsOfANode(t *testing.T) {
	t.Parallel()
	var o overlaps
	nodes := cache.NewStore(cache.MetaNamespaceKeyFunc)
	o.set(nodes, "all", labels.Everything())
	o.set(nodes, "workers", labels.SelectorFromSet(labels.Set{"role": "worker"}))
	o.set(nodes, "infra", labels.SelectorFromSet(labels.Set{"role": "infra"}))
	put := func(node *corev1.Node) []string {
		require.NoError(t, nodes.Update(node))
		told := o.nodeChanged(nodes, node.Name)
		slices.Sort(told)
		return told
	}
	require.Empty(t, put(testNode("n")), "nobody shares it")
	require.Equal(t, []string{"all", "workers"}, put(withRole("n", "worker")))
	require.Empty(t, put(withRole("n", "worker")))
	require.Equal(t, []string{"all", "infra", "workers"}, put(withRole("n", "infra")))
	require.Equal(t, []string{"all", "infra"}, put(testNode("n")))
	require.Empty(t, put(testNode("n", annotated("role", "infra"))))
}

func TestOverlapsLeaveNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Empty(t, f.overlaps.of("a"))
	f.uncheck("unknown")
	f.check("a", metav1.LabelSelector{})
	f.check("b", metav1.LabelSelector{})
	f.put(testNode("n"))
	f.overlaps.of("a")["b"] = 7
	require.Equal(t, map[string]int{"b": 1}, f.overlaps.of("a"), "what it returns is the caller's")
	f.drop("n", true)
	require.Empty(t, f.overlaps.members)
	f.uncheck("a")
	f.uncheck("b")
	require.Empty(t, f.overlaps.shared)
	require.Empty(t, f.overlaps.selectors)
}

func TestOverlapMessage(t *testing.T) {
	t.Parallel()
	const begin, end = "Nodes are selected by other NodeHealthChecks too: ", ". The one that obtains the lease of a node first remediates it"
	many := map[string]int{}
	for i := range 14 {
		many[fmt.Sprintf("n%02d", i)] = i + 1
	}
	ten := map[string]int{}
	long := map[string]int{}
	for i := range 20 {
		long[fmt.Sprintf("%02d", i)+strings.Repeat("x", 251)] = 10000
	}
	const named = `"n00" (1), "n01" (2), "n02" (3), "n03" (4), "n04" (5), "n05" (6), "n06" (7), "n07" (8), "n08" (9), "n09" (10)`
	for i := range 10 {
		ten[fmt.Sprintf("n%02d", i)] = i + 1
	}
	require.Equal(t, begin+`"b" (12)`+end, overlapMessage(map[string]int{"b": 12}))
	require.Equal(t, begin+`"b" (12), "c" (3)`+end, overlapMessage(map[string]int{"c": 3, "b": 12}), "in order")
	require.Equal(t, begin+named+end, overlapMessage(ten))
	require.Equal(t, begin+named+" and 4 more"+end, overlapMessage(many), "bounded")
	require.Less(t, len(overlapMessage(long)), 1024, "by bytes, too")
	require.Contains(t, overlapMessage(long), `xxx" (10000) and 17 more`)
	middle := map[string]int{}
	for i := range 10 {
		middle[fmt.Sprintf("%02d", i)+strings.Repeat("x", 83)] = 1
	}
	require.Contains(t, overlapMessage(middle), `xxx" (1) and 2 more`, "800 bytes of names")
}

func TestSelectorOverlap(t *testing.T) {
	t.Parallel()
	nhc, now := testCheck(), epoch
	next := func(shared map[string]int) metav1.Condition {
		now = now.Add(1500 * time.Millisecond)
		setSelectorOverlap(&nhc.Status.Conditions, nhc, shared, now)
		require.Len(t, nhc.Status.Conditions, 1)
		return nhc.Status.Conditions[0]
	}
	none := next(nil)
	require.Equal(t, metav1.Condition{
		Type: "SelectorOverlap", Status: "False", Reason: "NoOverlap", Message: "No other NodeHealthCheck selects any of the nodes",
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(epoch.Add(time.Second)),
	}, none)
	require.Equal(t, none, next(map[string]int{}), "P3")

	begun := next(map[string]int{"b": 1})
	require.Equal(t, metav1.Condition{
		Type: "SelectorOverlap", Status: "True", Reason: "NodesSelectedTwice", Message: overlapMessage(map[string]int{"b": 1}),
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(epoch.Add(4 * time.Second)),
	}, begun)
	require.Equal(t, begun, next(map[string]int{"b": 1}), "P3")

	nhc.Generation = 4
	more := next(map[string]int{"b": 2})
	require.Equal(t, overlapMessage(map[string]int{"b": 2}), more.Message, "P4")
	require.EqualValues(t, 4, more.ObservedGeneration, "18.5")
	require.Equal(t, begun.LastTransitionTime, more.LastTransitionTime, "moves only on a flip")

	over := next(nil)
	require.Equal(t, metav1.ConditionFalse, over.Status, "P12")
	require.Equal(t, epoch.Add(9*time.Second), over.LastTransitionTime.Time)
}
