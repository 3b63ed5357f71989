// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// handlerCluster is a controller that has only its handlers and their caches. It changes a
// cache first and then calls the handlers, as informers do. deliver decides when.
type handlerCluster struct {
	*Controller
	checks  map[string]*v1alpha1.NodeHealthCheck
	deliver func(event func())
}

func newHandlerCluster(t *testing.T) *handlerCluster {
	t.Helper()
	c := listener(t)
	for _, name := range c.index.Names() {
		c.index.RemoveCheck(name)
	}
	return &handlerCluster{Controller: c, checks: map[string]*v1alpha1.NodeHealthCheck{}, deliver: func(event func()) { event() }}
}

// put creates or updates a node.
func (f *handlerCluster) put(node *corev1.Node) {
	old, exists, _ := f.NodeCache.GetByKey(node.Name)
	_ = f.NodeCache.Update(node)
	if exists {
		f.deliver(func() { f.nodeChanged(old.(*corev1.Node), node) })
	} else {
		f.deliver(func() { f.nodeChanged(nil, node) })
	}
}

// drop deletes a node.
func (f *handlerCluster) drop(name string) {
	old, exists, _ := f.NodeCache.GetByKey(name)
	if !exists {
		return
	}
	_ = f.NodeCache.Delete(old)
	f.deliver(func() { f.nodeDeleted(name) })
}

// check creates or updates a NodeHealthCheck.
func (f *handlerCluster) check(name string, selector metav1.LabelSelector) {
	old := f.checks[name]
	nhc := selecting(name, selector)
	if old != nil {
		nhc.Generation = old.Generation + 1
	}
	nhc.ResourceVersion = fmt.Sprint(nhc.Generation)
	f.checks[name] = nhc
	f.nhcChanged(old, nhc)
}

func (f *handlerCluster) uncheck(name string) {
	delete(f.checks, name)
	f.nhcDeleted(name)
}

func withRole(name, role string) *corev1.Node { return testNode(name, labelled("role", role)) }

// overlaps are those that the index knows.
func (f *handlerCluster) overlaps() map[string]map[string]int {
	overlaps := map[string]map[string]int{}
	for _, name := range f.index.Names() {
		if shared := f.index.Overlaps(name); len(shared) > 0 {
			overlaps[name] = shared
		}
	}
	return overlaps
}

// broken is a selector that was stored before admission checked it.
var broken = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Near"}}}

// TestOverlapsWake: which NodeHealthChecks share nodes after an event, and which it wakes, given that "all"
// selects all nodes, "workers" those with role worker, and "broken" has an invalid
// selector; the node w is a worker, and x is not.
func TestOverlapsWake(t *testing.T) {
	t.Parallel()
	pair := func(n int) map[string]map[string]int {
		if n == 0 {
			return map[string]map[string]int{}
		}
		return map[string]map[string]int{"all": {"workers": n}, "workers": {"all": n}}
	}
	both := []string{"all", "workers"}
	tests := map[string]struct {
		event func(f *handlerCluster)
		want  map[string]map[string]int
		woken []string
	}{
		"nothing":                          {event: func(*handlerCluster) {}, want: pair(1)},
		"a node more":                      {event: func(f *handlerCluster) { f.put(withRole("v", "worker")) }, want: pair(2), woken: both},
		"of only one of them":              {event: func(f *handlerCluster) { f.put(withRole("y", "other")) }, want: pair(1), woken: []string{"all"}},
		"relabelled, both now":             {event: func(f *handlerCluster) { f.put(withRole("x", "worker")) }, want: pair(2), woken: both},
		"relabelled, one now":              {event: func(f *handlerCluster) { f.put(withRole("w", "other")) }, want: pair(0), woken: both},
		"relabelled, which says nothing":   {event: func(f *handlerCluster) { f.put(testNode("w", labelled("role", "worker"), labelled("a", "b"))) }, want: pair(1)},
		"a resync":                         {event: func(f *handlerCluster) { f.put(withRole("w", "worker")) }, want: pair(1)},
		"replaced by another of that name": {event: func(f *handlerCluster) { f.put(testNode("w", func(n *corev1.Node) { n.UID = "new" })) }, want: pair(0), woken: both},
		"deleted":                          {event: func(f *handlerCluster) { f.drop("w") }, want: pair(0), woken: both},
		"one deleted":                      {event: func(f *handlerCluster) { f.uncheck("workers") }, want: pair(0), woken: both},
		"one deleted that shared none":     {event: func(f *handlerCluster) { f.uncheck("broken") }, want: pair(1), woken: []string{"broken"}},
		"another selector":                 {event: func(f *handlerCluster) { f.check("workers", byRole("none")) }, want: pair(0), woken: both},
		"a selector for all":               {event: func(f *handlerCluster) { f.check("workers", metav1.LabelSelector{}) }, want: pair(2), woken: both},
		"an invalid selector":              {event: func(f *handlerCluster) { f.check("all", broken) }, want: pair(0), woken: both},
		"another spec":                     {event: func(f *handlerCluster) { f.check("workers", byRole("worker")) }, want: pair(1), woken: []string{"workers"}},
		"another selector, same number":    {event: func(f *handlerCluster) { f.check("workers", byRole("other")) }, want: pair(1), woken: []string{"workers"}},
		"created again": {event: func(f *handlerCluster) {
			old := f.checks["workers"]
			again := old.DeepCopy()
			again.UID, again.ResourceVersion = "again", "99"
			f.nhcChanged(old, again)
		}, want: pair(1), woken: []string{"workers"}},
		"a third one": {
			event: func(f *handlerCluster) { f.check("third", byRole("other")) },
			want:  map[string]map[string]int{"all": {"workers": 1, "third": 1}, "workers": {"all": 1}, "third": {"all": 1}}, woken: []string{"all", "third"},
		},
		"an event that comes late": {event: func(f *handlerCluster) {
			old := withRole("w", "worker")
			f.drop("w")
			f.nodeChanged(nil, old)
		}, want: pair(0), woken: both},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newHandlerCluster(t)
			f.put(withRole("w", "worker")) // Before there is a NodeHealthCheck.
			f.check("all", metav1.LabelSelector{})
			f.check("workers", byRole("worker"))
			f.check("broken", broken)
			f.put(withRole("x", "other"))
			woken(f.Controller)

			tc.event(f)
			require.Equal(t, tc.want, f.overlaps())
			require.Equal(t, tc.woken, woken(f.Controller), "P2, and no other")
		})
	}
}
