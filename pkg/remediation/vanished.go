// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// vanished are the CRs of a step that other clients have deleted in this episode of a node. A remediator that deletes
// its CR once the power is back must not have the node switched off again and again (spec 11.6).
type vanished struct {
	count int
	// first is when the first one was created, and last when the last one was gone.
	first, last time.Time
}

// pauses are how long the next CR waits after so many have vanished, the last one also for more.
var pauses = []time.Duration{0, 0, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}

// due returns when the next CR of the step may be created.
func (v *vanished) due() time.Time { return v.last.Add(pauses[min(v.count, len(pauses)-1)]) }

func (v *vanished) add(started, gone time.Time) {
	v.count++
	v.first = health.Earliest(v.first, started)
	if gone.After(v.last) {
		v.last = gone
	}
}

func (v *vanished) explain() string {
	return fmt.Sprintf("%d remediation objects of the step were deleted while the node was not healthy, by their remediator or another client, the last one at %s",
		v.count, v.last.UTC().Format(time.RFC3339))
}

// vanishedOf returns the CRs of a step that have vanished so far: by the history, and those that status names and
// that are gone at the instant now.
func (n *Node) vanishedOf(step Step, now time.Time) (v vanished) {
	kind, _ := step.RemediationKind()
	for i := range n.Vanished {
		if cr := &n.Vanished[i]; cr.Kind == kind.Kind && cr.TemplateName == step.Reference.Name {
			v.add(cr.Started.Time, cr.Ended.Time)
		}
	}
	for i := range n.Recorded {
		cr := &n.Recorded[i]
		there := slices.ContainsFunc(n.Own, func(own *object.CR) bool { return own.UID == cr.Resource.UID })
		if !there && cr.TimedOut == nil && !n.DeletionRequested[cr.Resource.UID] && recordedStep([]Step{step}, n.Name, cr) == 0 {
			v.add(cr.Started.Time, now.Truncate(time.Second))
		}
	}
	return v
}

// begun returns when the step of a CR began: with its first CR in this episode.
func (n *Node) begun(cr *object.CR, step Step) time.Time {
	v := n.vanishedOf(step, time.Time{})
	return health.Earliest(v.first, cr.CreationTimestamp.Time)
}

// passVanished goes on to the next step if the CR of the current one has vanished and its time is over.
func (p *planner) passVanished() {
	for p.progress.current < len(p.Steps) && p.progress.running == nil && !p.progress.deletes(p.progress.current) {
		step := p.Steps[p.progress.current]
		v := p.Node.vanishedOf(step, p.now)
		if !step.Escalating() || v.count == 0 || !p.Node.Constraints.Permissions().EndStep {
			return
		}
		if end := v.first.Add(step.Timeout); p.now.Before(end) {
			p.RecheckAt(end)
			return
		}
		p.progress.current++
	}
}

// pausesAfter reports whether the next CR of a step has to wait, because earlier ones have vanished.
func (p *planner) pausesAfter(step Step) bool {
	v := p.Node.vanishedOf(step, p.now)
	due := v.due()
	if !p.now.Before(due) {
		return false
	}
	p.refuse(v1alpha1.DecidedVanished)
	if p.note, p.Until = v.explain(), due; step.Escalating() {
		p.Until = health.Earliest(due, v.first.Add(step.Timeout))
	}
	p.RecheckAt(p.Until)
	return true
}
