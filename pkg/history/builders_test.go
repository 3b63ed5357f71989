// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns the instant that many minutes after the epoch.
func at(minutes float64) time.Time { return epoch.Add(time.Duration(minutes * float64(time.Minute))) }

// stamp returns the same as the API has it.
func stamp(minutes float64) metav1.Time { return metav1.NewTime(at(minutes)) }

func notReady() *v1alpha1.Trigger {
	return &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}
}

// unhealthy returns the observation of a selected node. It was created long ago, and its
// condition came at 00:05.
func unhealthy(changes ...func(*Observation)) Observation {
	o := Observation{
		Node: "node-1", Created: at(-1000), State: health.Unhealthy, Selected: true,
		Trigger: *notReady(), Since: at(5),
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func healthy(changes ...func(*Observation)) Observation {
	return unhealthy(append([]func(*Observation){well}, changes...)...)
}

func well(o *Observation) {
	o.State, o.Trigger, o.Since = health.Healthy, v1alpha1.Trigger{}, time.Time{}
}
func soon(o *Observation)       { o.State = health.SoonUnhealthy }
func wouldBegin(o *Observation) { o.WouldBegin = true }
func gone(o *Observation) {
	well(o)
	o.NodeDeleted, o.Selected, o.Created = true, false, time.Time{}
}
func unselected(o *Observation)            { o.Selected = false }
func named(name string) func(*Observation) { return func(o *Observation) { o.Node = name } }
func created(m float64) func(*Observation) { return func(o *Observation) { o.Created = at(m) } }
func since(t time.Time) func(*Observation) { return func(o *Observation) { o.Since = t } }
func healthySince(m float64) func(*Observation) {
	return func(o *Observation) { o.HealthySince = at(m) }
}

// with adds CRs that are left, went adds some that are not.
func with(crs ...v1alpha1.Remediation) func(*Observation) {
	return func(o *Observation) {
		for _, cr := range crs {
			o.CRs = append(o.CRs, CR{Remediation: cr})
		}
	}
}

func went(cr v1alpha1.Remediation, says ...func(*CR)) func(*Observation) {
	return func(o *Observation) {
		o.CRs = append(o.CRs, CR{Remediation: cr, Gone: true})
		for _, say := range says {
			say(&o.CRs[len(o.CRs)-1])
		}
	}
}

// says lets the CRs of a kind say something.
func says(kind string, say func(*CR)) func(*Observation) {
	return func(o *Observation) {
		for i := range o.CRs {
			if o.CRs[i].Resource.Kind == kind {
				say(&o.CRs[i])
			}
		}
	}
}

func failed(kind string) func(*Observation) {
	return says(kind, func(cr *CR) { cr.Failed = true })
}
func fenced(t time.Time) func(*Observation) { return says("Reboot", down(t)) }
func down(t time.Time) func(*CR)            { return func(cr *CR) { cr.Fenced = t } }
func requested(cr *CR)                      { cr.Requested = true }
func replacedNode(cr *CR)                   { cr.Replaced = true }

// reboot and fencing are CRs of two steps.
func reboot(started float64) v1alpha1.Remediation  { return cr("Reboot", started) }
func fencing(started float64) v1alpha1.Remediation { return cr("Fence", started) }

func cr(kind string, started float64) v1alpha1.Remediation {
	return v1alpha1.Remediation{
		Resource: corev1.ObjectReference{Kind: kind, Name: "node-1", UID: types.UID(kind)},
		Started:  stamp(started), TemplateName: "template",
	}
}

func timedOut(minutes float64, cr v1alpha1.Remediation) v1alpha1.Remediation {
	cr.TimedOut = new(stamp(minutes))
	return cr
}

// step returns a step that goes on, or the one that has ended with the result.
func step(kind string, started float64) v1alpha1.EpisodeStep {
	return v1alpha1.EpisodeStep{Kind: kind, TemplateName: "template", Started: stamp(started)}
}

func ended(step v1alpha1.EpisodeStep, minutes float64, result v1alpha1.StepResult) v1alpha1.EpisodeStep {
	step.Ended, step.Result = new(stamp(minutes)), result
	return step
}

// open returns the episode of node-1 that was detected at 00:05.
func open(changes ...func(*v1alpha1.Episode)) v1alpha1.Episode {
	episode := v1alpha1.Episode{Node: "node-1", Trigger: notReady(), Detected: stamp(5)}
	for _, change := range changes {
		change(&episode)
	}
	return episode
}

func of(node string) func(*v1alpha1.Episode) { return func(e *v1alpha1.Episode) { e.Node = node } }
func detectedAt(m float64) func(*v1alpha1.Episode) {
	return func(e *v1alpha1.Episode) { e.Detected = stamp(m) }
}
func startedAt(m float64) func(*v1alpha1.Episode) {
	return func(e *v1alpha1.Episode) { e.Started = new(stamp(m)) }
}
func fencedAt(m float64) func(*v1alpha1.Episode) {
	return func(e *v1alpha1.Episode) { e.Fenced = new(stamp(m)) }
}
func took(steps ...v1alpha1.EpisodeStep) func(*v1alpha1.Episode) {
	return func(e *v1alpha1.Episode) { e.Steps = steps }
}
func finishedAt(m float64) func(*v1alpha1.Episode) {
	return func(e *v1alpha1.Episode) { e.Finished = new(stamp(m)) }
}

// endedAt ends an episode. Nothing was left of its CRs then, if it had any.
func endedAt(m float64, outcome v1alpha1.EpisodeOutcome) func(*v1alpha1.Episode) {
	return func(e *v1alpha1.Episode) {
		e.Finished, e.Outcome = new(stamp(m)), outcome
		if e.Started != nil {
			e.Released = new(stamp(m))
		}
	}
}
func releasedAt(m float64) func(*v1alpha1.Episode) {
	return func(e *v1alpha1.Episode) { e.Released = new(stamp(m)) }
}

// ledger returns one with these open episodes.
func ledger(episodes ...v1alpha1.Episode) *Ledger {
	l := &Ledger{open: map[string]*v1alpha1.Episode{}}
	for _, episode := range episodes {
		l.open[episode.Node] = &episode
	}
	return l
}
