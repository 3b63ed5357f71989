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

// progress is how far the steps of an episode have come.
type progress struct {
	// steps are in the order of their start.
	steps []v1alpha1.EpisodeStep
	// left is the number of CRs that are left, also of steps that are over.
	left int
	// fenced is the first instant at which one of the CRs, also one that is gone, says that
	// the node is down for certain. It is zero if none does.
	fenced time.Time
	// replaced reports that one of them says that the node was replaced for good.
	replaced bool
}

// advanceSteps returns the progress after a sync.
func advanceSteps(steps []v1alpha1.EpisodeStep, o *Observation, now time.Time) progress {
	p := progress{steps: slices.Clone(steps)}
	claimed := make(map[int]*CR, len(o.CRs))
	for _, gone := range []bool{false, true} { // CRs that are left come first.
		for i := range o.CRs {
			if o.CRs[i].Gone == gone {
				p.attribute(&o.CRs[i], claimed, o)
			}
		}
	}
	for j := range p.steps {
		if cr := claimed[j]; p.steps[j].Ended == nil && (cr == nil || cr.Gone) {
			end(&p.steps[j], departure(&p.steps[j], cr, o), now)
		}
	}
	p.steps = arrange(p.steps)
	return p
}

// attribute records a CR of a known step, or of a new one.
func (p *progress) attribute(cr *CR, claimed map[int]*CR, o *Observation) {
	j := find(p.steps, claimed, cr)
	if j < 0 {
		if !o.belongs(cr) {
			return
		}
		j = len(p.steps)
		p.steps = append(p.steps, stepOf(&cr.Remediation))
	}
	claimed[j] = cr
	p.fenced = health.Earliest(p.fenced, cr.Fenced)
	p.replaced = p.replaced || cr.Replaced
	if cr.Gone {
		return
	}
	p.left++
	if step := &p.steps[j]; cr.TimedOut != nil && step.Ended == nil {
		result := v1alpha1.StepTimedOut
		if cr.Failed {
			result = v1alpha1.StepFailed
		}
		end(step, result, cr.TimedOut.Time)
	}
}

// find returns the index of the step of a CR, or -1. An episode keeps no uids. CRs of the
// same kind and template that were created in the same second are equivalent. A step
// whose CR has gone matches no CR.
func find(steps []v1alpha1.EpisodeStep, claimed map[int]*CR, cr *CR) int {
	wanted := stepOf(&cr.Remediation)
	for j := range steps {
		step := &steps[j]
		if claimed[j] == nil && !departed(step) &&
			step.Kind == wanted.Kind && step.TemplateName == wanted.TemplateName && step.Started.Equal(&wanted.Started) {
			return j
		}
	}
	return -1
}

// departed reports whether the CR of a step has gone for certain. If a step ended by
// itself, its CR may still exist.
func departed(step *v1alpha1.EpisodeStep) bool {
	return step.Ended != nil && (step.Result != v1alpha1.StepTimedOut && step.Result != v1alpha1.StepFailed)
}

// departure returns the result of a step whose CR goes before the step has ended. cr is nil
// if nothing is known of it. The controller only deletes the CRs of healthy and of deleted
// nodes.
func departure(step *v1alpha1.EpisodeStep, cr *CR, o *Observation) v1alpha1.StepResult {
	switch {
	case o.NodeDeleted || o.created().After(step.Started.Time):
		return v1alpha1.StepNodeDeleted
	case o.State == health.Healthy, cr != nil && cr.Requested:
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

// arrange sorts the steps and drops the ones that the API has no room for: the oldest
// ended ones, or the oldest ones if none has ended.
func arrange(steps []v1alpha1.EpisodeStep) []v1alpha1.EpisodeStep {
	slices.SortStableFunc(steps, func(a, b v1alpha1.EpisodeStep) int { return a.Started.Compare(b.Started.Time) })
	for len(steps) > maxSteps {
		j := max(0, slices.IndexFunc(steps, func(step v1alpha1.EpisodeStep) bool { return step.Ended != nil }))
		steps = slices.Delete(steps, j, j+1)
	}
	return steps
}
