// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/nodeindex"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// newLook returns the last look of a sync that has seen these nodes.
func newLook(nhc *v1alpha1.NodeHealthCheck, clock clock.PassiveClock, nodes ...*corev1.Node) *lastLook {
	nhcStore := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	_ = nhcStore.Add(nhc)
	c := &Controller{clock: clock, nodeStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nodeIndexers), nhcs: nhclisters.NewNodeHealthCheckLister(nhcStore), nhcStore: nhcStore}
	c.nodes, c.index = corelisters.NewNodeLister(c.nodeStore), nodeindex.New(nodeCache{c.nodeStore})
	w := &world{objects: map[string]*corev1.Node{}, remediated: func(name string) bool { return name == "a" }}
	for _, node := range nodes {
		_ = c.nodeStore.Add(node)
		w.objects[node.Name] = node
	}
	c.count(nhc, w, clock.Now())
	return &lastLook{c: c, nhc: nhc, world: w, counted: clock.Now()}
}

// TestOutdated is what ends the beginnings of a sync before all of them have begun.
func TestOutdated(t *testing.T) {
	t.Parallel()
	failing := conditions(testCondition("Ready", "False", epoch))
	check := func(changes ...func(*v1alpha1.NodeHealthCheck)) *v1alpha1.NodeHealthCheck {
		return testCheck(append([]func(*v1alpha1.NodeHealthCheck){func(n *v1alpha1.NodeHealthCheck) {
			n.Spec.MinHealthy = new(intstr.FromInt32(3))
			n.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False", Duration: metav1.Duration{Duration: time.Minute}}}
		}}, changes...)...)
	}
	store := func(change func(*v1alpha1.NodeHealthCheck)) func(*testing.T, *lastLook) {
		return func(t *testing.T, l *lastLook) {
			t.Helper()
			require.NoError(t, l.c.nhcStore.Update(check(change)))
		}
	}
	fail := func(t *testing.T, l *lastLook) {
		t.Helper()
		require.NoError(t, l.c.nodeStore.Update(testNode("b", failing)))
	}
	// With 50 % of two nodes, one under remediation is the maximum.
	shrink := func(t *testing.T, l *lastLook) {
		t.Helper()
		require.NoError(t, l.c.nodeStore.Delete(testNode("c")))
		require.NoError(t, l.c.nodeStore.Delete(testNode("d")))
	}
	tests := map[string]struct {
		nhc   *v1alpha1.NodeHealthCheck
		event func(*testing.T, *lastLook)
		after time.Duration
		want  bool
	}{
		"nothing has happened":               {event: func(*testing.T, *lastLook) {}, after: time.Minute},
		"5.1 a status was written":           {event: store(func(n *v1alpha1.NodeHealthCheck) { n.ResourceVersion = "99" }), after: time.Minute},
		"10.1 it was paused, or edited":      {event: store(func(n *v1alpha1.NodeHealthCheck) { n.Generation++ }), want: true},
		"5.1 it is being deleted":            {event: store(func(n *v1alpha1.NodeHealthCheck) { n.DeletionTimestamp = new(metav1.NewTime(epoch)) }), want: true},
		"5.1 a namesake has replaced it":     {event: store(func(n *v1alpha1.NodeHealthCheck) { n.UID = "other" }), want: true},
		"5.1 it is gone":                     {event: func(t *testing.T, l *lastLook) { t.Helper(); require.NoError(t, l.c.nhcStore.Delete(l.nhc)) }, want: true},
		"8.4 the gate closes":                {event: fail, after: countInterval, want: true},
		"8.4 it is not counted all the time": {event: fail, after: countInterval - 1},
		"9.2 a storm begins, and the gate is open": {nhc: check(func(n *v1alpha1.NodeHealthCheck) {
			n.Spec.MinHealthy, n.Spec.MaxUnhealthy, n.Spec.StormRecoveryThreshold = nil, new(intstr.FromString("50%")), new(int32(0))
		}), event: shrink, after: countInterval, want: true},
		"the clock cannot be trusted any more": {event: func(_ *testing.T, l *lastLook) { l.c.clockTrusted = func() bool { return false } }, after: countInterval, want: true},
		"9.2 it is not configured": {nhc: check(func(n *v1alpha1.NodeHealthCheck) {
			n.Spec.MinHealthy, n.Spec.MaxUnhealthy = nil, new(intstr.FromString("50%"))
		}), event: shrink, after: countInterval},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nhc := tc.nhc
			if nhc == nil {
				nhc = check()
			}
			clock := clocktesting.NewFakeClock(epoch.Add(time.Hour))
			look := newLook(nhc, clock, testNode("a", failing), testNode("b"), testNode("c"), testNode("d"))
			require.False(t, look.beforehand())
			tc.event(t, look)
			clock.Step(tc.after)
			require.Equal(t, tc.want, look.beforehand())
			if tc.want {
				require.NoError(t, look.c.nhcStore.Add(nhc))
				require.NoError(t, look.c.nodeStore.Update(testNode("b")))
				clock.Step(time.Hour)
				require.True(t, look.beforehand(), "once outdated, always outdated")
				look.c.kube = kubefake.NewClientset(testNode("a", failing))
				_, err := look.stillUnhealthy(t.Context(), "a")
				require.ErrorIs(t, err, remediation.ErrOutdated)
			}
		})
	}
}

// TestStillUnhealthy is the last look at a node before its CR is created.
func TestStillUnhealthy(t *testing.T) {
	t.Parallel()
	nhc := testCheck(func(n *v1alpha1.NodeHealthCheck) {
		n.Spec.Selector.MatchLabels = map[string]string{"role": "worker"}
		n.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False", Duration: metav1.Duration{Duration: time.Minute}}}
	})
	worker := func(changes ...func(*corev1.Node)) *corev1.Node {
		return testNode("n", append([]func(*corev1.Node){labelled("role", "worker"), conditions(testCondition("Ready", "False", epoch))}, changes...)...)
	}
	unreachable := errors.New("no route to host")
	tests := map[string]struct {
		live *corev1.Node
		// cached is what the watch has told since the node was planned for, nil for nothing.
		cached *corev1.Node
		err    error
		now    time.Time
		want   bool
	}{
		"7.3 it still is":                      {live: worker(), now: epoch.Add(time.Minute), want: true},
		"7.3 not yet":                          {live: worker(), now: epoch.Add(time.Minute - 1)},
		"7.3 it has recovered":                 {live: worker(conditions(testCondition("Ready", "True", epoch))), now: epoch.Add(time.Hour)},
		"7.2 it has just relapsed":             {live: worker(conditions(testCondition("Ready", "False", epoch.Add(time.Hour)))), now: epoch.Add(time.Hour)},
		"15.1 it was excluded":                 {live: worker(labelled(v1alpha1.LabelExclude, "true")), now: epoch.Add(time.Hour)},
		"15.2 an empty label does not exclude": {live: worker(labelled(v1alpha1.LabelExclude, "")), now: epoch.Add(time.Hour), want: true},
		"17.5 it is no longer selected":        {live: worker(labelled("role", "infra")), now: epoch.Add(time.Hour)},
		"17.1 it is gone":                      {now: epoch.Add(time.Hour)},
		"P9 it was replaced by a namesake":     {live: worker(func(n *corev1.Node) { n.UID = "another" }), now: epoch.Add(time.Hour)},
		"P5 it cannot be read":                 {live: worker(), err: unreachable, now: epoch.Add(time.Hour)},
		"16.1 the watch knows of a recovery":   {live: worker(), cached: worker(conditions(testCondition("Ready", "True", epoch))), now: epoch.Add(time.Hour)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := kubefake.NewClientset()
			if tc.live != nil {
				require.NoError(t, kube.Tracker().Add(tc.live))
			}
			if tc.err != nil {
				kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			}
			look := newLook(nhc, clocktesting.NewFakePassiveClock(tc.now), worker())
			look.c.kube = kube
			if tc.cached != nil {
				require.NoError(t, look.c.nodeStore.Update(tc.cached))
			}
			got, err := look.stillUnhealthy(t.Context(), "n")
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, got)
		})
	}
}
