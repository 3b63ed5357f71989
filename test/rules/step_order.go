// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turn is what a sync may have known about the steps of a node when it created a CR.
type stepOrder struct {
	steps []step
	step  int
	// standing tells for each step whether it may have had a CR, and stood whether it had
	// one all the time; those being deleted do not count.
	standing, stood []bool
	// over reports whether the step may have been over by itself (spec 13.2, 13.3).
	over []bool
	// going is a CR that was being deleted all the time, and stranger one of no step that was
	// at work all the time.
	going, stranger *CR
}

// stepOrderOf looks at the CRs that the NodeHealthCheck had for the node besides the new one.
func (j *Judge) stepOrderOf(w window, nhc *NHC, created *CR) *stepOrder {
	t := &stepOrder{steps: stepsOf(nhc)}
	t.step = stepOf(t.steps, created)
	t.standing, t.stood, t.over = make([]bool, len(t.steps)), make([]bool, len(t.steps)), make([]bool, len(t.steps))
	recorded := j.recordedTimeouts(w)
	for i := range t.steps {
		t.over[i] = j.passed(w.nhc, w.node, t.steps[i], w.rv, w.at)
	}
	for key := range j.crsOf[w.node] {
		versions := j.crs[key].during(w.known, w.rv)
		own := func(cr *CR) bool {
			return cr != nil && cr.UID != created.UID && cr.Node == w.node && cr.OwnedBy(w.nhc)
		}
		stands := func(cr *CR) bool { return own(cr) && !cr.Deleting }
		if all(versions, func(cr *CR) bool { return own(cr) && cr.Deleting }) {
			t.going = versions[0]
		}
		if all(versions, func(cr *CR) bool { return stands(cr) && stepOf(t.steps, cr) < 0 }) {
			t.stranger = versions[0]
		}
		for _, cr := range versions {
			if !own(cr) {
				continue
			}
			i := stepOf(t.steps, cr)
			if i < 0 {
				continue
			}
			t.standing[i] = t.standing[i] || stands(cr)
			t.stood[i] = t.stood[i] || all(versions, stands)
			t.over[i] = t.over[i] || recorded[cr.UID] || isOver(t.steps[i], cr, w.at) || j.endedUnmarked(key, t.steps[i], cr, w.at)
		}
	}
	return t
}

// isOver reports whether a step may be ended by its CR (spec 13.2 to 13.5).
func isOver(s step, cr *CR, now time.Time) bool {
	return cr.Marked || cr.Succeeded == "False" || (cr.Succeeded == "True" && !now.Before(cr.Created.Add(s.timeout)))
}

// endedUnmarked reports whether a step may have been ended without the annotation, because
// admission denies it (spec 13.5).
func (j *Judge) endedUnmarked(key string, s step, cr *CR, now time.Time) bool {
	return j.requests.deniedSince(key, cr.Created.Add(s.timeout), now)
}

// recordedTimeouts returns the CRs that status may have shown as timed out.
func (j *Judge) recordedTimeouts(w window) map[types.UID]bool {
	recorded := map[types.UID]bool{}
	for _, nhc := range j.nhcs[w.nhc].during(w.known, w.rv) {
		if nhc == nil {
			continue
		}
		for _, entry := range nhc.Status.UnhealthyNodes {
			for _, remediation := range entry.Remediations {
				if remediation.TimedOut != nil {
					recorded[remediation.Resource.UID] = true
				}
			}
		}
	}
	return recorded
}

// findings judges the turn.
func (t *stepOrder) findings(created *CR) []finding {
	if t.step < 0 {
		return []finding{{"13.1", created.String() + " is of no step of its NodeHealthCheck"}}
	}
	anyStanding := false
	for _, stands := range t.standing {
		anyStanding = anyStanding || stands
	}
	findings := []finding{
		check("P9", !anyStanding && t.going != nil, "a new beginning while %s is going", t.going),
		check("P9", t.stranger != nil, "a new beginning while %s, which is of no step, is at work", t.stranger),
		check("13.1", !anyStanding && slices.Contains(t.over[:t.step], false), "the first CR is of step %d", t.step),
	}
	for i := range t.steps {
		switch {
		case i < t.step:
			findings = append(findings, check("13.2", !t.over[i] && !t.laterStanding(i), "step %d begins and step %d is not over", t.step, i))
		case i > t.step:
			findings = append(findings, check("13.2", t.stood[i], "step %d begins again, step %d has a CR", t.step, i))
		}
	}
	return findings
}

// laterStanding reports whether a later step than the i-th may have had a CR.
func (t *stepOrder) laterStanding(i int) bool {
	for j := i + 1; j < len(t.steps); j++ {
		if t.standing[j] {
			return true
		}
	}
	return false
}
