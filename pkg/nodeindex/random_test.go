// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeindex

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// answers are what an index says about a check.
type answers struct {
	NeedingLook []string
	Selected    int
	Overlaps    map[string]int
}

// expected computes all answers by a look at every node.
func expected(checks map[string]Check, nodes *nodeMap) map[string]answers {
	all := map[string]answers{}
	for name, check := range checks {
		a := answers{NeedingLook: []string{}, Overlaps: map[string]int{}}
		for _, node := range nodes.nodes {
			if !check.Selects(node) {
				continue
			}
			a.Selected++
			if check.NeedsLook(node) {
				a.NeedingLook = append(a.NeedingLook, node.Name)
			}
			for other := range checks {
				if other != name && checks[other].Selects(node) {
					a.Overlaps[other]++
				}
			}
		}
		slices.Sort(a.NeedingLook)
		all[name] = a
	}
	return all
}

func actual(t *testing.T, index *Index, checks map[string]Check) map[string]answers {
	t.Helper()
	all := map[string]answers{}
	for name, check := range checks {
		needLook, known := index.NeedingLook(check.Version)
		require.True(t, known, name)
		all[name] = answers{NeedingLook: needLook, Selected: index.checks[name].selected, Overlaps: index.Overlaps(name)}
	}
	return all
}

var testRoles = []string{"worker", "infra", "gpu", "none"}

// randomNodeEvent changes the cache, and returns what its handler does, which returns the
// checks that are affected.
func randomNodeEvent(r *rand.Rand, index *Index, nodes *nodeMap) func() []string {
	name := fmt.Sprintf("n%02d", r.IntN(20))
	if r.IntN(4) == 0 {
		nodes.drop(name)
	} else {
		nodes.put(node(name, testRoles[r.IntN(4)], []string{"Sick", "Other"}[r.IntN(2)]))
	}
	return func() []string { return index.NodeChanged(name, true) }
}

// randomCheckEvent changes a check, and returns those that are affected.
func randomCheckEvent(r *rand.Rand, index *Index, checks map[string]Check) []string {
	name := fmt.Sprintf("check%d", r.IntN(6))
	if r.IntN(3) == 0 {
		delete(checks, name)
		return append(index.RemoveCheck(name), name)
	}
	checks[name] = check(name, checks[name].Generation+1, testRoles[:r.IntN(4)]...)
	return append(index.SetCheck(checks[name]), name)
}

// TestIndexProperty: after every event the answers are those of a look at every node, and all
// checks with other answers than before are named.
func TestIndexProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		index, nodes := newIndex()
		checks, before := map[string]Check{}, map[string]answers{}
		for step := range 150 {
			var affected []string
			if r.IntN(5) == 0 {
				affected = randomCheckEvent(r, index, checks)
			} else {
				affected = randomNodeEvent(r, index, nodes)()
			}
			after := expected(checks, nodes)
			require.Equal(t, after, actual(t, index, checks), "seed %d, step %d", seed, step)
			for name := range after {
				if fmt.Sprint(before[name]) != fmt.Sprint(after[name]) {
					require.Contains(t, affected, name, "P2: seed %d, step %d", seed, step)
				}
			}
			before = after
		}
	}
}

// TestIndexConcurrently: the cache runs ahead of the handlers of nodes, and these do not wait
// for those of checks. In the end the answers are right.
func TestIndexConcurrently(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		index, nodes := newIndex()
		checks, events := map[string]Check{}, make(chan func() []string, 50)
		var handlers sync.WaitGroup
		handlers.Go(func() {
			defer close(events)
			for r, n := rand.New(rand.NewPCG(seed, 2)), 0; n < 1000; n++ {
				events <- randomNodeEvent(r, index, nodes)
			}
		})
		handlers.Go(func() {
			for event := range events {
				event()
			}
		})
		handlers.Go(func() {
			for r, n := rand.New(rand.NewPCG(seed, 3)), 0; n < 200; n++ {
				randomCheckEvent(r, index, checks)
			}
		})
		handlers.Wait()
		require.Equal(t, expected(checks, nodes), actual(t, index, checks), "seed %d", seed)
		for name := range maps.Clone(checks) {
			index.RemoveCheck(name)
		}
		require.Empty(t, index.selectedBy, "seed %d", seed)
	}
}
