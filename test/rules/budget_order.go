// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// calmFor is how long nothing may have happened to a waiting node, so that its place in the order is
// certain. After a failed attempt, a node yields for a minute (spec B4.3).
const calmFor = 65 * time.Second

// inOrder judges that a remediation that has begun takes no place from a node that has been unhealthy for
// longer and waits for that place (spec B4.1). Only those that wait for certain are looked at.
func (j *Judge) inOrder(w window, by *Request) (findings []finding) {
	since, known := j.unhealthySince(j.nhcs[w.nhc].at(w.rv), w.node, w.known, w.rv)
	if len(j.budgets) == 0 || !known || j.disturbedSince(w.at.Add(-calmFor), by) || j.hadPlace(w, by) {
		return nil
	}
	for _, track := range j.nhcs {
		nhc := track.at(w.rv)
		if nhc == nil || !all(track.during(w.at.Add(-calmFor), w.rv), func(v *NHC) bool { return v != nil && v.Generation == nhc.Generation }) {
			continue
		}
		for i := range nhc.Status.UnhealthyNodes {
			entry := &nhc.Status.UnhealthyNodes[i]
			if entry.Name == w.node || !j.waitsInPeace(nhc, entry, w) || !j.displaced(entry.Name, w, by) {
				continue
			}
			waiting, unchanged := j.unhealthySince(nhc, entry.Name, w.at.Add(-calmFor), w.rv)
			findings = append(findings, check("B4.1", unchanged && waiting.Add(rounding).Before(since),
				"it takes the place of %s, which %s finds unhealthy since %s, this one since %s", entry.Name, nhc.Name, waiting.UTC().Format(time.TimeOnly), since.UTC().Format(time.TimeOnly)))
		}
	}
	return findings
}

// hadPlace reports whether a node whose remediation has begun may have been under remediation before: then
// it takes no place.
func (j *Judge) hadPlace(w window, by *Request) bool {
	before := w
	before.rv--
	return slices.ContainsFunc(j.budgetNodes(before, by.UserAgent), func(n budgetNode) bool { return n.name == w.node && n.remediating.maybe })
}

// disturbedSince reports whether a fault or another leader may have kept anybody from looking in time.
func (j *Judge) disturbedSince(since time.Time, by *Request) bool {
	return j.ledSince(since) || slices.ContainsFunc(j.faults, func(f *FaultWindow) bool {
		return !f.from.After(by.Time) && (f.to.IsZero() || f.to.Add(f.extra.Cache+f.extra.Sync).After(since))
	})
}

// unhealthySince returns since when a NodeHealthCheck finds a node unhealthy, and false if that has changed
// in the meantime.
func (j *Judge) unhealthySince(nhc *NHC, node string, from time.Time, until uint64) (since time.Time, known bool) {
	for _, version := range j.nodes[node].during(from, until) {
		if nhc == nil || version == nil {
			return time.Time{}, false
		}
		at, matches := deadline(nhc.Spec.UnhealthyConditions, version)
		if !matches || !at.earliest.Equal(at.latest) || (known && !at.latest.Equal(since)) {
			return time.Time{}, false
		}
		since, known = at.latest, true
	}
	return since, known
}

// waitsInPeace reports whether a node has waited for budgets, and for nothing else, for all that time.
func (j *Judge) waitsInPeace(nhc *NHC, entry *v1alpha1.UnhealthyNode, w window) bool {
	since := w.at.Add(-calmFor)
	if entry.Decision == nil || entry.Decision.Reason != v1alpha1.DecidedBudgetExhausted || entry.Decision.Since.After(since) {
		return false
	}
	for key := range j.leasesOf[entry.Name] {
		if some(j.leases[key].during(since, w.rv), isThere) {
			return false
		}
	}
	for key := range j.crsOf[entry.Name] {
		if some(j.crs[key].during(since, w.rv), isThere) {
			return false
		}
	}
	node := j.nodes[entry.Name].at(w.rv)
	if node == nil || node.ControlPlane() || !Unhealthy(nhc.Spec.UnhealthyConditions, node, since) {
		return false
	}
	p := &snapshot{history: j.history, rv: w.rv - 1, now: w.at, checks: map[string]int{}}
	reason := newSettledCheck(p, nhc).refusal(entry.Name, true)
	return reason == "" || reason == v1alpha1.DecidedBudgetExhausted
}

func isThere[T any](object *T) bool { return object != nil }

// displaced reports whether all budgets would have admitted a node for certain instead of the one whose
// remediation has begun, and one of them refuses it for certain now. A budget for which both are in one group
// has admitted the one, so it would have admitted the other.
func (j *Judge) displaced(name string, w window, by *Request) (displaced bool) {
	before, after := w, w
	before.rv--
	after.rv++
	waiting, begun := j.identityOf(name, w), j.identityOf(w.node, w)
	free := j.ask(asker{name, waiting}, before, by.UserAgent, j.budgetNodes(before, by.UserAgent))
	taken := j.ask(asker{name, waiting}, after, by.UserAgent, j.budgetNodes(after, by.UserAgent))
	since := w.at.Add(-obeyTime)
	if w.known.Before(since) {
		since = w.known
	}
	for _, track := range j.budgets {
		for i, b := range track.during(since, w.rv) {
			if b == nil {
				continue
			}
			if !sameGroup(b, &waiting, &begun) && slices.ContainsFunc(j.refusals(b, since, free), func(r refusal) bool { return r.maybe }) {
				return false
			}
			displaced = displaced || i == 0 && slices.ContainsFunc(j.refusals(b, since, taken), func(r refusal) bool { return r.surely })
		}
	}
	return displaced
}

// sameGroup reports whether two nodes are in one group of a budget for certain.
func sameGroup(b *Budget, one, other *identity) bool {
	places := b.places(one)
	return len(places) > 0 && inGroup(b, places[0].group, one).surely && inGroup(b, places[0].group, other).surely
}
