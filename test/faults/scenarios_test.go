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

// beyondTolerance is longer than what the controller may not have seen in quiet times: what
// it does then, it knows better.
var beyondTolerance = rules.Quiet.Cache + time.Second

// beyondSync is the same for what only a sync reports. The judge does not see when that sync began.
var beyondSync = beyondTolerance + rules.Quiet.Sync

// TestQuiet has random load and no fault at all.
func TestQuiet(t *testing.T) {
	if !*longForm {
		t.Skip("in the short form, TestNodes and TestNodeHealthChecks have quiet times enough")
	}
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		e.startAlone(nil)
		e.usualLoad().run(t.Context(), time.Minute)
		e.requireSettled()
		e.requireSeen(20, 10)
	})
}

// TestNodes has nodes fail in waves, further apart than what the controller may not have
// seen: the gate is closed and a storm rages when more of them fail, NodeHealthChecks are
// paused, nodes excluded, their leases taken. Then all recover at once; then they flap,
// lie, go and come back.
func TestNodes(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		e.startAlone(nil)
		n := numberOf(24, 60)
		e.createNodes(n)
		e.createNHCs(usualNHCs()...)
		restrained := e.restrain(n)
		e.remediators.rest(true) // No remediator heals a node between the waves.
		order := e.random.Perm(n)
		e.referee.Fault("the first wave of failures")
		e.fail(order[:n/2]...)
		time.Sleep(beyondTolerance)
		e.referee.Fault("all first steps fail")
		for _, cr := range e.crs(kindNames[0]) {
			e.remediators.report(t.Context(), remediationsOf(kindNames[0]), cr, conditions("False"))
		}
		e.replaceTreated(order[:n/2])
		e.referee.Fault("the second wave of failures")
		e.fail(order[n/2:]...)
		e.fail(restrained...)
		time.Sleep(beyondTolerance)
		e.referee.Fault("other conditions of the first wave")
		for _, i := range order[:n/2] {
			require.NoError(t, e.setReady(t.Context(), nodeName(i), "Unknown", time.Now().Add(time.Hour)))
		}
		e.holdAll()
		deleted := e.deleteHeld()
		for _, i := range order[:n/2] {
			if nodeName(i) == deleted {
				continue
			}
			confirmed := map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: ""}
			require.NoError(t, e.changeNode(t.Context(), nodeName(i), "annotations", confirmed))
		}
		time.Sleep(beyondTolerance / 2)
		e.requireOrder()
		e.referee.Fault("all nodes recover")
		e.healAll()
		time.Sleep(beyondTolerance / 2)
		e.remediators.rest(false)
		l := &load{e: e, nodes: n, gap: 10 * time.Millisecond, only: onNodes}
		l.run(t.Context(), lasting(3*time.Second, time.Minute))
		e.requireSettled()
		e.requireSeen(10, 5)
	})
}

// replaceTreated has a remediation succeed, and then its Node replaced by a namesake: a
// remediator that has succeeded is not told to stop (spec 13.8).
func (e *environment) replaceTreated(nodes []int) {
	e.t.Helper()
	ctx := e.t.Context()
	for _, cr := range e.crs(kindNames[2]) {
		for _, i := range nodes {
			if cr.GetAnnotations()[v1alpha1.AnnotationNodeName] != nodeName(i) {
				continue
			}
			e.remediators.report(ctx, remediationsOf(kindNames[2]), cr, conditions("True"))
			time.Sleep(500 * time.Millisecond)
			e.referee.Fault("node %s is replaced", nodeName(i))
			require.NoError(e.t, e.kube.CoreV1().Nodes().Delete(ctx, nodeName(i), metav1.DeleteOptions{}))
			time.Sleep(500 * time.Millisecond)
			require.NoError(e.t, e.createNode(ctx, i))
			return
		}
	}
}

// holdAll has the remediators of all CRs hold them by finalizers.
func (e *environment) holdAll() {
	e.t.Helper()
	for _, kind := range kindNames {
		for _, cr := range e.crs(kind) {
			require.True(e.t, e.remediators.finalizers(e.t.Context(), remediationsOf(kind), cr, finalizer))
		}
	}
}

// deleteHeld deletes a Node whose CR is held by a finalizer (spec 17.2), and returns its name.
func (e *environment) deleteHeld() string {
	e.t.Helper()
	for _, kind := range kindNames {
		for _, cr := range e.crs(kind) {
			node := cr.GetAnnotations()[v1alpha1.AnnotationNodeName]
			e.referee.Fault("node %s is deleted", node)
			require.NoError(e.t, e.kube.CoreV1().Nodes().Delete(e.t.Context(), node, metav1.DeleteOptions{}))
			time.Sleep(500 * time.Millisecond)
			return node
		}
	}
	require.FailNow(e.t, "there are no CRs")
	return ""
}

// crs returns the CRs of a kind.
func (e *environment) crs(kind string) []*unstructured.Unstructured {
	e.t.Helper()
	list, err := e.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	crs := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		crs = append(crs, &list.Items[i])
	}
	return crs
}

// restrain creates six more nodes that may not be remediated, and returns them.
func (e *environment) restrain(first int) []int {
	e.t.Helper()
	ctx := e.t.Context()
	e.createNHCs(newNHC("paused", []string{"paused"}), newNHC("restrained", []string{"restrained"}))
	require.NoError(e.t, e.changeNHC(ctx, "paused", map[string]any{"pauseRequests": []string{"test"}}))
	var nodes []int
	for i := range 6 {
		number := first + i
		require.NoError(e.t, e.createNode(ctx, number))
		name, pool := nodeName(number), "restrained"
		switch i % 3 {
		case 0:
			pool = "paused"
		case 1:
			require.NoError(e.t, e.exclude(ctx, name, "true"))
		case 2:
			require.NoError(e.t, e.takeLease(ctx, name, time.Hour))
		}
		require.NoError(e.t, e.changeNode(ctx, name, "labels", map[string]any{poolLabel: pool}))
		nodes = append(nodes, number)
	}
	return nodes
}

// TestNodeHealthChecks has many NodeHealthChecks select the same nodes. They are created,
// edited, paused and deleted at random.
func TestNodeHealthChecks(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		e.startAlone(nil)
		n := numberOf(18, 60)
		e.createNodes(n)
		many := overlapping(numberOf(30, 200))
		e.createNHCs(many...)
		l := &load{e: e, nodes: n, gap: 10 * time.Millisecond, spares: many}
		onlyNHCs := &load{e: e, nodes: n, gap: 10 * time.Millisecond, spares: many, only: onNHCs}
		for range numberOf(1, 10) {
			l.run(t.Context(), lasting(3*time.Second, 10*time.Second))
			onlyNHCs.run(t.Context(), lasting(time.Second, 5*time.Second))
			e.requireOrder()
		}
		for l.done < 100 { // A busy machine gets less done in the same time.
			l.run(t.Context(), time.Second)
		}
		e.requireSettled()
		e.requireSeen(5, 3)
	})
}

// overlapping returns NodeHealthChecks. Each selects two of three pools.
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
