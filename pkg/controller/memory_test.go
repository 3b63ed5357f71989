// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestMemories: one for each NodeHealthCheck, as long as it lives.
func TestMemories(t *testing.T) {
	t.Parallel()
	var all memories
	require.Nil(t, all.forget("workers"), "there was none")
	nhc := testCheck()
	nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "n", Decision: &v1alpha1.Decision{Type: "Held", Reason: "Paused"}}, {Name: "m"}}
	first := all.of(nhc)
	require.Equal(t, map[string]v1alpha1.Decision{"n": {Type: "Held", Reason: "Paused"}}, first.decisions, "P8: after a restart, status tells")
	require.Nil(t, first.remediations, "before the first sync")
	require.NotNil(t, first.deletionRequested)
	require.Same(t, first, all.of(testCheck()))
	require.NotSame(t, first, all.of(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Name = "others" })))

	first.announced.gateClosed, first.deletionRequested = true, map[types.UID]bool{"1": true}
	first.remediations, first.oldNodes = map[types.UID]tracked{"1": {node: "n"}}, sets.New("n")
	again := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.UID = "of-the-next-life" })
	next := all.of(again)
	require.NotSame(t, first, next)
	require.False(t, next.announced.gateClosed, "P9: what was said of a namesake says nothing")
	require.Empty(t, next.deletionRequested, "P9")
	require.Empty(t, next.decisions, "P9")
	require.Equal(t, first.remediations, next.remediations, "20.1: its series are still to be removed")
	require.Equal(t, first.oldNodes, next.oldNodes, "20.1")
	require.Same(t, next, all.of(again))

	require.Same(t, next, all.forget("workers"))
	require.Nil(t, all.forget("workers"))
	require.NotSame(t, next, all.of(again))
}

// TestContradictedMemory: a status write that lost against another one was made from an old
// status. What the other one has ended does not end twice (spec 23b, P8).
func TestContradictedMemory(t *testing.T) {
	t.Parallel()
	s := begun(t)
	s.sync(sick("n", refused(remediation.RefusedGateClosed)))
	open := func() []string { return s.memory.ledger.Nodes(func(string) bool { return true }) }
	require.Equal(t, []string{"n"}, open())
	after := s.nhc.DeepCopy()
	after.Status.UnhealthyNodes = nil
	for i := range after.Status.RemediationHistory {
		after.Status.RemediationHistory[i].Finished, after.Status.RemediationHistory[i].Outcome = new(metav1.NewTime(s.now)), v1alpha1.OutcomeRecoveredWithoutRemediation
	}
	history := after.Status.RemediationHistory
	require.Len(t, history, 1)

	fake := nhcfake.NewSimpleClientset()
	fake.PrependReactor("*", "nodehealthchecks", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(nhcResource, "workers", nil)
	})
	c := &Controller{client: fake.RemediationV1alpha1(), clock: clock.RealClock{}}
	r := s.round(well("n"))
	require.Len(t, r.ended, 1)
	require.True(t, apierrors.IsConflict(c.report(t.Context(), r, s.memory)))
	require.Same(t, s.memory, s.memories.of(after))
	require.Empty(t, open(), "the new status tells")
	s.nhc = after
	r = s.round(well("n"))
	require.Empty(t, r.ended, "it has ended before")
	require.Equal(t, history, r.status.RemediationHistory)
}

// TestDelayOfUnlistedNode: healthyDelay goes on for a node that status has no room for
// (spec 16.4).
func TestDelayOfUnlistedNode(t *testing.T) {
	t.Parallel()
	w := &world{objects: map[string]*corev1.Node{"n": testNode("n"), "sick": testNode("sick")}, nodes: []remediation.Node{{Name: "n"}}}
	memory := &memory{}
	memory.healthy = w.seesHealthy([]v1alpha1.UnhealthyNode{
		{Name: "n", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch))}, {Name: "sick"}, {Name: "gone", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch))},
	})
	require.Len(t, memory.healthy, 1)
	c := &Controller{retries: newRetries(), leaseStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	require.NoError(t, c.complete(testCheck(), w, memory, epoch.Add(time.Hour)))
	require.Equal(t, epoch, w.nodes[0].HealthySince)
}

// TestLeaseReleaseIsRepeated: a lease without holder is found by its node only, and that is
// in no list any more when its release has failed (spec 14.9, P5).
func TestLeaseReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	nhc, memory := testCheck(), (&memories{}).of(testCheck())
	c := &Controller{
		retries: newRetries(), clock: clock.RealClock{}, nodeStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nodeIndexers),
		leaseStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, leaseIndexers), leaseNamespace: "leases",
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: "node-n"}}
	require.NoError(t, c.leaseStore.Add(lease))
	plans := []remediation.NodePlan{{Node: remediation.Node{Name: "n", Lease: lease}, Actions: []remediation.Action{remediation.ReleaseLease{Lease: lease}}}}
	c.remember(t.Context(), nhc.Name, memory, plans, []remediation.Outcome{{ReleaseFailed: true, Err: errors.New("out of order")}})
	names, err := c.furtherNodes(nhc, &ownCRs{}, memory)
	require.NoError(t, err)
	require.True(t, names.Has("n"), "it is looked at again")
	w := &world{nodes: []remediation.Node{{Name: "n"}}}
	require.NoError(t, c.complete(nhc, w, memory, time.Now().Add(time.Hour)))
	plan := (&remediation.Script{NHC: nhc}).Plan(w.nodes[0], time.Now().Add(time.Hour))
	require.Equal(t, []remediation.Action{remediation.ReleaseLease{Lease: lease}}, plan.Actions)
	c.remember(t.Context(), nhc.Name, memory, plans, []remediation.Outcome{{}})
	names, err = c.furtherNodes(nhc, &ownCRs{}, memory)
	require.NoError(t, err)
	require.False(t, names.Has("n"), "P12")
}

// TestSecondLifeIsToldAnew: what was said of a NodeHealthCheck is said again of one
// that was created under its name.
func TestSecondLifeIsToldAnew(t *testing.T) {
	t.Parallel()
	s := begun(t)
	closed := sick("n", refused(remediation.RefusedGateClosed))
	require.Len(t, s.sync(closed), 2)
	s.quiet(t, closed)
	s.nhc.UID, s.nhc.Status = "of-the-next-life", v1alpha1.NodeHealthCheckStatus{}
	s.memory = s.memories.of(s.nhc)
	require.Len(t, s.sync(closed), 3, "19.1: Enabled, DetectedUnhealthy, RemediationSkipped")
	s.quiet(t, closed)
}

// TestOldSeriesOfRecreatedNHC: as TestSeriesOfRecreatedNHC, for old CRs.
func TestOldSeriesOfRecreatedNHC(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.now = epoch.Add(49 * time.Hour)
	s.sync(sick("n", own(testCR("n", "1"))))
	require.Len(t, s.values(t, oldCRs), 1)
	s.nhc.UID, s.nhc.Status = "of-the-next-life", v1alpha1.NodeHealthCheckStatus{}
	s.memory = s.memories.of(s.nhc)
	s.sync(well("n"))
	require.Empty(t, s.values(t, oldCRs), "P4 20.1: the series goes with its cause")
}
