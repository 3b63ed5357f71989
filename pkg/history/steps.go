// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// maxSteps is the number of steps that the API accepts in an episode.
const maxSteps = 32

// advanceSteps returns the steps after a round, in the order of their start, and how
// many CRs are left, be their steps over or not.
func advanceSteps(steps []v1alpha1.EpisodeStep, o *Observation, now time.Time) (after []v1alpha1.EpisodeStep, left int) {
	steps = slices.Clone(steps)
	claimed := map[int]bool{}
	for i := range o.Remediations {
		cr := &o.Remediations[i]
		j := find(steps, claimed, cr)
		switch {
		case j >= 0:
		case o.belongs(cr):
			j = len(steps)
			steps = append(steps, stepOf(cr))
		default:
			continue
		}
		claimed[j] = true
		left++
		if cr.TimedOut != nil && steps[j].Ended == nil {
			result := v1alpha1.StepTimedOut
			if o.Failed.Has(cr.Resource.UID) {
				result = v1alpha1.StepFailed
			}
			end(&steps[j], result, cr.TimedOut.Time)
		}
	}
	for j := range steps {
		if !claimed[j] && steps[j].Ended == nil {
			end(&steps[j], departure(o), now)
		}
	}
	return arrange(steps), left
}

// find returns the index of the step of a CR, or -1. An episode does not keep uids;
// CRs of the same kind and template that are created in the same second are as good
// as each other. A step whose CR has gone is nobody's any more.
func find(steps []v1alpha1.EpisodeStep, claimed map[int]bool, cr *v1alpha1.Remediation) int {
	wanted := stepOf(cr)
	for j := range steps {
		step := &steps[j]
		if !claimed[j] && !departed(step) &&
			step.Kind == wanted.Kind && step.TemplateName == wanted.TemplateName && step.Started.Equal(&wanted.Started) {
			return j
		}
	}
	return -1
}

// departed tells whether the CR of a step has gone. Where a step ended by itself the
// CR may still be there.
func departed(step *v1alpha1.EpisodeStep) bool {
	return step.Ended != nil && step.Result != v1alpha1.StepTimedOut && step.Result != v1alpha1.StepFailed
}

// departure returns the result of a step whose CR goes before it has ended.
func departure(o *Observation) v1alpha1.StepResult {
	switch {
	case o.NodeDeleted:
		return v1alpha1.StepNodeDeleted
	case o.State == health.Healthy:
		return v1alpha1.StepRecovered
	default:
		return v1alpha1.StepVanished
	}
}

func stepOf(cr *v1alpha1.Remediation) v1alpha1.EpisodeStep {
	return v1alpha1.EpisodeStep{Kind: cut(cr.Resource.Kind), TemplateName: cut(cr.TemplateName), Started: seconds(cr.Started.Time)}
}

func end(step *v1alpha1.EpisodeStep, result v1alpha1.StepResult, at time.Time) {
	step.Ended, step.Result = new(seconds(later(at, step.Started.Time))), result
}

// arrange sorts the steps and drops those that the API has no room for: the oldest
// that have ended, and the oldest at all if none has.
func arrange(steps []v1alpha1.EpisodeStep) []v1alpha1.EpisodeStep {
	slices.SortStableFunc(steps, func(a, b v1alpha1.EpisodeStep) int { return a.Started.Compare(b.Started.Time) })
	for len(steps) > maxSteps {
		j := max(0, slices.IndexFunc(steps, func(step v1alpha1.EpisodeStep) bool { return step.Ended != nil }))
		steps = slices.Delete(steps, j, j+1)
	}
	return steps
}
