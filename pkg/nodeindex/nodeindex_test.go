// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeindex

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeMap is a cache of nodes.
type nodeMap struct {
	mu    sync.Mutex
	nodes map[string]*corev1.Node
	// duringWalk is called when a walk over all nodes has begun.
	duringWalk func()
}

func (m *nodeMap) Get(name string) *corev1.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[name]
}

func (m *nodeMap) All() iter.Seq[*corev1.Node] {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.nodes))
	m.mu.Unlock()
	if m.duringWalk != nil {
		m.duringWalk()
	}
	return slices.Values(all)
}

func (m *nodeMap) put(nodes ...*corev1.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, node := range nodes {
		m.nodes[node.Name] = node
	}
}

func (m *nodeMap) drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, name)
}

func newIndex(nodes ...*corev1.Node) (*Index, *nodeMap) {
	m := &nodeMap{nodes: map[string]*corev1.Node{}}
	m.put(nodes...)
	return New(m), m
}

func node(name, role string, sick ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": role}}}
	for _, condition := range sick {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(condition)})
	}
	return n
}

// check selects nodes of some roles, all if none is given. Condition "Sick" needs a look.
func check(name string, generation int64, roles ...string) Check {
	return Check{
		Version: Version{Name: name, UID: types.UID("uid of " + name), Generation: generation},
		Selects: func(n *corev1.Node) bool { return len(roles) == 0 || slices.Contains(roles, n.Labels["role"]) },
		NeedsLook: func(n *corev1.Node) bool {
			return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "Sick" })
		},
	}
}

func TestAffected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node    *corev1.Node
		matters bool
		want    []string
	}{
		"21.1 a condition":                     {node: node("n", "worker", "Sick"), matters: true, want: []string{"all", "workers"}},
		"21.1 what matters to no check":        {node: node("n", "worker")},
		"21.1 deleted":                         {matters: true, want: []string{"all", "workers"}},
		"P2 judged by its old and new state":   {node: node("n", "infra"), want: []string{"all", "infra", "workers"}},
		"P2 and it matters besides":            {node: node("n", "infra"), matters: true, want: []string{"all", "infra", "workers"}},
		"P2 no longer selected, no overlap":    {node: node("n", "none"), want: []string{"all", "workers"}},
		"21.1 selected by one more":            {node: node("idle", "infra"), want: []string{"all", "infra"}},
		"21.1 created":                         {node: node("new", "infra"), matters: true, want: []string{"all", "infra"}},
		"21.1 created, selected by one":        {node: node("new", "none"), matters: true, want: []string{"all"}},
		"a deletion of a node that is unknown": {node: nil, matters: true, want: []string{"all", "workers"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index, nodes := newIndex(node("n", "worker"), node("idle", "none"))
			index.SetCheck(check("workers", 1, "worker"))
			index.SetCheck(check("infra", 1, "infra"))
			index.SetCheck(check("all", 1))
			changed := "n"
			if tc.node != nil {
				nodes.put(tc.node)
				changed = tc.node.Name
			} else {
				nodes.drop("n")
			}
			require.ElementsMatch(t, tc.want, index.NodeChanged(changed, tc.matters))
			if tc.node == nil {
				require.Empty(t, index.NodeChanged(changed, true), "it is in the index no more")
			} else {
				require.Empty(t, index.NodeChanged(changed, false), "the same again is no change")
			}
		})
	}
}

func TestIndexOverlaps(t *testing.T) {
	t.Parallel()
	index, nodes := newIndex(node("a", "worker"), node("b", "infra"))
	require.Nil(t, index.Overlaps("all"))
	require.Empty(t, index.SetCheck(check("all", 1)), "there is no other")
	require.Equal(t, []string{"all"}, index.SetCheck(check("workers", 1, "worker")))
	require.Empty(t, index.SetCheck(check("none", 1, "none")))
	require.Equal(t, map[string]int{"workers": 1}, index.Overlaps("all"))
	require.Equal(t, map[string]int{"all": 1}, index.Overlaps("workers"))
	require.Empty(t, index.Overlaps("none"))

	index.Overlaps("all")["workers"] = 7
	require.Equal(t, map[string]int{"workers": 1}, index.Overlaps("all"), "the result is the caller's")
	require.Empty(t, index.SetCheck(check("workers", 2, "infra")), "other nodes, but as many")
	require.Equal(t, []string{"all"}, index.SetCheck(check("workers", 3, "infra", "worker")))
	require.Equal(t, map[string]int{"all": 2}, index.Overlaps("workers"))
	nodes.duringWalk = func() { t.Error("a version that is known costs no walk") }
	require.Empty(t, index.SetCheck(check("workers", 3)))
	nodes.duringWalk = nil
	again := check("workers", 3)
	again.UID = "another"
	require.Empty(t, index.SetCheck(again), "deleted and created again: as many nodes")
	nodes.put(node("c", "none"))
	require.ElementsMatch(t, []string{"all", "workers", "none"}, index.NodeChanged("c", true))
	require.Equal(t, map[string]int{"all": 3, "none": 1}, index.Overlaps("workers"), "but another selector")

	require.ElementsMatch(t, []string{"all", "none"}, index.RemoveCheck("workers"))
	require.Empty(t, index.RemoveCheck("workers"))
	require.Equal(t, map[string]int{"none": 1}, index.Overlaps("all"))
	require.Equal(t, 3, index.Covered())
}

func TestNeedingLook(t *testing.T) {
	index, nodes := newIndex(node("w", "worker", "Sick"), node("v", "worker", "Sick"), node("u", "worker", "Other"), node("x", "infra", "Sick"))
	workers := check("workers", 1, "worker")
	index.SetCheck(workers)
	before, known := index.NeedingLook(workers.Version)
	require.True(t, known)
	require.Equal(t, []string{"v", "w"}, before)
	nodes.put(node("v", "worker"), node("t", "worker", "Sick"))
	index.NodeChanged("v", true)
	index.NodeChanged("t", true)
	after, _ := index.NeedingLook(workers.Version)
	require.Equal(t, []string{"t", "w"}, after)
	require.Equal(t, []string{"v", "w"}, before, "what was returned stays as it is")
	require.Zero(t, testing.AllocsPerRun(10, func() { index.NeedingLook(workers.Version) }), "nothing has changed")

	for name, version := range map[string]Version{
		"another generation":   {Name: "workers", UID: workers.UID, Generation: 2},
		"another of that name": {Name: "workers", UID: "another", Generation: 1},
		"an unknown one":       {Name: "other", UID: workers.UID, Generation: 1},
	} {
		_, known := index.NeedingLook(version)
		require.False(t, known, name)
		_, known = index.CountOthers(version, slices.Values([]string{"w"}))
		require.False(t, known, name)
	}
}

func TestCountOthers(t *testing.T) {
	t.Parallel()
	index, nodes := newIndex(node("w", "worker", "Sick"), node("v", "worker"), node("s", "worker"), node("x", "infra"))
	workers := check("workers", 1, "worker")
	index.SetCheck(workers)
	nodes.drop("v")
	nodes.put(node("u", "worker"))
	for name, tc := range map[string]struct {
		these []string
		want  int
	}{
		"all":                      {nil, 2},
		"one that needs a look":    {[]string{"w"}, 2},
		"one that does not":        {[]string{"s"}, 1},
		"one of another check":     {[]string{"x"}, 2},
		"one that has just gone":   {[]string{"v"}, 1},
		"one that has just come":   {[]string{"u"}, 2},
		"one that there never was": {[]string{"t"}, 2},
		"several":                  {[]string{"s", "u", "v", "w", "x"}, 0},
	} {
		others, known := index.CountOthers(workers.Version, slices.Values(tc.these))
		require.True(t, known, name)
		require.Equal(t, tc.want, others, name)
	}
}

func TestRemoveCheckLeavesNothing(t *testing.T) {
	t.Parallel()
	index, nodes := newIndex(node("a", "worker", "Sick"))
	index.SetCheck(check("one", 1))
	index.SetCheck(check("two", 1))
	require.ElementsMatch(t, []string{"one", "two"}, index.Names())
	require.True(t, index.Has("one"))
	index.RemoveCheck("one")
	require.False(t, index.Has("one"))
	nodes.drop("a")
	require.Equal(t, []string{"two"}, index.NodeChanged("a", true))
	require.Empty(t, index.selectedBy, "P12: nothing is left of a node")
	two := index.checks["two"]
	require.Zero(t, two.selected)
	require.Empty(t, two.needLook)
	require.Empty(t, two.overlaps, "P12: nor of a check")
}

// TestWalk: a node goes, and its event comes, while all nodes are matched with a new check.
// The walk still sees the node, and must not have the last word.
func TestWalk(t *testing.T) {
	t.Parallel()
	index, nodes := newIndex(node("w", "worker", "Sick"))
	index.SetCheck(check("all", 1))
	handled := make(chan struct{})
	nodes.duringWalk = func() {
		go func() {
			defer close(handled)
			nodes.drop("w")
			index.NodeChanged("w", true)
		}()
		select {
		case <-handled:
			t.Error("the event was handled during the walk")
		case <-time.After(50 * time.Millisecond):
		}
	}
	workers := check("workers", 1, "worker")
	index.SetCheck(workers)
	<-handled
	require.Empty(t, index.selectedBy)
	require.Empty(t, index.Overlaps("all"))
	needLook, _ := index.NeedingLook(workers.Version)
	require.Empty(t, needLook)
	require.Zero(t, index.checks["workers"].selected)
}
