// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"time"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// budgetHistory has the observations of RemediationBudgets, and of the remediations that
// they limit.
type budgetHistory struct {
	budgets map[string]track[Budget]
	// begun are the remediations that the controller has begun, in order.
	begun []begun
	// terms are when processes of the controller began to lead.
	terms []time.Time
}

// begun is a remediation that the controller has begun.
type begun struct {
	// at is when the controller knows it to have begun at the earliest, and answered when it knew of
	// it at the latest.
	at, answered time.Time
	rv           uint64
	// name is that of the node, or of a Machine without one, which machine means that it may be.
	name    string
	machine bool
	identity
	// process is the process that has begun it.
	process string
}

// Led tells that a process of the controller began to lead: it does not know the labels of nodes that
// were gone before.
func (j *Judge) Led(now time.Time) { j.terms = append(j.terms, now) }

// obeyTime is how long after it was written a budget binds every beginning (spec B4.2).
const obeyTime = 2 * time.Second

// asker is the node or Machine that is taken into remediation.
type asker struct {
	name string
	identity
}

// question is a beginning, and what may have been known when it was decided.
type question struct {
	asker
	window
	// by is the process, empty at rest.
	by string
	// nodes are all others that may count.
	nodes []budgetNode
}

func (h *history) ask(a asker, w window, by string, nodes []budgetNode) question {
	others := slices.DeleteFunc(slices.Clone(nodes), func(n budgetNode) bool { return n.name == a.name })
	return question{asker: a, window: w, by: by, nodes: others}
}

// budgetsAllow judges that no budget has refused a beginning for certain, by whatever version of
// everything it was decided (spec B1.3). A machine means that it is about a Machine.
func (j *Judge) budgetsAllow(w window, a asker, by *Request, machine bool) []finding {
	var findings []finding
	if len(j.budgets) > 0 {
		q := j.ask(a, w, by.UserAgent, j.budgetNodes(w, by.UserAgent))
		since := w.at.Add(-obeyTime)
		if w.known.Before(since) {
			since = w.known
		}
		for name, track := range j.budgets {
			findings = append(findings, j.budgetAllows(name, track.during(since, w.rv), since, q)...)
		}
	}
	tolerance := j.toleranceAt(by)
	answered := by.Answered
	if answered.IsZero() {
		answered = by.Time
	}
	at := by.Time.Truncate(time.Second)
	if machine { // The request is later than what the controller remembers.
		at = by.Time.Add(-tolerance.Sync).Truncate(time.Second)
	}
	j.begun = append(j.begun, begun{at: at, answered: answered, rv: w.rv, name: a.name, machine: machine, identity: a.identity, process: by.UserAgent})
	return findings
}

// budgetAllows judges one budget. versions are those that the controller may have known.
func (j *Judge) budgetAllows(name string, versions []*Budget, since time.Time, q question) (findings []finding) {
	var broken *refusal
	for i, b := range versions {
		var surely *refusal
		if b != nil {
			asked := j.refusals(b, since, q)
			for k := range asked {
				if i == 0 { // The last one.
					findings = append(findings, finding{rule: asked[k].rule})
					if b.machineNamespace != "" {
						findings = append(findings, finding{rule: "B3.5"})
					}
				}
				if surely == nil && asked[k].surely {
					surely = &asked[k]
				}
			}
		}
		if surely == nil {
			return findings
		}
		broken = surely
	}
	if broken != nil {
		findings = append(findings, finding{broken.rule, "a remediation begins that budget " + name + " refuses: " + broken.text})
	}
	return findings
}

// refusal is what a budget says about a beginning, by one of its rules.
type refusal struct {
	certainty
	rule, text string
}

// refusals returns what one version of a budget says about a beginning in a window that began at since.
func (h *history) refusals(b *Budget, since time.Time, q question) (found []refusal) {
	applies := b.applies(since, q.at)
	selected := certainty{surely: true}
	groups := map[string]bool{}
	for _, p := range b.places(&q.identity) {
		if p.selected {
			groups[p.group] = true
		}
		selected.surely, selected.maybe = selected.surely && p.selected, selected.maybe || p.selected
	}
	selected.surely = selected.surely && len(groups) == 1
	applies = applies.and(selected)
	for group := range groups {
		for _, r := range h.refusalsOf(b, group, q) {
			r.certainty = r.and(applies)
			found = append(found, r)
		}
	}
	return found
}

// refusalsOf returns what one version of a budget says about a node of a group while it applies.
func (h *history) refusalsOf(b *Budget, group string, q question) (found []refusal) {
	if b.invalid {
		return []refusal{{rule: "B2.2", certainty: certain(true), text: "it cannot be evaluated"}}
	}
	var observed, unhealthy, remediating bounds
	for i := range q.nodes {
		n := &q.nodes[i]
		counts := n.counts(b, group)
		observed.add(counts)
		unhealthy.add(counts.and(n.unhealthy))
		remediating.add(counts.and(n.remediating))
	}
	if limit := b.Spec.MaxUnhealthy; limit != nil { // The one that asks counts, too (spec B3.3).
		found = append(found, refusal{
			rule: "B3.3", certainty: certainty{unhealthy.min+1 > share(*limit, observed.max+1), unhealthy.max+1 > share(*limit, observed.min+1)},
			text: fmt.Sprintf("%d others of group %q are not healthy, of %d", unhealthy.min, group, observed.max),
		})
	}
	if limit := b.Spec.MaxConcurrent; limit != nil {
		found = append(found, refusal{
			rule: "B3.2", certainty: certainty{remediating.min >= share(*limit, observed.max+1), remediating.max >= share(*limit, observed.min+1)},
			text: fmt.Sprintf("%d others of group %q are under remediation, of %d", remediating.min, group, observed.max),
		})
	}
	if b.minInterval > 0 {
		found = append(found, h.intervalRefuses(b, group, q))
	}
	if b.cooldown > 0 {
		found = append(found, h.cooldownRefuses(b, group, q))
	}
	return found
}

// intervalRefuses returns what minInterval says (spec B3.4). For certain are known: what the process
// has begun itself, what the status says, and what CRs say that are there.
func (h *history) intervalRefuses(b *Budget, group string, q question) refusal {
	r := refusal{rule: "B3.4"}
	within := func(at time.Time) bool { return !at.IsZero() && q.at.Before(at.Add(b.minInterval)) }
	track := h.budgets[b.Name]
	note := func(at time.Time, what string, c certainty) {
		if c.maybe && within(at.Add(rounding)) {
			r.maybe = true
		}
		if c.surely && within(at) && !r.surely {
			r.surely, r.text = true, fmt.Sprintf("%s began at %s in group %q", what, at.UTC().Format(time.TimeOnly), group)
		}
	}
	for i := range h.begun {
		one := &h.begun[i]
		if one.rv >= q.rv {
			break
		}
		if !within(one.answered.Add(rounding)) {
			continue
		}
		kept := h.scopeKept(track, b, one.answered.Add(-obeyTime), q.rv)
		in := inGroup(b, group, &one.identity)
		note(one.at, one.name, certainty{in.surely && kept && one.process == q.by && !lapsed(track, group, one.at, q.rv), false})
		note(one.answered, one.name, certainty{false, in.maybe || !kept})
	}
	said := time.Time{}
	for i, version := range track.during(q.known, q.rv) {
		if version == nil || !version.sameScope(b) || version.Status.ObservedGeneration != version.Generation {
			said = time.Time{}
			break
		}
		if at := version.lastStarted(group); i == 0 || at.Before(said) {
			said = at
		}
	}
	note(said, "by the status the last one", certain(true))
	if last := track.at(q.rv); last != nil {
		for i := range last.Status.Groups { // Those from before topologyKey was changed count for all.
			name := last.Status.Groups[i].Name
			at := last.lastStarted(name)
			note(at, "", certainty{false, name == group || !h.scopeKept(track, last, at, q.rv)})
		}
	}
	for _, crs := range h.crs {
		versions := crs.during(q.known, q.rv)
		for _, cr := range versions {
			if cr == nil || len(cr.Owners)+len(cr.Checks) == 0 || cr.Node == q.name {
				continue
			}
			unread := !cr.ByController && h.startedSince(q.at.Add(-startTime))
			note(cr.Created, cr.String(), certainty{existed(versions) && !unread && len(cr.Owners) > 0 && h.lookedAt(cr, q.window) && h.firstOf(cr, q.window) && h.surelyIn(b, group, cr.Node, q), true})
		}
	}
	return r
}

// lapsed reports whether a group had no nodes, by a status, when the interval since a beginning was over.
// From then on the controller does not know of the beginning, even if the interval becomes longer (spec B3.4).
func lapsed(versions track[Budget], group string, began time.Time, until uint64) bool {
	return slices.ContainsFunc(versions, func(v version[Budget]) bool {
		b := v.object
		if b == nil || v.rv > until || v.seen.Before(began.Add(b.minInterval)) || b.Status.ObservedGeneration != b.Generation {
			return false
		}
		return !slices.ContainsFunc(b.Status.Groups, func(g nhcv1alpha1.BudgetGroup) bool { return g.Name == group })
	})
}

// firstOf reports whether a CR is the first one of its owner for its node, so that it tells when the
// remediation began.
func (h *history) firstOf(cr *CR, w window) bool {
	for _, other := range h.crsAt(cr.Node, w.rv) {
		if other.Created.Before(cr.Created) {
			return false
		}
	}
	return true
}

// surelyIn reports whether a node counts in a group for certain.
func (h *history) surelyIn(b *Budget, group, name string, q question) bool {
	return slices.ContainsFunc(q.nodes, func(n budgetNode) bool { return n.name == name && n.in(b, group).surely })
}

// scopeKept reports whether a budget has selected the same nodes in the same groups, and has had an
// interval, at all times since an instant.
func (h *history) scopeKept(versions track[Budget], b *Budget, since time.Time, until uint64) bool {
	return all(versions.during(since, until), func(version *Budget) bool {
		return version != nil && version.sameScope(b) && version.minInterval > 0
	})
}
