// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

const (
	saidEnabled  = "Enabled: No issues found, NodeHealthCheck is enabled."
	saidDetected = `DetectedUnhealthy: Node matches unhealthy condition. Node "n", condition type "Ready", condition status "Unknown"`
	saidCreated  = "RemediationCreated: Created remediation object for node n"
	saidRemoved  = "RemediationRemoved: Deleted remediation CR of kind RebootRemediation with name n"
	saidGate     = "RemediationSkipped: Skipped remediation because the number of healthy nodes selected by the selector is 1 and should equal or exceed 2"
	saidPause    = "RemediationSkipped: Postponing potential remediations because of pause requests"
	saidUpgrade  = "RemediationSkipped: Postponing potential remediations because of ongoing cluster upgrade"
	saidExcluded = "RemediationSkipped: Remediation skipped on node n: node has Exclude from Remediation label"
	saidLease    = "RemediationSkipped: Skipped remediation of node: n, because node lease is already taken"
	saidLabel    = "InvalidNodeLabel: Node n has exclude-from-remediation label with empty value, label will be ignored. Set value to 'true' to exclude node from remediation"
	saidGivenUp  = "NoTemplateLeft: Remediation timed out, and no template left to try. didn't find a template to use for NHC workers and node n"
	saidOld      = "OldRemediationCR: Remediation CR of kind RebootRemediation with name n for node n is older than 48h"
)

// quiet syncs some times more and expects no event.
func (s *story) quiet(t *testing.T, parts ...part) {
	t.Helper()
	for range 3 {
		require.Empty(t, s.sync(parts...), "19.1 P3: transitions, never a sync")
	}
}

// begun is a story whose first event is told.
func begun(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	require.Equal(t, []string{saidEnabled}, s.sync(well("n")))
	s.quiet(t, well("n"))
	return s
}

// TestEventsOfAnEpisode walks through one.
func TestEventsOfAnEpisode(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	s.quiet(t, soon("n"))
	require.Equal(t, []string{saidDetected, saidCreated}, s.sync(sick("n", created(cr))), "19.1")
	s.quiet(t, sick("n", own(cr)))
	s.quiet(t, soon("n", own(cr)))
	s.quiet(t, sick("n", own(cr)))
	s.quiet(t, well("n", own(cr), delayed))
	s.quiet(t, sick("n", own(cr)))
	require.Equal(t, []string{saidRemoved}, s.sync(well("n", own(cr), deleted(cr))), "16.1: for each request issued")
	s.quiet(t, well("n", own(testCR("n", "1", crDeleting))))
	s.quiet(t, well("n"))
	require.Equal(t, []string{saidDetected}, s.sync(sick("n", refused(v1alpha1.DecidedPaused))), "a new episode")
}

func TestDetectedOncePerEpisode(t *testing.T) {
	t.Parallel()
	s := begun(t)
	require.Equal(t, []string{saidDetected}, s.sync(sick("n", refused(v1alpha1.DecidedForeignRemediation))), "19.1: however blocked")
	s.quiet(t, sick("n", refused(v1alpha1.DecidedDisabled)))
	s.quiet(t, soon("n"))
	s.quiet(t, sick("n", refused(v1alpha1.DecidedCreateFailed)))
	s.restart()
	s.quiet(t, sick("n", refused(v1alpha1.DecidedCreateFailed)))
	s.quiet(t, well("n"))
	require.Equal(t, []string{saidDetected}, s.sync(sick("n", refused(v1alpha1.DecidedForeignRemediation))))
	const lost = "RemediationSkipped: Node n is not healthy, and the selector does not select it any more: nothing is done about it"
	require.Equal(t, []string{lost}, s.sync(sick("n", unselected, refused(v1alpha1.DecidedUnselected))), "FR-312 it has lost its label")
	s.quiet(t, sick("n", unselected, refused(v1alpha1.DecidedUnselected)))
}

// TestLeaseTakenOver: FR-324 the lease of another holder has run out, and is taken over (spec 14.4).
func TestLeaseTakenOver(t *testing.T) {
	t.Parallel()
	held := func(holder string, renewed *metav1.MicroTime) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: renewed, LeaseDurationSeconds: new(int32(30))}}
	}
	renewed := new(metav1.NewMicroTime(epoch.Add(-time.Minute)))
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		lost  bool
		want  []string
	}{
		"no lease":                   {},
		"our own":                    {lease: held("NodeHealthCheck-workers", renewed)},
		"a lease without a holder":   {lease: held("", renewed)},
		"another client took it":     {lease: held("node-maintenance", renewed), lost: true},
		"a maintenance let it lapse": {lease: held("node-maintenance", renewed), want: []string{"LeaseTakenOver: Took over the lease of node n from node-maintenance, which held it until 2025-12-31T23:59:30Z"}},
		"without a time":             {lease: held("node-maintenance", nil), want: []string{"LeaseTakenOver: Took over the lease of node n from node-maintenance, which did not say until when it held it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t)
			require.Equal(t, append(tc.want, saidDetected), s.sync(sick("n", refused(v1alpha1.DecidedCreateFailed), func(p *part) {
				p.outcome.LeaseBefore, p.outcome.LeaseWritten = tc.lease, !tc.lost
			})))
			s.quiet(t, sick("n", refused(v1alpha1.DecidedCreateFailed), func(p *part) { p.plan.Node.Lease = held("NodeHealthCheck-workers", renewed) }))
		})
	}
}

// TestSelectsNoNode: FR-301 a selector that selects no node is reported once, whatever the process
// remembers (spec 18.5, 19.1).
func TestSelectsNoNode(t *testing.T) {
	t.Parallel()
	s := begun(t)
	counted := s.observe
	s.observe = func(w *observed) { w.Gate = health.Gate{Open: true} }
	require.Equal(t, []string{"NoNodes: the selector selects no node"}, s.sync())
	require.Equal(t, v1alpha1.PhaseEnabled, s.nhc.Status.Phase)
	s.quiet(t)
	s.restart()
	s.quiet(t)
	s.observe = counted
	s.quiet(t, well("n"))
	require.Equal(t, "Open", remediationAllowedReason(s.nhc), "P4")
	s.observe = func(w *observed) { w.Gate = health.Gate{Required: 2} }
	require.Equal(t, []string{"NoNodes: the selector selects no node"}, s.sync())
	require.Equal(t, "NoNodes", remediationAllowedReason(s.nhc))
}

// A node that is not selected is none of our business, apart from its CR.
func TestUnselectedNodeIsNotDetected(t *testing.T) {
	t.Parallel()
	s := begun(t)
	require.Equal(t, []string{saidCreated}, s.sync(sick("n", unselected, own(testCR("n", "1")))), "17.5 7.1")
}

// The answer to a create was lost, or the status write after it.
func TestCreatedIsToldAfterAll(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	s.result(sick("n", created(cr))) // Its status was never written.
	require.Equal(t, []string{saidDetected, saidCreated}, s.sync(sick("n", own(cr))), "19.1: after the write they report")
	s.restart()
	s.quiet(t, sick("n", own(cr)))
	require.Equal(t, []string{saidCreated}, s.sync(sick("n", created(testCR("n", "2")))), "11.6: a new CR in the same episode")
}

// The status was not written between the creation of a CR and its end.
func TestCreatedAndRemovedBetweenReports(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		seen *object.CR
		part func(*part)
	}{
		"removed by its remediator": {seen: testCR("n", "1"), part: gone(testCR("n", "1"))},
		"we have deleted it":        {seen: testCR("n", "1", crDeleting), part: gone(testCR("n", "1", crDeleting))},
		"it waits for a finalizer":  {seen: testCR("n", "1", crDeleting), part: own(testCR("n", "1", crDeleting))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t)
			s.result(sick("n", created(testCR("n", "1")))) // Its status was never written.
			if end.seen.Deleting() {
				s.state.deletionRequested[end.seen.UID] = true
			}
			require.Equal(t, []string{saidDetected, saidCreated}, s.sync(sick("n", end.part)), "19.1: once for each CR")
			s.quiet(t, sick("n"))
		})
	}
}

// A CR that is gone may come once more, in the state in which it went.
func TestCreatedIsNotToldOfALaterState(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	require.Equal(t, []string{saidDetected, saidCreated}, s.sync(sick("n", created(cr))))
	for range 3 {
		require.NotContains(t, s.sync(sick("n", gone(testCR("n", "1")))), saidCreated, "19.1: once for each CR")
	}
}

// What is gone before the first sync was created, and reported, by the leader before (spec 19.1).
func TestCreatedAndRemovedUnderAnotherLeader(t *testing.T) {
	t.Parallel()
	s := begun(t)
	s.sync(sick("m", own(testCR("m", "1"))))
	s.restart()
	left := sick("m", own(testCR("m", "2")), gone(testCR("m", "1")))
	require.NotContains(t, s.sync(left, well("n", gone(testCR("n", "3")))), saidCreated)
	require.Contains(t, s.sync(left, sick("n", gone(testCR("n", "4")))), saidCreated, "this one came later")
}

// A Node that goes and comes back does not begin the remediation anew.
func TestCreatedIsToldOnce(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	require.Equal(t, []string{saidDetected, saidCreated}, s.sync(sick("n", created(cr))))
	require.Equal(t, []string{saidRemoved}, s.sync(sick("n", nodeDeleted, own(cr), deleted(cr))))
	s.quiet(t, sick("n", nodeDeleted, own(testCR("n", "1", crDeleting))))
	require.NotContains(t, s.sync(sick("n", own(testCR("n", "1", crDeleting)))), saidCreated)
	require.NotContains(t, s.sync(sick("n", gone(testCR("n", "1", crDeleting)))), saidCreated)
}

func TestRemovedOfDeletedNode(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	s.sync(sick("n", created(cr)))
	r := s.result(sick("n", nodeDeleted, own(cr), deleted(cr)))
	removals, _ := r.Actions()
	require.Len(t, removals, 1)
	require.True(t, removals[0].Node.Constraints.NodeDeleted, "19.1: a deleted Node gets none, the NodeHealthCheck does")
	require.Equal(t, []string{saidRemoved}, s.sync(sick("n", nodeDeleted, own(cr), deleted(cr))), "17.2")
	s.quiet(t, sick("n", nodeDeleted, own(testCR("n", "1", crDeleting))))
	s.quiet(t)
}

func TestDisabledEvents(t *testing.T) {
	t.Parallel()
	problem := func(reason, message string) func(*observed) {
		return func(w *observed) { w.templates.Problem = &remediation.Problem{Reason: reason, Message: message} }
	}
	s := newStory(t)
	s.observe = problem("A", "one")
	require.Equal(t, []string{"Disabled: Disabling NHC. Reason: A, Message: one"}, s.sync(), "6.3: at first")
	s.quiet(t)
	s.observe = problem("A", "two")
	s.quiet(t)
	s.observe = problem("B", "three")
	require.Equal(t, []string{"Disabled: Disabling NHC. Reason: B, Message: three"}, s.sync(), "6.3: on a change of reason")
	s.observe = func(w *observed) { w.templates.Unknown = true }
	s.quiet(t)
	s.restart()
	s.quiet(t)
	s.observe = func(*observed) {}
	require.Equal(t, []string{saidEnabled}, s.sync(), "6.3: when the condition was True")
	s.quiet(t)
	s.observe = problem("A", "one")
	require.Len(t, s.sync(), 1, "6.3: on a flip")
	s.quiet(t)
}

func TestGateEvents(t *testing.T) {
	t.Parallel()
	closed := func(w *observed) { w.Gate = health.Gate{Observed: 2, Healthy: 1, Required: 2} }
	s := begun(t)
	s.observe = closed
	s.quiet(t, well("n"))
	require.Equal(t, []string{saidDetected, saidGate}, s.sync(sick("n", refused(v1alpha1.DecidedGateClosed))), "8.6: begins to keep a node waiting")
	s.quiet(t, sick("n", refused(v1alpha1.DecidedGateClosed)))
	two := s.sync(sick("m", refused(v1alpha1.DecidedGateClosed)), sick("n", refused(v1alpha1.DecidedGateClosed)))
	require.Len(t, two, 1, "8.6: another node that waits is no transition of the gate: %v", two)
	s.quiet(t, sick("m", refused(v1alpha1.DecidedGateClosed)), sick("n", refused(v1alpha1.DecidedGateClosed)))

	s.observe = func(w *observed) { w.Gate.Open = true }
	s.quiet(t, sick("m", own(), refused(v1alpha1.DecidedForeignRemediation)))
	s.observe = closed
	require.Contains(t, s.sync(sick("m", refused(v1alpha1.DecidedGateClosed))), saidGate, "8.6: it begins again")
	cr := testCR("m", "1")
	s.sync(sick("m", own(cr)))
	s.quiet(t, sick("m", own(cr), refused(v1alpha1.DecidedGateClosed)))
}

func TestPauseEvents(t *testing.T) {
	t.Parallel()
	s := begun(t)
	s.nhc.Spec.PauseRequests = []string{"x"}
	require.Equal(t, []string{saidPause}, s.sync(well("n")), "10.4: the pause begins")
	s.quiet(t, well("n"))
	s.nhc.Spec.PauseRequests = []string{"x", "y"}
	s.quiet(t, well("n"))
	s.restart()
	s.quiet(t, well("n"))
	s.nhc.Spec.PauseRequests = nil
	s.quiet(t, well("n"))
	s.nhc.Spec.PauseRequests = []string{"x"}
	require.Equal(t, []string{saidPause}, s.sync(well("n")), "10.4: it begins again")
	s.observe = func(w *observed) { w.templates.Problem = &remediation.Problem{Reason: "A"} }
	require.Len(t, s.sync(well("n")), 1, "10.5: Disabled wins over Paused")
	s.quiet(t, well("n"))
}

func TestUpgradeEvents(t *testing.T) {
	t.Parallel()
	upgrading := func(w *observed) { w.Gate.Open, w.platform.progressing = true, true }
	s := begun(t)
	s.observe = upgrading
	require.Equal(t, []string{saidUpgrade}, s.sync(well("n")), "10.4: the upgrade begins")
	s.quiet(t, well("n"))
	s.nhc.Spec.PauseRequests = []string{"x"}
	s.quiet(t, well("n"))
	require.Equal(t, v1alpha1.PhasePaused, s.nhc.Status.Phase)
	s.observe = func(w *observed) { w.Gate.Open = true }
	s.nhc.Spec.PauseRequests = nil
	s.quiet(t, well("n"))
	s.observe = upgrading
	s.nhc.Spec.PauseRequests = []string{"x"}
	require.Equal(t, []string{saidUpgrade}, s.sync(well("n")), "10.4: if both apply, the upgrade is reported")
	s.quiet(t, well("n"))
}

func TestRefusalEventsOfOneNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		why  v1alpha1.DecisionReason
		said string
	}{
		"15.1 exclusion": {v1alpha1.DecidedExcluded, saidExcluded},
		"14.3 lease":     {v1alpha1.DecidedLeaseTaken, saidLease},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t)
			require.Equal(t, []string{saidDetected, tc.said}, s.sync(sick("n", refused(tc.why))), "19.1: begins to refuse this node")
			s.quiet(t, sick("n", refused(tc.why)))
			s.quiet(t, sick("n", refused(v1alpha1.DecidedPaused)))
			require.Equal(t, []string{tc.said}, s.sync(sick("n", refused(tc.why))), "19.1: begins again")
			cr := testCR("n", "1")
			s.sync(sick("n", own(cr)))
			require.Equal(t, []string{tc.said}, s.sync(sick("n", own(cr), refused(tc.why))), "5.4: a next step is refused as well")
			s.quiet(t, sick("n", own(cr), refused(tc.why)))
		})
	}
}

func TestInvalidLabelEvents(t *testing.T) {
	t.Parallel()
	empty := node(labelled(v1alpha1.LabelExclude, ""))
	s, cr := begun(t), testCR("n", "1")
	s.quiet(t, well("n", empty))
	s.quiet(t, soon("n", empty))
	require.Equal(t, []string{saidDetected, saidCreated, saidLabel}, s.sync(sick("n", empty, created(cr))), "15.2: an unhealthy node with the empty value")
	s.quiet(t, sick("n", empty, own(cr)))
	s.quiet(t, sick("n", node(labelled(v1alpha1.LabelExclude, "false")), own(cr)))
	require.Equal(t, []string{saidLabel}, s.sync(sick("n", empty, own(cr))), "15.2: empty again")
}

func TestStoredSpecEvents(t *testing.T) {
	t.Parallel()
	broken := func(problem string) func(*observed) {
		return func(w *observed) { w.Gate.Open, w.specProblem = true, problem }
	}
	s := begun(t)
	s.observe = broken("Selector is mandatory")
	s.quiet(t, well("n"))
	require.Equal(t, []string{saidDetected, "RemediationSkipped: Selector is mandatory"}, s.sync(sick("n", refused(v1alpha1.DecidedInvalidSpec))), "4.7: begins to keep a node waiting")
	s.quiet(t, sick("n", refused(v1alpha1.DecidedInvalidSpec)))
	s.observe = broken("another rule")
	require.Equal(t, []string{"RemediationSkipped: another rule"}, s.sync(sick("n", refused(v1alpha1.DecidedInvalidSpec))))
	s.quiet(t, sick("n", refused(v1alpha1.DecidedInvalidSpec)))
}
