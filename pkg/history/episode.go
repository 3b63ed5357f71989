// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// returnTime is how long an episode waits for a Node that was deleted under
// remediation to be registered anew (spec 23b.2).
const returnTime = time.Hour

// openEpisode is an episode that has not ended, with facts that the API does not show.
type openEpisode struct {
	v1alpha1.Episode
	// remediated reports that a CR was left after the last sync.
	remediated bool
	// deleted is when the Node of the last CR was deleted, zero if it was not.
	deleted time.Time
	// returned reports that a Node of that name has been seen since.
	returned bool
}

// equal reports whether two episodes are the same.
func (e *openEpisode) equal(other *openEpisode) bool {
	return e.remediated == other.remediated && e.deleted.Equal(other.deleted) && e.returned == other.returned &&
		e.Node == other.Node && sameTrigger(e.Trigger, other.Trigger) && e.Detected.Equal(&other.Detected) &&
		e.Started.Equal(other.Started) && e.Fenced.Equal(other.Fenced) && e.Finished.Equal(other.Finished) &&
		e.Released.Equal(other.Released) && e.Outcome == other.Outcome && slices.EqualFunc(e.Steps, other.Steps, sameStep)
}

func sameTrigger(a, b *v1alpha1.Trigger) bool {
	return a == b || (a != nil && b != nil && *a == *b)
}

func sameStep(a, b v1alpha1.EpisodeStep) bool {
	return a.Kind == b.Kind && a.TemplateName == b.TemplateName && a.Started.Equal(&b.Started) && a.Ended.Equal(b.Ended) && a.Result == b.Result
}

// advance returns the episode after a sync, with an outcome if it ended there. It does
// not change the given one.
func advance(e openEpisode, o *Observation, now time.Time) openEpisode {
	gone := e.deletion(o, now)
	remediated := len(e.Steps) > 0
	p := advanceSteps(e.Steps, o, now)
	e.Steps = p.steps
	detect(&e.Episode, o, now)
	switch {
	case len(e.Steps) > 0 && (e.Started == nil || !remediated): // The start of a dry run does not count any more.
		e.Started = new(seconds(later(e.Steps[0].Started.Time, e.Detected.Time)))
	case e.Started == nil && o.WouldBegin:
		e.Started = new(seconds(later(now, e.Detected.Time)))
	}
	e.followNode(o, gone, p.left > 0, now)
	e.fence(health.Earliest(p.fenced, gone), now)
	e.followHealth(o, now)
	e.remediated = p.left > 0
	if outcome := e.outcomeOf(o, &p, now); outcome != "" {
		e.end(outcome, now)
	}
	return e
}

// detect dates the beginning of a new episode, or of a recalled episode without a
// beginning. An existing CR proves that the node was unhealthy at its creation.
func detect(episode *v1alpha1.Episode, o *Observation, now time.Time) {
	if !episode.Detected.IsZero() {
		return
	}
	detected := now
	if !o.NodeDeleted && o.State == health.Unhealthy {
		if o.Trigger != (v1alpha1.Trigger{}) {
			episode.Trigger = triggerOf(&o.Trigger)
		}
		if storable(o.Since) {
			detected = earlier(o.Since, now)
		}
	}
	// Not before the Node existed, also if its conditions say so or the clock of the API
	// server is ahead. Otherwise it would count as another Node of its own name.
	detected = later(detected, o.Created)
	if len(episode.Steps) > 0 {
		detected = earlier(detected, episode.Steps[0].Started.Time)
	}
	episode.Detected = seconds(detected)
}

// deletion returns when the Node of the last CR was seen to be gone, zero if it exists.
// Another Node of its name also shows that it is gone.
func (e *openEpisode) deletion(o *Observation, now time.Time) time.Time {
	switch {
	case o.NodeDeleted:
		return now
	case len(e.Steps) > 0 && o.created().After(e.Steps[len(e.Steps)-1].Started.Time):
		return earlier(o.created(), now)
	default:
		return time.Time{}
	}
}

// followNode keeps when the Node was deleted. gone is when it was seen to be gone. left
// means that a CR is left.
func (e *openEpisode) followNode(o *Observation, gone time.Time, left bool, now time.Time) {
	e.deleted = earlier(e.deleted, now) // A status may say anything.
	awaited := !e.deleted.IsZero() && !e.returnTimeOver(now)
	if e.deleted.IsZero() || (o.NodeDeleted && e.returned) {
		e.deleted = time.Time{}
		if e.remediated || left || awaited || e.outlasted() {
			e.deleted = gone.Truncate(time.Second)
		}
	}
	if last := len(e.Steps) - 1; last >= 0 && e.Steps[last].Started.After(e.deleted) {
		e.deleted = time.Time{} // The next CR is for the Node that has returned.
	}
	e.returned = !e.deleted.IsZero() && !o.NodeDeleted
}

// awaited reports whether the Node was deleted under remediation, and the episode only
// waits for it to be registered anew.
func (e *openEpisode) awaited() bool { return !e.deleted.IsZero() && !e.remediated }

// returnTimeOver reports whether the Node was deleted under remediation too long ago.
func (e *openEpisode) returnTimeOver(now time.Time) bool {
	return !e.deleted.IsZero() && !now.Before(e.deleted.Add(returnTime))
}

// dry reports whether only a dry run started the episode. Then it has no steps.
func (e *openEpisode) dry() bool { return e.Started != nil && len(e.Steps) == 0 }

// fence records a sign that the node is down for certain, if it is the earliest one.
func (e *openEpisode) fence(sign, now time.Time) {
	if sign.IsZero() || e.Started == nil || e.dry() {
		return
	}
	at := seconds(later(earlier(sign, now), e.Started.Time))
	if e.Fenced == nil || at.Before(e.Fenced) {
		e.Fenced = &at
	}
}

// followHealth keeps since when the node has been healthy, as long as it is.
func (e *openEpisode) followHealth(o *Observation, now time.Time) {
	switch {
	case !o.healthy():
		e.Finished = nil
	case !o.HealthySince.IsZero():
		e.Finished = e.notBeforeStart(earlier(o.HealthySince, now))
	case e.Finished == nil:
		e.Finished = e.notBeforeStart(now)
	}
}

// outcomeOf returns how the episode ended with this sync. It is empty if the episode goes
// on. A Node that was registered anew may get the labels that select it later.
func (e *openEpisode) outcomeOf(o *Observation, p *progress, now time.Time) v1alpha1.EpisodeOutcome {
	awaited := e.awaited() && !e.returnTimeOver(now)
	switch {
	case p.left > 0:
		return ""
	case o.NodeDeleted && p.replaced:
		return v1alpha1.OutcomeReplaced
	case o.NodeDeleted && !awaited:
		return v1alpha1.OutcomeNodeDeleted
	case o.healthy() && e.dry():
		return v1alpha1.OutcomeDryRun
	case o.healthy() && e.Started != nil:
		return v1alpha1.OutcomeRecovered
	case o.healthy():
		return v1alpha1.OutcomeRecoveredWithoutRemediation
	case !o.NodeDeleted && !o.Selected && !awaited:
		return v1alpha1.OutcomeCancelled
	default:
		return ""
	}
}

// end ends the episode. If it has not finished before, it finishes now.
func (e *openEpisode) end(outcome v1alpha1.EpisodeOutcome, now time.Time) {
	released := now
	if outcome == v1alpha1.OutcomeNodeDeleted && !e.deleted.IsZero() {
		e.Finished = e.notBeforeStart(e.deleted)
		released = lastLoss(e.Steps)
	}
	if e.Finished == nil {
		e.Finished = e.notBeforeStart(now)
	}
	if e.Started != nil && !e.dry() {
		e.Released = new(seconds(later(released, e.Finished.Time)))
	}
	e.Outcome = outcome
}

// lastLoss returns when the last step ended if its Node was deleted, and zero otherwise.
func lastLoss(steps []v1alpha1.EpisodeStep) time.Time {
	if last := len(steps) - 1; last >= 0 && steps[last].Result == v1alpha1.StepNodeDeleted && steps[last].Ended != nil {
		return steps[last].Ended.Time
	}
	return time.Time{}
}

// notBeforeStart returns an instant that is not before the start of the episode.
func (e *openEpisode) notBeforeStart(at time.Time) *metav1.Time {
	at = later(at, e.Detected.Time)
	if e.Started != nil {
		at = later(at, e.Started.Time)
	}
	return new(seconds(at))
}

func hasEnded(episode *v1alpha1.Episode) bool {
	return episode.Outcome != "" && !episode.Finished.IsZero()
}

// replaced reports whether the Node is another one than that of the episode, without a CR
// or a recent deletion under remediation that connects the two.
func (e *openEpisode) replaced(o *Observation) bool {
	known := e.Detected.Time
	if last := len(e.Steps) - 1; last >= 0 {
		known = later(known, e.Steps[last].Started.Time)
	}
	if known.IsZero() || !o.created().After(known) {
		return false
	}
	for i := range o.CRs {
		if !o.CRs[i].Gone && find(e.Steps, nil, &o.CRs[i]) >= 0 {
			return false
		}
	}
	if e.deleted.IsZero() {
		return !e.remediated && !e.outlasted()
	}
	return e.returnTimeOver(o.created())
}

// outlasted reports whether the last step has timed out. Its CR stays, and status does not say whether it was there when
// the Node was deleted: it counts as if it was.
func (e *openEpisode) outlasted() bool {
	last := len(e.Steps) - 1
	return last >= 0 && e.Steps[last].Result == v1alpha1.StepTimedOut
}

// lose ends an episode whose Node is gone.
func (e *openEpisode) lose(now time.Time) {
	for i := range e.Steps {
		if e.Steps[i].Ended == nil {
			e.Steps = slices.Clone(e.Steps)
			end(&e.Steps[i], v1alpha1.StepNodeDeleted, now)
		}
	}
	e.Finished = nil
	e.end(v1alpha1.OutcomeNodeDeleted, now)
}

// maxText is the length in bytes to which texts of others are cut, so that no episode
// takes the room of all others. The names of the API are not longer.
const maxText = 316

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}

// storable reports whether the API can store an instant that others have written.
func storable(t time.Time) bool {
	year := t.UTC().Year()
	return !t.IsZero() && year >= 1 && year <= 9999
}

func triggerOf(trigger *v1alpha1.Trigger) *v1alpha1.Trigger {
	if trigger == nil {
		return nil
	}
	return &v1alpha1.Trigger{
		Type:   corev1.NodeConditionType(cut(string(trigger.Type))),
		Status: corev1.ConditionStatus(cut(string(trigger.Status))),
		Reason: cut(trigger.Reason),
	}
}

// seconds returns an instant as the API stores it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
