// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestNeverMoreThanLimitsAllow: in random clusters, no remediation begins that the gate, the slot of
// the control plane, a budget, the exclusion label or another owner forbids. The test counts everything
// again at the end of each instant: a remediation that ends within an instant only makes room.
func TestNeverMoreThanLimitsAllow(t *testing.T) {
	t.Parallel()
	begun, most := 0, 0
	for seed := range uint64(300) {
		in := randomInput(rand.New(rand.NewPCG(seed, 1)))
		w, now, end := newWorld(in), in.Start, in.Start.Add(in.Duration)
		for _, change := range in.Fail {
			w.events.add(in.Start.Add(change.After), func(now time.Time) { w.fail(change.Node, now) })
		}
		judge := &judge{t: t, seed: seed, in: in, world: w, known: map[types.UID]bool{}, last: map[string]time.Time{}}
		for instants := 0; ; instants++ {
			require.Less(t, instants, maxInstants, seed)
			w.events.happen(now)
			w.settle(now)
			begun += judge.settled(now)
			next := w.next(now)
			if next.IsZero() || next.After(end) {
				break
			}
			require.True(t, next.After(now), seed)
			now = next
		}
		most = max(most, w.journal.mostAtATime)
	}
	require.Greater(t, begun, 500, "the clusters are not too peaceful")
	require.Greater(t, most, 3)
}

// randomInput returns a cluster with up to two NodeHealthChecks, which may overlap.
func randomInput(r *rand.Rand) *Input {
	in := &Input{Start: epoch, Duration: 2 * time.Hour, RepairAfter: time.Duration(r.IntN(4)) * 3 * time.Minute}
	for i := range 3 + r.IntN(10) {
		labels := map[string]string{zone: string(rune('a' + r.IntN(3)))}
		if r.IntN(4) == 0 {
			labels[controlPlane] = ""
		}
		if r.IntN(12) == 0 {
			labels[v1alpha1.LabelExclude] = "true"
		}
		in.Nodes = append(in.Nodes, node(fmt.Sprintf("n-%02d", i), labels))
		for range r.IntN(3) {
			in.Fail = append(in.Fail, Change{Node: in.Nodes[i].Name, After: time.Duration(r.IntN(4000)) * time.Second})
		}
	}
	limit := func() *intstr.IntOrString {
		if r.IntN(2) == 0 {
			return new(intstr.FromInt32(r.Int32N(5)))
		}
		return new(intstr.FromString(fmt.Sprintf("%d%%", 10*r.IntN(11))))
	}
	for i := range 1 + r.IntN(2) {
		in.Checks = append(in.Checks, newNHC(fmt.Sprintf("check-%d", i), func(nhc *v1alpha1.NodeHealthCheck) {
			nhc.Spec.MaxUnhealthy, nhc.Spec.RemediationTemplate = limit(), new(reference(fmt.Sprintf("Reboot%d", i)))
			if r.IntN(2) == 0 {
				steps(time.Duration(1+r.IntN(8))*time.Minute, "Reboot", "Fence")(nhc)
			}
			if r.IntN(4) == 0 {
				nhc.Spec.HealthyDelay = &metav1.Duration{Duration: 2 * time.Minute}
			}
			if r.IntN(4) == 0 {
				nhc.Spec.StormCooldownDuration = &metav1.Duration{Duration: 5 * time.Minute}
			}
		}))
	}
	for i := range r.IntN(3) {
		spec := nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}}
		switch r.IntN(3) {
		case 0:
			spec.MaxConcurrent = limit()
		case 1:
			spec.MaxUnhealthy = limit()
		default:
			spec.MinInterval = &metav1.Duration{Duration: time.Duration(1+r.IntN(10)) * time.Minute}
		}
		if r.IntN(2) == 0 {
			spec.TopologyKey = zone
		}
		in.Budgets = append(in.Budgets, &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("budget-%d", i)}, Spec: spec})
	}
	return in
}

// judge compares the begun remediations with the specs alone.
type judge struct {
	t     *testing.T
	seed  uint64
	in    *Input
	world *world
	// known are the CRs so far, and last is when the last remediation of a group began.
	known map[types.UID]bool
	last  map[string]time.Time
}

// settled judges an instant, and returns the number of remediations that have begun in it.
func (j *judge) settled(now time.Time) (begun int) {
	slot := 0
	for name, crs := range j.world.crs {
		first := true
		var fresh []*object.CR
		for _, cr := range crs {
			if j.known[cr.UID] {
				first = false
			} else {
				fresh = append(fresh, cr)
			}
			j.known[cr.UID] = true
		}
		if _, is := j.world.nodes[name].Labels[controlPlane]; is {
			slot++
		}
		if len(fresh) > 0 {
			require.Len(j.t, fresh, 1, "seed %d", j.seed)
			require.NotEqual(j.t, "true", j.world.nodes[name].Labels[v1alpha1.LabelExclude], "seed %d: %s is excluded", j.seed, name)
			j.gate(fresh[0].Owners()[0], name)
			j.lease(fresh[0])
		}
		if first {
			begun++
			j.budgets(name, now)
		}
	}
	require.LessOrEqual(j.t, slot, 1, "seed %d: control plane nodes at %s", j.seed, now)
	return begun
}

// lease judges whether another owner still works on the node of a new CR. Once its last step has
// timed out, it lets its lease end.
func (j *judge) lease(created *object.CR) {
	for _, cr := range j.world.crs[created.Node()] {
		if cr.Owners()[0] != created.Owners()[0] {
			require.True(j.t, cr.TimedOut(), "seed %d: %s begins for %s, which has the lease of %s", j.seed, created.Owners()[0], cr.Node(), cr.Owners()[0])
		}
	}
}

// gate judges the gate of the NodeHealthCheck that has created a CR.
func (j *judge) gate(check, begun string) {
	for _, nhc := range j.in.Checks {
		if nhc.Name != check {
			continue
		}
		healthy := 0
		for name, node := range j.world.nodes {
			own := slices.ContainsFunc(j.world.crs[name], func(cr *object.CR) bool { return cr.Owners()[0] == check })
			if !health.Matches(nhc.Spec.UnhealthyConditions, node.Status.Conditions) && !own {
				healthy++
			}
		}
		gate := health.EvaluateGate(nil, nhc.Spec.MaxUnhealthy, len(j.world.nodes), healthy)
		require.True(j.t, gate.Open, "seed %d: %s begins with %d of %d nodes healthy, and maxUnhealthy %s", j.seed, begun, healthy, len(j.world.nodes), nhc.Spec.MaxUnhealthy)
	}
}

// budgets judges the groups of a node whose remediation has begun.
func (j *judge) budgets(begun string, now time.Time) {
	for _, budget := range j.in.Budgets {
		key := budget.Spec.TopologyKey
		group := j.world.nodes[begun].Labels[key]
		observed, notHealthy, remediating := 0, 0, 0
		for name, node := range j.world.nodes {
			if node.Labels[key] != group {
				continue
			}
			observed++
			if len(j.world.crs[name]) > 0 {
				remediating++
			}
			if len(j.world.crs[name]) > 0 || node.Status.Conditions[0].Status != corev1.ConditionTrue {
				notHealthy++
			}
		}
		within := func(limit *intstr.IntOrString, n int, what string) {
			if limit != nil {
				most, _ := health.Scale(*limit, observed)
				require.LessOrEqual(j.t, n, most, "seed %d: %s of %s %q after %s has begun at %s", j.seed, what, budget.Name, group, begun, now)
			}
		}
		within(budget.Spec.MaxConcurrent, remediating, "under remediation")
		within(budget.Spec.MaxUnhealthy, notHealthy, "not healthy")
		if interval := budget.Spec.MinInterval; interval != nil {
			place := budget.Name + "/" + group
			if last, known := j.last[place]; known {
				require.GreaterOrEqual(j.t, now.Sub(last), interval.Duration, "seed %d: %s", j.seed, place)
			}
			j.last[place] = now
		}
	}
}
