// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// advance returns the episode after a round, finished if it ended there. Nothing
// that the given one points to is changed.
func advance(episode v1alpha1.Episode, o *Observation, now time.Time) v1alpha1.Episode {
	steps, left := advanceSteps(episode.Steps, o, now)
	episode.Steps = steps
	detect(&episode, o, now)
	if episode.Started == nil && len(steps) > 0 {
		episode.Started = new(seconds(later(steps[0].Started.Time, episode.Detected.Time)))
	}
	fence(&episode, o, now)
	if outcome := outcomeOf(&episode, o, left); outcome != "" {
		finish(&episode, outcome, now)
	}
	return episode
}

// detect dates the beginning, of a new episode or of one that was recalled without.
// A CR that is there already proves that the node was unhealthy at its creation.
func detect(episode *v1alpha1.Episode, o *Observation, now time.Time) {
	if !episode.Detected.IsZero() {
		return
	}
	detected := now
	if !o.NodeDeleted && o.State == health.Unhealthy {
		episode.Trigger = triggerOf(o.Trigger)
		if !o.Deadline.IsZero() {
			detected = earlier(o.Deadline, now)
		}
	}
	// Not before the Node existed, whatever its conditions claim, even where the clock
	// of the API server is ahead: it would be taken for a namesake of itself.
	detected = later(detected, o.Created)
	if len(episode.Steps) > 0 {
		detected = earlier(detected, episode.Steps[0].Started.Time)
	}
	episode.Detected = seconds(detected)
}

// fence takes over a sign that the node is safely down, if it is an earlier one.
func fence(episode *v1alpha1.Episode, o *Observation, now time.Time) {
	sign := o.Fenced
	if o.NodeDeleted {
		sign = health.Earliest(sign, now)
	}
	if sign.IsZero() || episode.Started == nil {
		return
	}
	at := seconds(later(earlier(sign, now), episode.Started.Time))
	if episode.Fenced == nil || at.Before(episode.Fenced) {
		episode.Fenced = &at
	}
}

// outcomeOf returns how the episode ended with this round, or nothing if it goes on.
func outcomeOf(episode *v1alpha1.Episode, o *Observation, left int) v1alpha1.EpisodeOutcome {
	switch {
	case left > 0:
		return ""
	case o.NodeDeleted:
		return v1alpha1.OutcomeNodeDeleted
	case o.State == health.Healthy && episode.Started != nil:
		return v1alpha1.OutcomeRecovered
	case o.State == health.Healthy:
		return v1alpha1.OutcomeRecoveredWithoutRemediation
	case !o.Selected:
		return v1alpha1.OutcomeCancelled
	default:
		return ""
	}
}

func finish(episode *v1alpha1.Episode, outcome v1alpha1.EpisodeOutcome, now time.Time) {
	at := later(now, episode.Detected.Time)
	for _, before := range []*metav1.Time{episode.Started, episode.Fenced} {
		if before != nil {
			at = later(at, before.Time)
		}
	}
	episode.Finished, episode.Outcome = new(seconds(at)), outcome
}

func finished(episode *v1alpha1.Episode) bool { return !episode.Finished.IsZero() }

// replaced tells whether the Node is a namesake of the one that the episode is of,
// and nothing is left of that one.
func replaced(episode *v1alpha1.Episode, o *Observation) bool {
	if episode.Detected.IsZero() || !o.created().After(episode.Detected.Time) {
		return false
	}
	for i := range o.Remediations {
		if find(episode.Steps, nil, &o.Remediations[i]) >= 0 {
			return false
		}
	}
	return true
}

// maxText is the length to which what others have written is cut, in bytes, so that
// no episode can crowd out all others. The names of the API are no longer than that.
const maxText = 316

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
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
