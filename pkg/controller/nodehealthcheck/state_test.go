// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/status"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// TestStates: one for each NodeHealthCheck, as long as it lives.
func TestStates(t *testing.T) {
	t.Parallel()
	var all nhcStates
	all.forget("workers")
	nhc := testCheck()
	nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "n", Decision: &v1alpha1.Decision{Type: "Held", Reason: "Paused"}}, {Name: "m"}, {Name: "a"}}
	first := all.of(nhc)
	require.Equal(t, &v1alpha1.Decision{Type: "Held", Reason: "Paused"}, (&status.Finder{Entries: first.entries}).Decision("n"), "P8: after a restart, status tells")
	require.NotNil(t, first.deletionRequested)
	require.Same(t, first, all.of(testCheck()))
	require.Empty(t, first.entries, "P8: until this process has reported, status tells, as it is by then")
	first.observed = true
	require.Same(t, first, all.of(nhc))
	require.Empty(t, first.entries)
	require.NotSame(t, first, all.of(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Name = "others" })))

	first.reported = status.RecallReported(&v1alpha1.NodeHealthCheckStatus{UnhealthyNodes: []v1alpha1.UnhealthyNode{{
		Name: "n", Decision: &v1alpha1.Decision{Reason: v1alpha1.DecidedStepFailed}, Remediations: []v1alpha1.Remediation{entryOf(testCR("n", "1"))},
	}}})
	nothing := status.RecallReported(&v1alpha1.NodeHealthCheckStatus{})
	require.NotEqual(t, nothing, first.reported)
	first.deletionRequested = map[types.UID]bool{"1": true}
	again := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.UID = "of-the-next-life" })
	next := all.of(again)
	require.NotSame(t, first, next)
	require.Equal(t, nothing, next.reported, "P9: what was said of another of that name says nothing")
	require.Empty(t, next.deletionRequested, "P9")
	require.Empty(t, next.entries, "P9")
	require.Same(t, next, all.of(again))

	all.forget("workers")
	require.NotSame(t, next, all.of(again))
}

// TestConflictedState: a status write that lost against another one was made from an old
// status. What the other one has ended does not end twice (spec 23b, P8).
func TestConflictedState(t *testing.T) {
	t.Parallel()
	s := begun(t)
	s.sync(sick("n", refused(v1alpha1.DecidedGateClosed)))
	open := func() []string { return slices.Sorted(s.state.ledger.Nodes()) }
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
	c := bareController()
	c.client = fake.RemediationV1alpha1()
	r := s.result(well("n"))
	require.Len(t, r.Ended, 1)
	_, err := c.report(t.Context(), r.snapshot, r.Evaluated, r.results, r.now)
	require.True(t, apierrors.IsConflict(err))
	require.Same(t, s.state, s.states.of(after))
	require.Empty(t, open(), "the new status tells")
	s.nhc = after
	r = s.result(well("n"))
	require.Empty(t, r.Ended, "it has ended before")
	require.Equal(t, history, r.Status.RemediationHistory)
}

// TestDelayOfUnlistedNode: healthyDelay goes on for a node that status has no room for
// (spec 16.4).
func TestDelayOfUnlistedNode(t *testing.T) {
	t.Parallel()
	s := testSnapshot(testCheck(), testNode("n"), testNode("sick"))
	s.observeEntries()
	s.state.healthy = s.seesHealthy([]v1alpha1.UnhealthyNode{
		{Name: "n", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch))}, {Name: "sick"}, {Name: "gone", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch))},
	})
	require.Len(t, s.state.healthy, 1)
	require.NoError(t, s.observeStatus(epoch.Add(time.Hour)))
	require.Equal(t, epoch, s.node("n").HealthySince)
}

// TestDelayWhileStatusIsNotWritten: a status that could not be written does not show an interruption that the process has
// seen. A new process has only status (spec 16.4; seed 4001099).
func TestDelayWhileStatusIsNotWritten(t *testing.T) {
	t.Parallel()
	stored := []v1alpha1.UnhealthyNode{{Name: "n", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch))}}
	again := []v1alpha1.UnhealthyNode{{Name: "n", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch.Add(time.Minute)))}}
	for name, tc := range map[string]struct {
		last []v1alpha1.UnhealthyNode // What the last sync reported, nil before the first one.
		then []v1alpha1.UnhealthyNode // What status says after that.
		want time.Time
	}{
		"a new process":                 {nil, stored, epoch},
		"it was not healthy then":       {[]v1alpha1.UnhealthyNode{{Name: "n"}}, stored, time.Time{}},
		"it is healthy again":           {again, stored, epoch.Add(time.Minute)},
		"it is written":                 {again, again, epoch.Add(time.Minute)},
		"the status is edited":          {again, []v1alpha1.UnhealthyNode{{Name: "n", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch.Add(-time.Hour)))}}, epoch.Add(-time.Hour)},
		"the status has no room for it": {again, nil, epoch.Add(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testSnapshot(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Status.UnhealthyNodes = stored }), testNode("n"))
			if tc.last != nil {
				s.observeEntries()
				s.state.healthy = s.seesHealthy(tc.last)
			}
			s.nhc.Status.UnhealthyNodes = tc.then
			require.NoError(t, s.observeStatus(epoch.Add(time.Hour)))
			require.Equal(t, tc.want, s.node("n").HealthySince)
		})
	}
}

// TestStormBeyondStatus: a storm goes on if the cache does not show it yet, or status could not be written (spec 9.5; seed
// 2886170951).
func TestStormBeyondStatus(t *testing.T) {
	t.Parallel()
	storm := health.Storm{Active: true, Since: epoch}
	for name, tc := range map[string]struct {
		version   string
		unwritten bool
		want      health.Storm
	}{
		"the cache is behind":              {version: "10", want: storm},
		"the cache shows it":               {version: "20"},
		"the last write has failed":        {version: "20", unwritten: true, want: storm},
		"that, and the cache is behind it": {version: "10", unwritten: true, want: storm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testSnapshot(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.ResourceVersion = tc.version }))
			s.state.written, s.state.storm, s.state.unwritten = "20", storm, tc.unwritten
			require.Equal(t, tc.want, s.input().Storm)
		})
	}
}

// TestSightingsBehind: as long as the handler of Nodes has not recorded a version, it is not known whether
// a delay was interrupted (spec 16.4, P11).
func TestSightingsBehind(t *testing.T) {
	t.Parallel()
	ready := func(at time.Time) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(at)}}
		}
	}
	s := testSnapshot(testCheck(failsReady), testNode("n", ready(epoch.Add(time.Minute))))
	entries := []v1alpha1.UnhealthyNode{{Name: "n", ConditionsHealthyTimestamp: new(metav1.NewTime(epoch))}}
	begun := health.Sighting{Type: "Ready", Status: "True", Transition: epoch, Begun: epoch}
	s.seen = func(*corev1.Node) []health.Sighting { return []health.Sighting{begun} }
	s.sightings = map[string][]health.Sighting{"n": s.seen(nil)}
	s.observeEntries()
	s.state.healthy = s.seesHealthy(entries)
	require.ErrorIs(t, s.observeStatus(epoch.Add(time.Hour)), watches.ErrPending)
	begun.Transition = epoch.Add(time.Minute)
	require.NoError(t, s.observeStatus(epoch.Add(time.Hour)))
	require.Equal(t, epoch, s.node("n").HealthySince, "the time has moved, and the status has not")
	begun.Begun = epoch.Add(time.Minute)
	s.node("n").HealthySince = time.Time{}
	require.NoError(t, s.observeStatus(epoch.Add(time.Hour)))
	require.Equal(t, epoch.Add(time.Hour), s.node("n").HealthySince)
}

// TestLeaseReleaseIsRepeated: a lease without holder is found by its node only, and that is
// in no list any more when its release has failed (spec 14.9, P5).
func TestLeaseReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	c := bareController()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: "node-n"}}
	require.NoError(t, c.LeaseCache.Add(lease))
	s := testSnapshot(testCheck(), testNode("n"))
	c.observeLeases(s)
	require.NoError(t, s.observeStatus(epoch))
	release := []remediation.Action{remediation.ReleaseLease{Lease: lease}}
	remember := func(outcome remediation.Outcome) {
		c.rememberOutcomes(t.Context(), s, []remediation.NodeResult{{Plan: &remediation.NodePlan{Node: &s.nodes[0], Actions: release}, Outcome: &outcome}})
	}
	remember(remediation.Outcome{ReleaseFailed: true, Err: errors.New("out of order")})
	further := c.addFurtherNodes(nil, s, &ownCRs{})
	require.Contains(t, further, nodeObject{name: "n"}, "it is looked at again")
	require.NoError(t, s.observeStatus(epoch))
	var evaluated evaluation.Evaluated
	evaluated.SetPolicy(s.input())
	require.Equal(t, release, remediation.NewPlans(&evaluated.Policy, s.nodes, epoch)[0].Actions)
	remember(remediation.Outcome{})
	further = c.addFurtherNodes(nil, s, &ownCRs{})
	require.Empty(t, further, "P12")
}

// TestSecondLifeIsToldAnew: the reports of a deleted NodeHealthCheck do not count for a
// new one of its name.
func TestSecondLifeIsToldAnew(t *testing.T) {
	t.Parallel()
	s := begun(t)
	closed := sick("n", refused(v1alpha1.DecidedGateClosed))
	require.Len(t, s.sync(closed), 2)
	s.quiet(t, closed)
	s.nhc.UID, s.nhc.Status = "of-the-next-life", v1alpha1.NodeHealthCheckStatus{}
	s.state = s.states.of(s.nhc)
	require.Len(t, s.sync(closed), 3, "19.1: Enabled, DetectedUnhealthy, RemediationSkipped")
	s.quiet(t, closed)
}
