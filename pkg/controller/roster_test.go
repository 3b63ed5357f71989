// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

var testStatuses = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}

// randomPatient is a random node with random conditions.
func randomPatient(r *rand.Rand) *corev1.Node {
	node := randomNode(r)
	for _, condition := range []corev1.NodeConditionType{"Ready", "Disk"} {
		if r.IntN(4) > 0 {
			since := epoch.Add(-time.Duration(r.IntN(600)) * time.Second)
			node.Status.Conditions = append(node.Status.Conditions, testCondition(condition, testStatuses[r.IntN(3)], since))
		}
	}
	return node
}

// recheck creates or updates a random NodeHealthCheck with random rules.
func (f *fleetOf) recheck(r *rand.Rand) {
	name := fmt.Sprintf("nhc%d", r.IntN(5))
	old := f.nhcs[name]
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
	f.nhcs[name] = nhc
	f.nhcChanged(old, nhc)
}

// randomEvent is an event of any kind.
func (f *fleetOf) randomEvent(r *rand.Rand) {
	switch r.IntN(10) {
	case 0:
		f.recheck(r)
	case 1:
		f.uncheck(fmt.Sprintf("nhc%d", r.IntN(5)))
	case 2:
		f.drop(randomNode(r).Name, r.IntN(2) == 0)
	default:
		f.put(randomPatient(r))
	}
}

// requireCounts compares what the roster leads to with a look at every node.
func (f *fleetOf) requireCounts(t *testing.T, r *rand.Rand, message string) {
	t.Helper()
	withCRs := sets.New[string]()
	for range r.IntN(6) {
		withCRs.Insert(randomNode(r).Name)
	}
	for name, nhc := range f.nhcs {
		w := &world{remediated: withCRs.Has, withCRs: withCRs.UnsortedList()}
		_, known := f.roster.muster(nhc, nil)
		require.True(t, known, "%s: %s has no list", message, name)
		f.count(nhc, w, epoch)
		want := health.Evaluate(w.judge(nhc, epoch), f.selectedNodes(nhc), w.remediated)
		require.Equal(t, byName(want), byName(w.fleet), "%s: %s", message, name)
	}
}

func byName(fleet health.Fleet) health.Fleet {
	slices.SortFunc(fleet.Patients, func(a, b health.Patient) int {
		if a.Node.Name < b.Node.Name {
			return -1
		}
		return 1
	})
	return fleet
}

// TestRosterProperty: after every event the numbers are those of a look at every node.
func TestRosterProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		f := newFleet(t)
		f.nodes = corelisters.NewNodeLister(f.nodeStore)
		for step := range 150 {
			f.randomEvent(r)
			f.requireCounts(t, r, fmt.Sprintf("seed %d, step %d", seed, step))
		}
		for name := range f.nhcs {
			f.uncheck(name)
		}
		require.Empty(t, f.roster.lists)
	}
}

// TestRosterConcurrently: the cache runs ahead of the handlers of Nodes, and these do
// not wait for those of NodeHealthChecks. In the end the numbers are right.
func TestRosterConcurrently(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		f := newFleet(t)
		f.nodes = corelisters.NewNodeLister(f.nodeStore)
		events := make(chan func(), 50)
		f.tell = func(event func()) { events <- event }
		var handlers sync.WaitGroup
		handlers.Go(func() {
			defer close(events)
			for r, n := rand.New(rand.NewPCG(seed, 5)), 0; n < 1000; n++ {
				if r.IntN(8) == 0 {
					f.drop(randomNode(r).Name, r.IntN(2) == 0)
				} else {
					f.put(randomPatient(r))
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
				f.recheck(r)
			}
		})
		handlers.Wait()
		f.requireCounts(t, rand.New(rand.NewPCG(seed, 7)), fmt.Sprintf("seed %d", seed))
	}
}

// TestRosterGenerations: the list of another generation, or of a namesake, is not used.
func TestRosterGenerations(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.put(withRole("w", "worker"))
	f.check("workers", byRole("worker"))
	nhc := f.nhcs["workers"].DeepCopy()
	m, known := f.roster.muster(nhc, []string{"w", "other"})
	require.True(t, known)
	require.Equal(t, muster{healthy: 1, remediated: 1, suspects: []string{}}, m)
	nhc.Generation++
	_, known = f.roster.muster(nhc, nil)
	require.False(t, known, "the handler has not seen it yet")
	nhc.Generation--
	nhc.UID = "other"
	_, known = f.roster.muster(nhc, nil)
	require.False(t, known)
}

// TestRosterOfVanished: a suspect that is gone, and whose event is about to come, counts
// for nothing, and least of all as healthy.
func TestRosterOfVanished(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.nodes = corelisters.NewNodeLister(f.nodeStore)
	nhc := selecting("all", metav1.LabelSelector{})
	nhc.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False"}}
	f.nhcChanged(nil, nhc)
	f.put(testNode("healthy"))
	f.put(testNode("sick", conditions(testCondition("Ready", "False", epoch))))
	f.tell = func(func()) {}
	f.drop("sick", true)
	w := &world{remediated: func(string) bool { return false }}
	f.count(nhc, w, epoch)
	require.Equal(t, health.Fleet{Observed: 1, Healthy: 1}, w.fleet)
}
