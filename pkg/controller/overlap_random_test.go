// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

var testSelections = []metav1.LabelSelector{
	{}, broken, byRole("a"), byRole("b"), byRole("c"),
	{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}},
	{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpExists}}},
}

func randomNode(r *rand.Rand) *corev1.Node {
	node := testNode(fmt.Sprintf("n%02d", r.IntN(20)))
	node.UID = types.UID(fmt.Sprint(r.IntN(2)))
	if role := r.IntN(4); role > 0 {
		labelled("role", string("-abc"[role]))(node)
	}
	if r.IntN(3) == 0 {
		labelled("zone", "z")(node)
	}
	return node
}

func (f *fleetOf) randomNodeEvent(r *rand.Rand) {
	if node := randomNode(r); r.IntN(4) == 0 {
		f.drop(node.Name, r.IntN(2) == 0)
	} else {
		f.put(node)
	}
}

func (f *fleetOf) randomCheckEvent(r *rand.Rand) {
	if name := fmt.Sprintf("nhc%d", r.IntN(8)); r.IntN(3) == 0 {
		f.uncheck(name)
	} else {
		f.check(name, testSelections[r.IntN(len(testSelections))])
	}
}

// TestOverlapsProperty: after every event the numbers are what a comparison of the
// lists of nodes gives, and all those are woken whose numbers have changed.
func TestOverlapsProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFleet(t)
		var before map[string]map[string]int
		for step := range 120 {
			if r.IntN(5) == 0 {
				f.randomCheckEvent(r)
			} else {
				f.randomNodeEvent(r)
			}
			after, awake := f.shared(), woken(f.Controller)
			require.True(t, maps.EqualFunc(after, f.overlaps.shared, maps.Equal), "seed %d, step %d: got %v, want %v", seed, step, f.overlaps.shared, after)
			for _, name := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after))) {
				if !maps.Equal(before[name], after[name]) {
					require.Contains(t, awake, name, "P2: seed %d, step %d", seed, step)
				}
			}
			before = after
		}
	}
}

// TestOverlapsConcurrently: caches run ahead of the handlers, and these do not wait for
// each other. In the end the numbers are right, and every NodeHealthCheck was woken
// after its own became so.
func TestOverlapsConcurrently(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		f := newFleet(t)
		events := make(chan func(), 50)
		f.tell = func(event func()) { events <- event }
		seen := map[string]map[string]int{}
		var handlers, worker sync.WaitGroup
		worker.Go(func() {
			for {
				key, shutdown := f.queue.Get()
				if shutdown {
					return
				}
				seen[key.Name] = f.overlaps.of(key.Name)
				f.queue.Done(key)
			}
		})
		handlers.Go(func() {
			defer close(events)
			for r, n := rand.New(rand.NewPCG(seed, 2)), 0; n < 1000; n++ {
				f.randomNodeEvent(r)
			}
		})
		handlers.Go(func() {
			for event := range events {
				event()
			}
		})
		handlers.Go(func() {
			for r, n := rand.New(rand.NewPCG(seed, 3)), 0; n < 200; n++ {
				f.randomCheckEvent(r)
			}
		})
		handlers.Wait()
		f.queue.ShutDownWithDrain()
		worker.Wait()

		want := f.shared()
		require.Equal(t, want, f.overlaps.shared, "seed %d", seed)
		for name := range f.nhcs {
			require.Equal(t, want[name], seen[name], "P2: seed %d, %s", seed, name)
		}
	}
}

// slowList is a cache in which something happens while somebody reads all of it.
type slowList struct {
	cache.Indexer
	meanwhile func()
}

func (s slowList) List() []any {
	objects := s.Indexer.List()
	s.meanwhile()
	return objects
}

// TestWalk: a node goes, and its event comes, while the nodes are matched with a new
// NodeHealthCheck, for the roster and then for the overlaps. The walk still sees the
// node, and must not have the last word.
func TestWalk(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"roster", "overlaps"} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.check("all", metav1.LabelSelector{})
			f.put(withRole("w", "worker"))
			walks, handled := []string{"roster", "overlaps"}, make(chan struct{})
			f.nodeStore = slowList{Indexer: f.nodeStore, meanwhile: func() {
				walk := walks[0]
				walks = walks[1:]
				if walk != during {
					return
				}
				go func() {
					defer close(handled)
					f.drop("w", true)
				}()
				select {
				case <-handled: // Too early.
				case <-time.After(50 * time.Millisecond):
				}
			}}
			f.check("workers", byRole("worker"))
			<-handled
			require.Empty(t, walks)
			require.Empty(t, f.overlaps.shared)
			require.Empty(t, f.overlaps.members)
			for name, list := range f.roster.lists {
				require.Empty(t, list.selected, name)
			}
		})
	}
}
