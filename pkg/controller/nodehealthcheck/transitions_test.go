// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	s.quiet(t, sick("n", unselected, refused(v1alpha1.DecidedUnselected)))
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

func TestRemovedOfDeletedNode(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	s.sync(sick("n", created(cr)))
	r := s.result(sick("n", nodeDeleted, own(cr), deleted(cr)))
	removals := r.Removals()
	require.Len(t, removals, 1)
	require.True(t, removals[0].Node.Constraints.NodeDeleted, "19.1: a deleted Node gets none, the NodeHealthCheck does")
	require.Equal(t, []string{saidRemoved}, s.sync(sick("n", nodeDeleted, own(cr), deleted(cr))), "17.2")
	s.quiet(t, sick("n", nodeDeleted, own(testCR("n", "1", crDeleting))))
	s.quiet(t)
}

func TestDisabledEvents(t *testing.T) {
	t.Parallel()
	problem := func(reason, message string) func(*observed) {
		return func(w *observed) { w.templates.problem = &remediation.Problem{Reason: reason, Message: message} }
	}
	s := newStory(t)
	s.observe = problem("A", "one")
	require.Equal(t, []string{"Disabled: Disabling NHC. Reason: A, Message: one"}, s.sync(), "6.3: at first")
	s.quiet(t)
	s.observe = problem("A", "two")
	s.quiet(t)
	s.observe = problem("B", "three")
	require.Equal(t, []string{"Disabled: Disabling NHC. Reason: B, Message: three"}, s.sync(), "6.3: on a change of reason")
	s.observe = func(w *observed) { w.templates.unknown = true }
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
	closed := func(w *observed) { w.gate = health.Gate{Healthy: 1, Required: 2} }
	s := begun(t)
	s.observe = closed
	s.quiet(t, well("n"))
	require.Equal(t, []string{saidDetected, saidGate}, s.sync(sick("n", refused(v1alpha1.DecidedGateClosed))), "8.6: begins to keep a node waiting")
	s.quiet(t, sick("n", refused(v1alpha1.DecidedGateClosed)))
	two := s.sync(sick("m", refused(v1alpha1.DecidedGateClosed)), sick("n", refused(v1alpha1.DecidedGateClosed)))
	require.Len(t, two, 1, "8.6: another node that waits is no transition of the gate: %v", two)
	s.quiet(t, sick("m", refused(v1alpha1.DecidedGateClosed)), sick("n", refused(v1alpha1.DecidedGateClosed)))

	s.observe = func(w *observed) { w.gate.Open = true }
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
	s.observe = func(w *observed) { w.templates.problem = &remediation.Problem{Reason: "A"} }
	require.Len(t, s.sync(well("n")), 1, "10.5: Disabled wins over Paused")
	s.quiet(t, well("n"))
}

func TestUpgradeEvents(t *testing.T) {
	t.Parallel()
	upgrading := func(w *observed) { w.gate.Open, w.platform.progressing = true, true }
	s := begun(t)
	s.observe = upgrading
	require.Equal(t, []string{saidUpgrade}, s.sync(well("n")), "10.4: the upgrade begins")
	s.quiet(t, well("n"))
	s.nhc.Spec.PauseRequests = []string{"x"}
	s.quiet(t, well("n"))
	require.Equal(t, v1alpha1.PhasePaused, s.nhc.Status.Phase)
	s.observe = func(w *observed) { w.gate.Open = true }
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
	require.Equal(t, []string{saidDetected, saidLabel, saidCreated}, s.sync(sick("n", empty, created(cr))), "15.2: an unhealthy node with the empty value")
	s.quiet(t, sick("n", empty, own(cr)))
	s.quiet(t, sick("n", node(labelled(v1alpha1.LabelExclude, "false")), own(cr)))
	require.Equal(t, []string{saidLabel}, s.sync(sick("n", empty, own(cr))), "15.2: empty again")
}

func TestStoredSpecEvents(t *testing.T) {
	t.Parallel()
	broken := func(problem string) func(*observed) {
		return func(w *observed) { w.gate.Open, w.specProblem = true, problem }
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

// TestRemediationFailedOncePerCR: a failure that nothing follows is told and counted
// once, whatever the process remembers (spec 13.7, 19.3).
func TestRemediationFailedOncePerCR(t *testing.T) {
	t.Parallel()
	const failures = "nhc_remediations_failed_total"
	gaveUp := func(uid, message string) *object.CR {
		return testCR("n", uid, func(cr *object.CR) {
			cr.Succeeded, cr.FailureReason, cr.FailureMessage = "False", "NoAgent", message
		})
	}
	s, cr := begun(t), gaveUp("1", "no agent answers")
	s.sync(sick("n", created(testCR("n", "1"))))
	require.Equal(t, []string{"RemediationFailed: RebootRemediation n reports failure: NoAgent: no agent answers, and no step follows"}, s.sync(sick("n", own(cr), stepFailed(cr))))
	decision := s.nhc.Status.UnhealthyNodes[0].Decision
	require.Equal(t, v1alpha1.DecisionExhausted, decision.Type)
	require.Equal(t, v1alpha1.DecidedStepFailed, decision.Reason)
	require.Equal(t, "RebootRemediation n reports failure: NoAgent: no agent answers, and no step follows", decision.Message)
	require.Equal(t, map[string]float64{"/workers/RebootRemediation": 1}, s.values(t, failures))

	later := gaveUp("1", "still none")
	s.quiet(t, sick("n", own(later), stepFailed(later)))
	require.Contains(t, s.nhc.Status.UnhealthyNodes[0].Decision.Message, "still none", "P4")
	s.restart()
	s.quiet(t, sick("n", own(cr), stepFailed(cr)))
	s.quiet(t, sick("n", own(testCR("n", "1"))))
	s.quiet(t, sick("n", own(cr), stepFailed(cr)))
	require.Equal(t, map[string]float64{"/workers/RebootRemediation": 1}, s.values(t, failures))
	require.Equal(t, map[string]float64{"/workers/StepFailed": 1}, positive(s.values(t, "nhc_nodes_waiting")))

	another := gaveUp("2", "no agent answers")
	require.Contains(t, s.sync(sick("n", own(another), stepFailed(another))), "RemediationFailed: "+another.Failure(), "once per CR")
	require.Equal(t, map[string]float64{"/workers/RebootRemediation": 2}, s.values(t, failures))
}

func positive(values map[string]float64) map[string]float64 {
	maps.DeleteFunc(values, func(_ string, value float64) bool { return value == 0 })
	return values
}

func TestNoTemplateLeftOncePerEpisode(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	s.sync(sick("n", created(cr)))
	require.Equal(t, []string{saidGivenUp}, s.sync(sick("n", own(cr), exhausted, ended(s.now, cr))), "13.6: the last step is over")
	marked := testCR("n", "1", crMarked)
	s.quiet(t, sick("n", own(marked), exhausted))
	s.quiet(t, soon("n", own(marked)))
	s.quiet(t, sick("n", own(marked), exhausted))
	s.restart()
	s.quiet(t, sick("n", own(marked), exhausted))
	s.sync(well("n", own(marked), deleted(marked)))
	s.quiet(t, well("n"))

	again := testCR("n", "2")
	s.sync(sick("n", created(again)))
	require.Equal(t, []string{saidGivenUp}, s.sync(sick("n", own(again), exhausted, ended(s.now, again))), "13.6: once per episode")
}

// A status write that was lost: what the CR says is told once, too.
func TestNoTemplateLeftAfterLostStatus(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	s.sync(sick("n", created(cr)))
	s.result(sick("n", own(cr), exhausted, ended(s.now, cr))) // Its status was never written.
	s.restart()
	marked := testCR("n", "1", crMarked)
	require.Equal(t, []string{saidGivenUp}, s.sync(sick("n", own(marked), exhausted)), "P8")
	s.quiet(t, sick("n", own(marked), exhausted))
}

// TestNoTemplateLeftAfterFailedEnd: the attempt to end the last step may fail, and that is
// not its end.
func TestNoTemplateLeftAfterFailedEnd(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1")
	ends := func(p *part) {
		p.plan.Actions = []remediation.Action{remediation.Confirm{}, remediation.MarkTimedOut{CR: cr, At: s.now, EndsStep: true}}
	}
	s.sync(sick("n", created(cr)))
	s.quiet(t, sick("n", own(cr), exhausted, ends, func(p *part) { p.outcome.Err = errors.New("out of order") }))
	s.quiet(t, sick("n", own(cr), exhausted, ends, func(p *part) { p.outcome.Result = remediation.Recovered }))
	require.Equal(t, []string{saidGivenUp}, s.sync(sick("n", own(cr), exhausted, ends, ended(s.now, cr))), "13.6")
}

func TestOldRemediationEvents(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1", crAt(epoch))
	s.sync(sick("n", created(cr)))
	s.now = epoch.Add(48*time.Hour - time.Second)
	require.Empty(t, s.sync(sick("n", own(cr))))
	s.now = epoch.Add(48*time.Hour + time.Second)
	require.Equal(t, []string{saidOld}, s.sync(sick("n", own(cr))), "17.6: passes 48 h")
	s.quiet(t, sick("n", own(cr)))
	s.quiet(t, well("n", own(cr), delayed))
	s.restart()
	require.Equal(t, []string{saidOld}, s.sync(sick("n", own(cr))), "19.3: after a restart it may come once more")
	s.quiet(t, sick("n", own(cr)))
}

// TestOldRemediationIsNotMissed: at whatever instant it is looked at, a CR is either
// old, or there will be another look.
func TestOldRemediationIsNotMissed(t *testing.T) {
	t.Parallel()
	s, cr := begun(t), testCR("n", "1", crAt(epoch))
	for _, age := range []time.Duration{0, 48*time.Hour - 1, 48 * time.Hour, 48*time.Hour + 1, 100 * time.Hour} {
		s.now = epoch.Add(age)
		r := s.result(sick("n", own(cr)))
		recheck := r.recheck()
		if len(r.OldCRs()) == 0 {
			require.True(t, recheck.After(s.now), "P2 17.6: at an age of %s", age)
			require.WithinDuration(t, epoch.Add(48*time.Hour), recheck, time.Minute, "17.6: at most 1 min late")
		} else {
			require.GreaterOrEqual(t, age, 48*time.Hour)
			require.Zero(t, recheck)
		}
	}
}

// TestNothingIsToldAgainWithoutStatus: somebody wipes the entries, or there is no
// room for them. What was said is remembered.
func TestNothingIsToldAgainWithoutStatus(t *testing.T) {
	t.Parallel()
	s := begun(t)
	wiped := func(p part) []string {
		s.nhc.Status.UnhealthyNodes = nil
		return s.sync(p)
	}
	waiting := sick("n", refused(v1alpha1.DecidedDisabled))
	require.Equal(t, []string{saidDetected}, s.sync(waiting))
	require.Empty(t, wiped(waiting), "19.1: once per episode")
	require.Empty(t, wiped(soon("n")))
	require.Empty(t, wiped(waiting), "it was only soon-unhealthy for a while")
	cr := testCR("n", "1")
	require.Equal(t, []string{saidCreated}, wiped(sick("n", created(cr))))
	require.Empty(t, wiped(sick("n", own(cr))), "19.1: a CR is told of once")
	require.Equal(t, []string{saidGivenUp}, wiped(sick("n", own(cr), exhausted, ended(s.now, cr))))
	require.Empty(t, wiped(sick("n", own(cr), exhausted, ended(s.now, cr))), "13.6: once per episode")
	require.Empty(t, wiped(well("n", own(cr), delayed)))
	require.Empty(t, wiped(sick("n", own(cr), exhausted, ended(s.now, cr))), "13.6: an episode lasts as long as there is a CR")
	require.Empty(t, wiped(well("n")))
	require.Equal(t, []string{saidDetected}, wiped(waiting), "a new episode")
}

// TestNoTemplateLeftIsNotToldOfSteps: what ends is a step, or a CR of one that is over.
func TestNoTemplateLeftIsNotToldOfSteps(t *testing.T) {
	t.Parallel()
	s := begun(t)
	first, second := testCR("n", "1"), testCR("n", "2")
	s.sync(sick("n", created(first)))
	require.Equal(t, []string{saidCreated}, s.sync(sick("n", own(first), ended(s.now, first), created(second))), "13.6: only of the last")
	require.Equal(t, []string{saidGivenUp}, s.sync(sick("n", own(first, second), exhausted, ended(s.now, second))))
	third := testCR("n", "3")
	require.Equal(t, []string{saidCreated}, s.sync(sick("n", own(first), created(third))), "11.6: the CR of the last step has vanished")
	s.quiet(t, sick("n", own(first, third), exhausted, ended(s.now, third)))
	s.restart()
	s.quiet(t, sick("n", own(first, third, testCR("n", "4", crDeleting)), exhausted))
}

// TestCreatedIsNotToldOfWhatGoes: nobody knows who has created it, and when.
func TestCreatedIsNotToldOfWhatGoes(t *testing.T) {
	t.Parallel()
	s := begun(t)
	require.Equal(t, []string{saidDetected}, s.sync(sick("n", own(testCR("n", "1", crDeleting)))))
	require.Contains(t, s.sync(sick("m"), sick("n", created(testCR("n", "2")))), saidCreated, "19.1: each node for itself")
}

// TestAllAtOnce: whatever begins in one sync is told of, each once.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t, stormy(nil, &metav1.Duration{Duration: time.Minute}))
	s.nhc.Spec.PauseRequests = []string{"x"}
	s.now = epoch.Add(49 * time.Hour)
	s.observe = func(w *observed) {
		w.specProblem, w.gate = "Selector is mandatory", health.Gate{Healthy: 1, Required: 2}
		w.storm = health.Storm{Active: true, Since: s.now, CalmSince: s.now}
	}
	a, b := testCR("n", "1"), testCR("n", "2")
	require.Equal(t, []string{
		saidRemoved, saidRemoved, saidEnabled, saidPause,
		"DetectedUnhealthy: Node matches unhealthy condition. Node \"l\", condition type \"Ready\", condition status \"Unknown\"",
		"DetectedUnhealthy: Node matches unhealthy condition. Node \"m\", condition type \"Ready\", condition status \"Unknown\"",
		saidDetected, saidExcluded, saidGivenUp, saidLabel, saidCreated, saidCreated,
		"DetectedUnhealthy: Node matches unhealthy condition. Node \"o\", condition type \"Ready\", condition status \"Unknown\"",
		saidOld, saidOld, "RemediationSkipped: Selector is mandatory", saidGate,
		"StormRecoveryStarted: Storm recovery mode activated - delaying remediation until threshold is reached",
		"StormRecoveryCooldownStarted: Storm recovery mode will exit after cooldown delay",
		"RemediationSkipped: Storm recovery active: skipping creation of new remediations",
	}, s.sync(
		sick("l", refused(v1alpha1.DecidedInvalidSpec)), sick("m", refused(v1alpha1.DecidedGateClosed)), sick("o", refused(v1alpha1.DecidedStormActive)),
		sick("n", node(labelled(v1alpha1.LabelExclude, "")), own(a, b), refused(v1alpha1.DecidedExcluded), ended(s.now, a), exhausted, deleted(a, b)),
	), "19.1")
}
