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

// same reports whether two episodes are the same.
func same(a, b *v1alpha1.Episode) bool {
	return a.Node == b.Node && sameTrigger(a.Trigger, b.Trigger) && a.Detected.Equal(&b.Detected) &&
		a.Started.Equal(b.Started) && a.Fenced.Equal(b.Fenced) && a.Finished.Equal(b.Finished) &&
		a.Released.Equal(b.Released) && a.Outcome == b.Outcome && slices.EqualFunc(a.Steps, b.Steps, sameStep)
}

func sameTrigger(a, b *v1alpha1.Trigger) bool {
	return a == b || (a != nil && b != nil && *a == *b)
}

func sameStep(a, b v1alpha1.EpisodeStep) bool {
	return a.Kind == b.Kind && a.TemplateName == b.TemplateName && a.Started.Equal(&b.Started) && a.Ended.Equal(b.Ended) && a.Result == b.Result
}

// episode is one that a sync changes.
type episode struct{ v1alpha1.Episode }

// advance returns the episode after a sync, with an outcome if it ended there. It does
// not change the given one.
func advance(before v1alpha1.Episode, o *Observation, now time.Time) v1alpha1.Episode {
	e := episode{before}
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
	e.fence(health.Earliest(p.fenced, gone), now)
	e.followHealth(o, now)
	if outcome := e.outcomeOf(o, &p); outcome != "" {
		e.end(outcome, now)
	}
	return e.Episode
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
func (e *episode) deletion(o *Observation, now time.Time) time.Time {
	switch {
	case o.NodeDeleted:
		return now
	case len(e.Steps) > 0 && o.created().After(e.Steps[len(e.Steps)-1].Started.Time):
		return earlier(o.created(), now)
	default:
		return time.Time{}
	}
}

// dry reports whether only a dry run started the episode. Then it has no steps.
func (e *episode) dry() bool { return e.Started != nil && len(e.Steps) == 0 }

// fence records a sign that the node is down for certain, if it is the earliest one.
func (e *episode) fence(sign, now time.Time) {
	if sign.IsZero() || e.Started == nil || e.dry() {
		return
	}
	at := seconds(later(earlier(sign, now), e.Started.Time))
	if e.Fenced == nil || at.Before(e.Fenced) {
		e.Fenced = &at
	}
}

// followHealth keeps since when the node has been healthy, as long as it is.
func (e *episode) followHealth(o *Observation, now time.Time) {
	switch {
	case !o.healthy():
		e.Finished = nil
	case !o.HealthySince.IsZero():
		e.Finished = e.notBeforeStart(earlier(o.HealthySince, now))
	case e.Finished == nil:
		e.Finished = e.notBeforeStart(now)
	}
}

// outcomeOf returns how the episode ended with this sync. It is empty if the episode goes on.
func (e *episode) outcomeOf(o *Observation, p *progress) v1alpha1.EpisodeOutcome {
	switch {
	case p.left > 0:
		return ""
	case o.NodeDeleted && p.replaced:
		return v1alpha1.OutcomeReplaced
	case o.NodeDeleted:
		return v1alpha1.OutcomeNodeDeleted
	case o.healthy() && e.dry():
		return v1alpha1.OutcomeDryRun
	case o.healthy() && e.Started != nil:
		return v1alpha1.OutcomeRecovered
	case o.healthy():
		return v1alpha1.OutcomeRecoveredWithoutRemediation
	case !o.Selected:
		return v1alpha1.OutcomeCancelled
	default:
		return ""
	}
}

// end ends the episode. If it has not finished before, it finishes now.
func (e *episode) end(outcome v1alpha1.EpisodeOutcome, now time.Time) {
	if e.Finished == nil {
		e.Finished = e.notBeforeStart(now)
	}
	if e.Started != nil && !e.dry() {
		e.Released = new(seconds(later(now, e.Finished.Time)))
	}
	e.Outcome = outcome
}

// notBeforeStart returns an instant that is not before the start of the episode.
func (e *episode) notBeforeStart(at time.Time) *metav1.Time {
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
// that connects the two.
func replaced(e *v1alpha1.Episode, o *Observation) bool {
	known := e.Detected.Time
	if last := len(e.Steps) - 1; last >= 0 {
		known = later(known, e.Steps[last].Started.Time)
	}
	if known.IsZero() || !o.created().After(known) {
		return false
	}
	return !slices.ContainsFunc(o.CRs, func(cr CR) bool { return !cr.Gone && find(e.Steps, nil, &cr) >= 0 })
}

// lose returns an episode that ends because its Node is gone.
func lose(before v1alpha1.Episode, now time.Time) v1alpha1.Episode {
	e := episode{before}
	e.Steps = slices.Clone(e.Steps)
	for i := range e.Steps {
		if e.Steps[i].Ended == nil {
			end(&e.Steps[i], v1alpha1.StepNodeDeleted, now)
		}
	}
	e.Finished = nil
	e.end(v1alpha1.OutcomeNodeDeleted, now)
	return e.Episode
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
