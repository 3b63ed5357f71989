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

// TestRemediationFailedOncePerCR: a failure that nothing follows is told once, whatever the process remembers (spec 13.7, 19.3).
func TestRemediationFailedOncePerCR(t *testing.T) {
	t.Parallel()
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

	later := gaveUp("1", "still none")
	s.quiet(t, sick("n", own(later), stepFailed(later)))
	require.Contains(t, s.nhc.Status.UnhealthyNodes[0].Decision.Message, "still none", "P4")
	s.restart()
	s.quiet(t, sick("n", own(cr), stepFailed(cr)))
	s.quiet(t, sick("n", own(testCR("n", "1"))))
	s.quiet(t, sick("n", own(cr), stepFailed(cr)))
	require.Equal(t, map[string]float64{"/workers/StepFailed": 1}, positive(s.values(t, "nhc_nodes_waiting")))

	another := gaveUp("2", "no agent answers")
	require.Contains(t, s.sync(sick("n", own(another), stepFailed(another))), "RemediationFailed: "+another.Failure(), "once per CR")
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
	s.quiet(t, sick("n", own(cr), exhausted, ends, func(p *part) { p.outcome.Result, p.outcome.Reason = remediation.Recovered, v1alpha1.DecidedRecovering }))
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
		if age < 48*time.Hour {
			require.True(t, recheck.After(s.now), "P2 17.6: at an age of %s", age)
			require.WithinDuration(t, epoch.Add(48*time.Hour), recheck, time.Minute, "17.6: at most 1 min late")
		} else {
			require.Zero(t, recheck)
		}
	}
}

// TestEventsAreNotRepeatedWithoutStatus: a user wipes the entries, or there is no room for
// them. What was reported is remembered.
func TestEventsAreNotRepeatedWithoutStatus(t *testing.T) {
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
	require.Empty(t, wiped(sick("n", own(cr))), "19.1: a CR is reported once")
	require.Equal(t, []string{saidGivenUp}, wiped(sick("n", own(cr), exhausted, ended(s.now, cr))))
	require.Empty(t, wiped(sick("n", own(cr), exhausted, ended(s.now, cr))), "13.6: once per episode")
	require.Empty(t, wiped(well("n", own(cr), delayed)))
	require.Empty(t, wiped(sick("n", own(cr), exhausted, ended(s.now, cr))), "13.6: an episode lasts as long as there is a CR")
	require.Empty(t, wiped(well("n")))
	require.Equal(t, []string{saidDetected}, wiped(waiting), "a new episode")
}

// TestNoTemplateLeftIsOfTheLastStep: a step ends, or a CR of a step that is over.
func TestNoTemplateLeftIsOfTheLastStep(t *testing.T) {
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

// TestCreatedIsNotReportedOfWhatGoes: the process has not seen who created it, and when.
func TestCreatedIsNotReportedOfWhatGoes(t *testing.T) {
	t.Parallel()
	s := begun(t)
	require.Equal(t, []string{saidDetected}, s.sync(sick("n", own(testCR("n", "1", crDeleting)))))
	require.Contains(t, s.sync(sick("m"), sick("n", created(testCR("n", "2")))), saidCreated, "19.1: each node for itself")
}

// TestAllAtOnce: whatever begins in one sync is reported, each once.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t, stormy(nil, &metav1.Duration{Duration: time.Minute}))
	s.nhc.Spec.PauseRequests = []string{"x"}
	s.now = epoch.Add(49 * time.Hour)
	s.observe = func(w *observed) {
		w.specProblem, w.Gate = "Selector is mandatory", health.Gate{Healthy: 1, Required: 2}
		w.Storm = health.Storm{Active: true, Since: s.now, CalmSince: s.now}
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
