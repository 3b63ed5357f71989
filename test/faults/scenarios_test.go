// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// outOfSight is longer than what the controller may not have seen in quiet times: what
// it does then, it knows better.
var outOfSight = rules.Quiet.Cache + time.Second

// outOfAnySight is the same for what only a sync reports whose beginning nobody sees.
var outOfAnySight = outOfSight + rules.Quiet.Sync

// TestQuiet has random load and no fault at all.
func TestQuiet(t *testing.T) {
	if !*longForm {
		t.Skip("in the short form, TestNodes and TestNodeHealthChecks have quiet times enough")
	}
	forEachSeed(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		w.startAlone(nil)
		w.usualLoad().run(t.Context(), time.Minute)
		w.requireSettled()
		w.requireSeen(20, 10)
	})
}

// TestNodes has nodes fail in waves, further apart than what the controller may not have
// seen: the gate is closed and a storm rages when more of them fail, NodeHealthChecks are
// paused, nodes excluded, their leases taken. Then all recover at once; then they flap,
// lie, go and come back.
func TestNodes(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		w.startAlone(nil)
		n := numberOf(24, 60)
		w.createNodes(n)
		w.createNHCs(usualNHCs()...)
		restrained := w.restrain(n)
		w.staff.rest(true) // Nobody heals a node between the waves.
		order := w.random.Perm(n)
		w.referee.Fault("the first wave of failures")
		w.fail(order[:n/2]...)
		time.Sleep(outOfSight)
		w.referee.Fault("all first steps fail")
		for _, cr := range w.crs(kindNames[0]) {
			w.staff.report(t.Context(), remediationsOf(kindNames[0]), cr, conditions("False"))
		}
		w.replaceTreated(order[:n/2])
		w.referee.Fault("the second wave of failures")
		w.fail(order[n/2:]...)
		w.fail(restrained...)
		time.Sleep(outOfSight)
		w.referee.Fault("other conditions of the first wave")
		for _, i := range order[:n/2] {
			require.NoError(t, w.setReady(t.Context(), nodeName(i), "Unknown", time.Now().Add(time.Hour)))
		}
		w.holdAll()
		deleted := w.deleteHeld()
		for _, i := range order[:n/2] {
			if nodeName(i) == deleted {
				continue
			}
			confirmed := map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: ""}
			require.NoError(t, w.changeNode(t.Context(), nodeName(i), "annotations", confirmed))
		}
		time.Sleep(outOfSight / 2)
		w.requireOrder()
		w.referee.Fault("all nodes recover")
		w.healAll()
		time.Sleep(outOfSight / 2)
		w.staff.rest(false)
		l := &load{w: w, nodes: n, gap: 10 * time.Millisecond, only: onNodes}
		l.run(t.Context(), lasting(3*time.Second, time.Minute))
		w.requireSettled()
		w.requireSeen(10, 5)
	})
}

// replaceTreated has a remediation succeed, and then its Node replaced by a namesake: a
// remediator that has succeeded is not told to stop (spec 13.8).
func (w *world) replaceTreated(nodes []int) {
	w.t.Helper()
	ctx := w.t.Context()
	for _, cr := range w.crs(kindNames[2]) {
		for _, i := range nodes {
			if cr.GetAnnotations()[v1alpha1.AnnotationNodeName] != nodeName(i) {
				continue
			}
			w.staff.report(ctx, remediationsOf(kindNames[2]), cr, conditions("True"))
			time.Sleep(500 * time.Millisecond)
			w.referee.Fault("node %s is replaced", nodeName(i))
			require.NoError(w.t, w.kube.CoreV1().Nodes().Delete(ctx, nodeName(i), metav1.DeleteOptions{}))
			time.Sleep(500 * time.Millisecond)
			require.NoError(w.t, w.createNode(ctx, i))
			return
		}
	}
}

// holdAll has the remediators of all CRs hold them by finalizers.
func (w *world) holdAll() {
	w.t.Helper()
	for _, kind := range kindNames {
		for _, cr := range w.crs(kind) {
			require.True(w.t, w.staff.finalizers(w.t.Context(), remediationsOf(kind), cr, finalizer))
		}
	}
}

// deleteHeld deletes a Node whose CR is held by a finalizer (spec 17.2), and returns its name.
func (w *world) deleteHeld() string {
	w.t.Helper()
	for _, kind := range kindNames {
		for _, cr := range w.crs(kind) {
			node := cr.GetAnnotations()[v1alpha1.AnnotationNodeName]
			w.referee.Fault("node %s is deleted", node)
			require.NoError(w.t, w.kube.CoreV1().Nodes().Delete(w.t.Context(), node, metav1.DeleteOptions{}))
			time.Sleep(500 * time.Millisecond)
			return node
		}
	}
	require.FailNow(w.t, "there are no CRs")
	return ""
}

// crs returns the CRs of a kind.
func (w *world) crs(kind string) []*unstructured.Unstructured {
	w.t.Helper()
	list, err := w.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	crs := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		crs = append(crs, &list.Items[i])
	}
	return crs
}

// restrain creates six more nodes, none of which may be remediated, and returns them.
func (w *world) restrain(first int) []int {
	w.t.Helper()
	ctx := w.t.Context()
	w.createNHCs(newNHC("paused", []string{"paused"}), newNHC("restrained", []string{"restrained"}))
	require.NoError(w.t, w.changeNHC(ctx, "paused", map[string]any{"pauseRequests": []string{"test"}}))
	var nodes []int
	for i := range 6 {
		number := first + i
		require.NoError(w.t, w.createNode(ctx, number))
		name, pool := nodeName(number), "restrained"
		switch i % 3 {
		case 0:
			pool = "paused"
		case 1:
			require.NoError(w.t, w.exclude(ctx, name, "true"))
		case 2:
			require.NoError(w.t, w.takeLease(ctx, name, time.Hour))
		}
		require.NoError(w.t, w.changeNode(ctx, name, "labels", map[string]any{poolLabel: pool}))
		nodes = append(nodes, number)
	}
	return nodes
}

// TestNodeHealthChecks has many NodeHealthChecks select the same nodes. They are created,
// edited, paused and deleted at random.
func TestNodeHealthChecks(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		w.startAlone(nil)
		n := numberOf(18, 60)
		w.createNodes(n)
		many := overlapping(numberOf(30, 200))
		w.createNHCs(many...)
		l := &load{w: w, nodes: n, gap: 10 * time.Millisecond, spares: many}
		onlyNHCs := &load{w: w, nodes: n, gap: 10 * time.Millisecond, spares: many, only: onNHCs}
		for range numberOf(1, 10) {
			l.run(t.Context(), lasting(3*time.Second, 10*time.Second))
			onlyNHCs.run(t.Context(), lasting(time.Second, 5*time.Second))
			w.requireOrder()
		}
		w.requireSettled()
		w.requireSeen(5, 3)
	})
}

// overlapping returns NodeHealthChecks of which each selects two of three pools.
func overlapping(n int) []*v1alpha1.NodeHealthCheck {
	all := make([]*v1alpha1.NodeHealthCheck, 0, n)
	for i := range n {
		selected := []string{pools[i%len(pools)], pools[(i+1)%len(pools)]}
		change := withTemplate(templates[i%len(templates)])
		if i%3 == 0 {
			change = laddered
		}
		all = append(all, newNHC(fmt.Sprintf("overlap-%03d", i), selected, change))
	}
	return all
}
