// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

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

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
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

var testStatuses = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}

// randomUnhealthyNode is a random node with random conditions.
func randomUnhealthyNode(r *rand.Rand) *corev1.Node {
	node := randomNode(r)
	for _, condition := range []corev1.NodeConditionType{"Ready", "Disk"} {
		if r.IntN(4) > 0 {
			since := epoch.Add(-time.Duration(r.IntN(600)) * time.Second)
			node.Status.Conditions = append(node.Status.Conditions, testCondition(condition, testStatuses[r.IntN(3)], since))
		}
	}
	return node
}

// randomCheck creates or updates a random NodeHealthCheck with random rules.
func (f *handlerCluster) randomCheck(r *rand.Rand) {
	name := fmt.Sprintf("nhc%d", r.IntN(5))
	old := f.checks[name]
	nhc := selecting(name, testSelections[r.IntN(len(testSelections))])
	if old != nil {
		nhc.Generation = old.Generation + 1
	}
	nhc.ResourceVersion = fmt.Sprint(nhc.Generation)
	for range r.IntN(3) {
		nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{
			Type: []corev1.NodeConditionType{"Ready", "Disk"}[r.IntN(2)], Status: testStatuses[r.IntN(3)], Duration: metav1.Duration{Duration: 5 * time.Minute},
		})
	}
	f.checks[name] = nhc
	f.nhcChanged(old, nhc)
}

// randomEvent is an event of any kind.
func (f *handlerCluster) randomEvent(r *rand.Rand) {
	switch r.IntN(10) {
	case 0:
		f.randomCheck(r)
	case 1:
		f.uncheck(fmt.Sprintf("nhc%d", r.IntN(5)))
	case 2:
		f.drop(randomNode(r).Name)
	default:
		f.put(randomUnhealthyNode(r))
	}
}

// requireCounts compares what the index leads to with a look at every node.
func (f *handlerCluster) requireCounts(t *testing.T, message string) {
	t.Helper()
	for name, nhc := range f.checks {
		names, known := f.index.NeedingLook(versionOf(nhc))
		require.True(t, known, "%s: %s is not in the index", message, name)
		want, observed := []string{}, 0
		for node := range f.nodes.All() {
			if selectorOf(nhc).Matches(labelSet(node)) {
				observed++
				if health.JudgeNode(nhc.Spec.UnhealthyConditions, health.EvidenceOf(node, nil), epoch).State != health.Healthy {
					want = append(want, node.Name)
				}
			}
		}
		require.ElementsMatch(t, want, names, "%s: %s", message, name)
		others, _ := f.index.CountOthers(versionOf(nhc), slices.Values([]string(nil)))
		require.Equal(t, observed, others+len(names), "%s: %s", message, name)
	}
}

// TestHandlersProperty: after every event counts and overlaps are those of a look at every
// node, and the NodeHealthChecks whose overlaps have changed are woken.
func TestHandlersProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		f := newHandlerCluster(t)
		var before map[string]map[string]int
		for step := range 150 {
			f.randomEvent(r)
			message := fmt.Sprintf("seed %d, step %d", seed, step)
			f.requireCounts(t, message)
			after, awake := f.expectedOverlaps(), woken(f.Controller)
			require.Equal(t, after, f.overlaps(), message)
			for _, name := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after))) {
				if !maps.Equal(before[name], after[name]) {
					require.Contains(t, awake, name, "P2: %s", message)
				}
			}
			before = after
		}
	}
}

// TestHandlersConcurrently: caches run ahead of the handlers, and these do not wait for
// each other. In the end the numbers are right, and every NodeHealthCheck was woken after
// its own became so.
func TestHandlersConcurrently(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		f := newHandlerCluster(t)
		events := make(chan func(), 50)
		f.deliver = func(event func()) { events <- event }
		seen := map[string]map[string]int{}
		var handlers, worker sync.WaitGroup
		worker.Go(func() {
			for {
				key, shutdown := f.queue.Get()
				if shutdown {
					return
				}
				seen[key.Name] = f.index.Overlaps(key.Name)
				f.queue.Done(key)
			}
		})
		handlers.Go(func() {
			defer close(events)
			for r, n := rand.New(rand.NewPCG(seed, 5)), 0; n < 1000; n++ {
				if r.IntN(8) == 0 {
					f.drop(randomNode(r).Name)
				} else {
					f.put(randomUnhealthyNode(r))
				}
			}
		})
		handlers.Go(func() {
			for event := range events {
				event()
			}
		})
		handlers.Go(func() {
			for r, n := rand.New(rand.NewPCG(seed, 6)), 0; n < 200; n++ {
				if r.IntN(4) == 0 {
					f.uncheck(fmt.Sprintf("nhc%d", r.IntN(5)))
				} else {
					f.randomCheck(r)
				}
			}
		})
		handlers.Wait()
		f.queue.ShutDownWithDrain()
		worker.Wait()

		f.requireCounts(t, fmt.Sprintf("seed %d", seed))
		want := f.expectedOverlaps()
		require.Equal(t, want, f.overlaps(), "seed %d", seed)
		for name := range f.checks {
			require.True(t, maps.Equal(want[name], seen[name]), "P2: seed %d, %s: got %v, want %v", seed, name, seen[name], want[name])
		}
	}
}

// TestNodeAheadOfIndex: a node that needed a look and is gone, and whose event is
// about to come, counts for nothing, and least of all as healthy. One that has come back counts.
func TestNodeAheadOfIndex(t *testing.T) {
	t.Parallel()
	f := newHandlerCluster(t)
	nhc := selecting("all", metav1.LabelSelector{})
	nhc.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False"}}
	f.nhcChanged(nil, nhc)
	f.put(testNode("healthy", conditions(testCondition("Ready", "True", epoch))))
	f.put(testNode("sick", conditions(testCondition("Ready", "False", epoch))))
	f.deliver = func(func()) {}
	f.drop("sick")
	s := testSnapshot(nhc)
	names, err := f.observeNeedingLook(s)
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, f.countSelected(s))
	require.Equal(t, 1, s.observed)

	f.nodeDeleted("sick")
	again := testNode("sick", conditions(testCondition("Ready", "False", epoch)))
	f.put(again)
	s = testSnapshot(nhc, again) // It has a CR, for example.
	require.NoError(t, f.countSelected(s))
	require.Equal(t, 2, s.observed, "it has come back, and its event is about to come")

	s.nhc.Generation++
	_, err = f.observeNeedingLook(s)
	require.ErrorIs(t, err, errIndexBehind)
}
