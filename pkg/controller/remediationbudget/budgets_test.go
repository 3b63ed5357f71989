// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediationbudget

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// shownCRs are health checks whose CRs a cache shows, by node.
type shownCRs struct {
	started map[string]time.Time
	// synced counts how often all of them were synced.
	synced *int
}

func (s shownCRs) Observe(node string) budget.Observation {
	started, is := s.started[node]
	return budget.Observation{Remediating: is, Started: started}
}

func (s shownCRs) Remediating() []string { return slices.Collect(maps.Keys(s.started)) }

func (shownCRs) Wake([]string) {}

func (s shownCRs) SyncAll() { *s.synced++ }

func (shownCRs) HasSynced() bool { return true }

// newController returns one that has counted nothing yet.
func newController(now time.Time, crs shownCRs) *Controller {
	return &Controller{
		Config: Config{Nodes: informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Nodes(), Clock: clocktesting.NewFakePassiveClock(now)},
		kinds:  watches.NewSet[schema.GroupVersionKind](watches.Config{}), counts: budget.NewCounts(), changes: sets.New[string](), allChanged: true, healthChecks: map[string]budget.HealthChecks{v1alpha1.Kind: crs},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
}

// TestStop: all health checks are synced when a spec changes: it may begin or end a stop of everything (spec 18.5).
func TestStop(t *testing.T) {
	t.Parallel()
	synced := 0
	c := newController(time.Now(), shownCRs{synced: &synced})
	change := func(generation int64, most int32) {
		c.budgetChanged(&nhcv1alpha1.RemediationBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: generation},
			Spec:       nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(most))},
		})
	}
	for i, stop := range []string{"RemediationBudget b stops everything", "", ""} {
		change(int64(i+1), int32(i))
		require.Equal(t, stop, c.Stop(), i)
		require.Equal(t, i+1, synced, i)
	}
	change(3, 2)
	require.Equal(t, 3, synced, "a write of status")
}

// TestReservedNodesAreObserved: a cache may show the CR that a health check has created before its
// handler is called. Who looks again by that cache loses no place (spec B3.2).
func TestReservedNodesAreObserved(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 7, 12, 0, 0, 0, time.UTC)
	crs := shownCRs{started: map[string]time.Time{}}
	c := newController(now, crs)
	for _, name := range []string{"a", "b"} {
		require.NoError(t, c.Nodes.Informer().GetIndexer().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	one := &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: nhcv1alpha1.RemediationBudgetSpec{
		NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(1)),
	}}
	c.counts.SetBudget(budget.Parse(one), nil)
	x, y := budget.Asker{Kind: v1alpha1.Kind, Name: "x"}, budget.Asker{Kind: v1alpha1.Kind, Name: "y"}
	require.Empty(t, c.admit(x, []budget.Request{{Node: "a", Since: now, Begins: true}}))
	c.counts.End(x, "a", budget.Begun, now)
	crs.started["a"] = now
	require.Empty(t, c.admit(x, nil), "it looks before NodeChanged is called")
	refusals := c.admit(y, []budget.Request{{Node: "b", Since: now, Begins: true}})
	require.Contains(t, refusals, "b")
	require.Equal(t, "one: 1 of at most 1 nodes are under remediation", refusals["b"].Message)
}

// machines can be read unless there is an error.
type machines struct{ err error }

func (m machines) MachinesReadable() error { return m.err }

func (machines) MachineOf(string) budget.Machine { return budget.Machine{} }

func (machines) MachineNames() []string { return nil }

// TestMachinesCannotBeCounted: a budget about them refuses all nodes then (spec B3.5), and no other
// one does.
func TestMachinesCannotBeCounted(t *testing.T) {
	t.Parallel()
	limit := new(intstr.FromInt32(1))
	ofNodes := &nhcv1alpha1.RemediationBudget{Spec: nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: limit}}
	ofMachines := &nhcv1alpha1.RemediationBudget{Spec: nhcv1alpha1.RemediationBudgetSpec{
		MachineSelector: &nhcv1alpha1.BudgetMachineSelector{Namespace: "machines"}, MaxConcurrent: limit,
	}}
	for name, tc := range map[string]struct {
		machines budget.Machines
		want     string
	}{
		"they can":                     {machines: machines{}},
		"nothing watches them":         {want: "machineSelector needs the controller machinehealthcheck, which does not run"},
		"there is no permission":       {machines: machines{errors.New("no permission to list machines")}, want: "no permission to list machines"},
		"they have not been read, yet": {machines: machines{watches.ErrPending}, want: watches.ErrPending.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Controller{machines: tc.machines, counts: budget.NewCounts()}
			require.Empty(t, c.parse(ofNodes).Problem)
			parsed := c.parse(ofMachines)
			require.Equal(t, tc.want, parsed.Problem)
			c.counts.SetBudget(parsed, nil)
			refusals := c.counts.Admit(budget.Asker{Name: "x"}, []budget.Request{{Node: "a", Begins: true}}, time.Time{})
			require.Equal(t, tc.want != "", len(refusals) > 0)
		})
	}
}

// TestGoneNodesCount: a node that is gone and under remediation counts for a budget that is created
// after that (spec B3.2).
func TestGoneNodesCount(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 7, 12, 0, 0, 0, time.UTC)
	c := newController(now, shownCRs{started: map[string]time.Time{"gone": now}})
	t.Cleanup(c.queue.ShutDown)
	c.NodeChanged("gone")
	c.NodeChanged("recovered")
	for range 2 {
		require.Empty(t, c.changes, "without budgets, it keeps no names")
		c.observe()
	}
	one := &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: nhcv1alpha1.RemediationBudgetSpec{
		NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(1)),
	}}
	c.counts.SetBudget(budget.Parse(one), nil)
	x := budget.Asker{Kind: v1alpha1.Kind, Name: "x"}
	require.Contains(t, c.admit(x, []budget.Request{{Node: "a", Since: now, Begins: true}}), "a")
	c.NodeChanged("a")
	require.Equal(t, sets.New("a"), c.changes)
	c.NodesChanged()
	c.NodeChanged("a")
	require.Empty(t, c.changes, "all nodes are looked at anyway")
}

// TestEvaluatedWhenAWaitEnds: nothing is evaluated because of a node that only waits, so all is as
// soon as it waits no longer: the status names it, and others may come before it.
func TestEvaluatedWhenAWaitEnds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 7, 12, 0, 0, 0, time.UTC)
	c := newController(now, shownCRs{})
	t.Cleanup(c.queue.ShutDown)
	none := &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: nhcv1alpha1.RemediationBudgetSpec{
		NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(0)),
	}}
	c.counts.SetBudget(budget.Parse(none), nil)
	evaluated := func() bool {
		if c.queue.Len() == 0 {
			return false
		}
		key, _ := c.queue.Get()
		c.queue.Done(key)
		return true
	}
	x := budget.Asker{Kind: v1alpha1.Kind, Name: "x"}
	c.admit(x, nil)
	require.False(t, evaluated(), "it did not wait before")
	require.NotEmpty(t, c.admit(x, []budget.Request{{Node: "a", Since: now, Begins: true}}))
	require.True(t, evaluated())
	require.Zero(t, c.counts.NextChange(now), "time alone changes nothing")
	c.admit(x, nil)
	require.True(t, evaluated())
	c.admit(x, nil)
	require.False(t, evaluated())
}
