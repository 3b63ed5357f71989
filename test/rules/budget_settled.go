// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// present is the window in which everything is as it is.
func (p *snapshot) present() window {
	return window{known: p.now, nodeKnown: p.now, rv: p.rv, at: p.now}
}

// counting returns all that counts for budgets.
func (p *snapshot) counting() []budgetNode {
	if p.budgetNodesNow == nil {
		p.budgetNodesNow = p.budgetNodes(p.present(), "")
	}
	return p.budgetNodesNow
}

// budgetMayRefuse reports whether some budget may refuse a node, or a Machine without one, as
// everything is (spec B1.3).
func (p *snapshot) budgetMayRefuse(name string) bool {
	for _, key := range slices.Sorted(maps.Keys(p.budgets)) {
		if b := p.budgets[key].at(p.rv); b != nil && p.refusedBy(b, name).maybe {
			return true
		}
	}
	return false
}

// budgetMayStop reports whether some budget that permits nothing may hold the next step of a node (spec B1.2).
func (p *snapshot) budgetMayStop(name string) bool {
	for _, versions := range p.budgets {
		b := versions.at(p.rv)
		if b != nil && !b.invalid && b.Spec.MaxConcurrent != nil && share(*b.Spec.MaxConcurrent, 1) == 0 && p.refusedBy(b, name).maybe {
			return true
		}
	}
	return false
}

// refusedBy tells whether a budget refuses a node, as far as is known.
func (p *snapshot) refusedBy(b *Budget, name string) (c certainty) {
	w := p.present()
	q := p.ask(asker{name, p.identityOf(name, w)}, w, "", p.counting())
	for _, r := range p.refusals(b, p.now, q) {
		c = c.or(r.certainty)
	}
	return c
}

// unsettledBudgets returns what must not stay as it is of the status of budgets (spec B5.2).
func (p *snapshot) unsettledBudgets() (left []Violation) {
	for _, name := range slices.Sorted(maps.Keys(p.budgets)) {
		if b := p.budgets[name].at(p.rv); b != nil && b.DeletionTimestamp == nil {
			check := &budgetCheck{snapshot: p, budget: b}
			check.checkStatus()
			left = append(left, check.left...)
		}
	}
	return left
}

// budgetCheck is what a snapshot means to one budget.
type budgetCheck struct {
	*snapshot
	budget *Budget
	left   []Violation
}

func (s *budgetCheck) check(rule string, broken bool, format string, args ...any) {
	s.checks[rule]++
	if broken {
		text := fmt.Sprintf(format, args...)
		s.left = append(s.left, Violation{Rule: rule, NHC: budgetName(s.budget.Name), Text: text, state: text})
	}
}

func (s *budgetCheck) checkStatus() {
	status := &s.budget.Status
	s.check("B5.2", status.ObservedGeneration != s.budget.Generation, "observedGeneration is %d of %d", status.ObservedGeneration, s.budget.Generation)
	valid := meta.FindStatusCondition(status.Conditions, nhcv1alpha1.ConditionBudgetValid)
	s.check("B2.2", valid == nil || (valid.Status == "True") == s.budget.invalid, "condition Valid is %v, invalid: %t", valid, s.budget.invalid)
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	s.check("B5.2", (stalled != nil) != s.budget.invalid, "condition Stalled is %v, invalid: %t", stalled, s.budget.invalid)
	var observed, unhealthy, remediating bounds
	for group, counts := range s.groups() {
		observed = observed.plus(counts.observed)
		unhealthy, remediating = unhealthy.plus(counts.unhealthy), remediating.plus(counts.remediating)
		s.checkGroup(group, counts)
	}
	s.checkNumber("observedNodes", status.ObservedNodes, observed)
	s.checkNumber("notHealthyNodes", status.NotHealthyNodes, unhealthy)
	s.checkNumber("remediatingNodes", status.RemediatingNodes, remediating)
	s.checkAllowed()
	s.checkExhausted(meta.FindStatusCondition(status.Conditions, nhcv1alpha1.ConditionBudgetExhausted))
}

// windowLag is how long after the end of a window status may still be that of before.
const windowLag = 2 * time.Second

func (b bounds) plus(other bounds) bounds { return bounds{b.min + other.min, b.max + other.max} }

func (s *budgetCheck) checkNumber(name string, value *int32, want bounds) {
	s.check("B5.2", value == nil || !want.has(int(*value)), "%s is %s, not %v", name, valueOf(value), want)
}

// groupCounts are the numbers of a group.
type groupCounts struct {
	observed, unhealthy, remediating bounds
	nodes                            []string
}

// groups counts the groups of the budget.
func (s *budgetCheck) groups() map[string]*groupCounts {
	groups := map[string]*groupCounts{}
	all := s.counting()
	for i := range all {
		n := &all[i]
		named := sets.New[string]()
		for _, p := range s.budget.places(&n.identity) {
			if p.selected {
				named.Insert(p.group)
			}
		}
		for group := range named {
			if groups[group] == nil {
				groups[group] = &groupCounts{}
			}
			groups[group].nodes = append(groups[group].nodes, n.String())
			counts := n.counts(s.budget, group)
			groups[group].observed.add(counts)
			groups[group].unhealthy.add(counts.and(n.unhealthy))
			groups[group].remediating.add(counts.and(n.remediating))
		}
	}
	return groups
}

// checkGroup compares what the status says of a group with what exists.
func (s *budgetCheck) checkGroup(name string, counts *groupCounts) {
	i := slices.IndexFunc(s.budget.Status.Groups, func(g nhcv1alpha1.BudgetGroup) bool { return g.Name == name })
	s.check("B5.2", i < 0 && counts.observed.min > 0, "the status does not list group %q", name)
	if i < 0 {
		return
	}
	group := &s.budget.Status.Groups[i]
	s.checkNumber(fmt.Sprintf("observedNodes of group %q of %s", name, counts.nodes), &group.ObservedNodes, counts.observed)
	s.checkNumber(fmt.Sprintf("notHealthyNodes of group %q of %s", name, counts.nodes), &group.NotHealthyNodes, counts.unhealthy)
	s.checkNumber(fmt.Sprintf("remediatingNodes of group %q of %s", name, counts.nodes), &group.RemediatingNodes, counts.remediating)
	if limit := s.budget.Spec.MaxUnhealthy; s.budget.cooldown > 0 && !s.budget.invalid {
		s.check("B3.6", group.WithinSince != nil && counts.unhealthy.min > share(*limit, counts.observed.max), "withinSince of group %q is %v, while it exceeds maxUnhealthy", name, group.WithinSince)
	}
	last := s.lastBegun(name)
	s.check("B3.4", group.LastStarted == nil && !last.IsZero() || group.LastStarted != nil && group.LastStarted.Time.Before(last),
		"lastStarted of group %q is %v, a remediation began at %s", name, group.LastStarted, last.UTC().Format(time.TimeOnly))
}

// lastBegun returns when a remediation of a group began for the last time, as far as the present leader
// knows for certain, because it has begun it or found it in the status, and minInterval asks for it.
func (s *budgetCheck) lastBegun(group string) (last time.Time) {
	for i := range s.begun {
		one := &s.begun[i]
		if one.rv > s.rv || (s.ledSince(one.at) && !s.saidToLeader(group, one.at)) || one.at.Before(last) || !s.now.Before(one.at.Add(s.budget.minInterval)) {
			continue
		}
		if inGroup(s.budget, group, &one.identity).surely && s.scopeKept(s.budgets[s.budget.Name], s.budget, one.answered.Add(-obeyTime), s.rv) &&
			!lapsed(s.budgets[s.budget.Name], group, one.at, s.rv) {
			last = one.at
		}
	}
	return last
}

// saidToLeader reports whether the status said that a remediation of a group began at an instant, or
// later, when the present leader began to lead.
func (s *budgetCheck) saidToLeader(group string, at time.Time) bool {
	i := slices.IndexFunc(s.terms, s.now.Before)
	if i < 0 {
		i = len(s.terms)
	}
	if i == 0 {
		return false
	}
	for _, v := range slices.Backward(s.budgets[s.budget.Name]) {
		if v.rv <= s.rv && !v.seen.After(s.terms[i-1]) {
			return v.object != nil && v.object.sameScope(s.budget) && !v.object.lastStarted(group).Before(at)
		}
	}
	return false
}

// ledSince reports whether a process began to lead after an instant.
func (h *history) ledSince(at time.Time) bool { return slices.ContainsFunc(h.terms, at.Before) }

// checkAllowed compares how many remediations the status allows with the numbers that it has.
func (s *budgetCheck) checkAllowed() {
	if open := s.budget.applies(s.now.Add(-windowLag), s.now); open.maybe != open.surely {
		return // A window has just begun or ended.
	}
	var least *int32
	some := false
	for i := range s.budget.Status.Groups {
		group := &s.budget.Status.Groups[i]
		want := s.allowed(group)
		s.check("B5.2", !equalNumbers(group.RemediationsAllowed, want), "remediationsAllowed of group %q is %s, not %s", group.Name, valueOf(group.RemediationsAllowed), valueOf(want))
		if group.ObservedNodes > 0 && (!some || (want != nil && (least == nil || *want < *least))) {
			least, some = want, true
		}
	}
	if some {
		s.check("B5.2", !equalNumbers(s.budget.Status.RemediationsAllowed, least), "remediationsAllowed is %s, not %s", valueOf(s.budget.Status.RemediationsAllowed), valueOf(least))
	}
}

func equalNumbers(a, b *int32) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// allowed returns how many remediations of a group may begin, nil if nothing limits them.
func (s *budgetCheck) allowed(group *nhcv1alpha1.BudgetGroup) (allowed *int32) {
	b, spec := s.budget, &s.budget.Spec
	atMost := func(n int) {
		if n = max(0, n); allowed == nil || int(*allowed) > n {
			allowed = new(int32(n))
		}
	}
	switch {
	case !b.applies(s.now, s.now).surely:
		return nil
	case b.invalid:
		return new(int32(0))
	}
	if spec.MaxUnhealthy != nil {
		limit := share(*spec.MaxUnhealthy, int(group.ObservedNodes))
		if atMost(limit - int(group.RemediatingNodes)); int(group.NotHealthyNodes) > limit {
			atMost(0)
		}
	}
	if b.cooldown > 0 && group.WithinSince != nil && s.now.Before(group.WithinSince.Add(b.cooldown)) {
		atMost(0)
	}
	if spec.MaxConcurrent != nil {
		atMost(share(*spec.MaxConcurrent, int(group.ObservedNodes)) - int(group.RemediatingNodes))
	}
	if b.minInterval > 0 {
		if atMost(1); group.LastStarted != nil && s.now.Before(group.LastStarted.Add(b.minInterval)) {
			atMost(0)
		}
	}
	return allowed
}

// checkExhausted judges that condition Exhausted names the nodes that the budget keeps
// waiting.
func (s *budgetCheck) checkExhausted(condition *metav1.Condition) {
	s.check("B5.2", condition == nil, "there is no condition Exhausted")
	if condition == nil {
		return
	}
	waiting, known := s.waiting()
	if !known {
		return
	}
	want := "No node waits for the budget"
	switch n := len(waiting); {
	case n == 1:
		want = "1 node waits: " + waiting[0]
	case n > 1 && n <= 10:
		want = fmt.Sprintf("%d nodes wait: %s", n, strings.Join(waiting, ", "))
	case n > 10:
		want = fmt.Sprintf("%d nodes wait: %s and %d more", n, strings.Join(waiting[:10], ", "), n-10)
	}
	s.check("B5.2", (condition.Status == "True") != (len(waiting) > 0) || condition.Message != want, "Exhausted is %s, %q, not %q", condition.Status, condition.Message, want)
}

// waiting returns those that this budget refuses and nothing else does, and false if that is not known
// for certain.
func (s *budgetCheck) waiting() (names []string, known bool) {
	found := sets.New[string]()
	known = true
	note := func(name string, otherwise v1alpha1.DecisionReason) {
		refused := s.refusedBy(s.budget, name)
		if known = known && refused.surely == refused.maybe && otherwise == "" && !s.leased(name); refused.maybe {
			found.Insert(name)
		}
	}
	for _, track := range s.nhcs {
		nhc := track.at(s.rv)
		if nhc == nil {
			continue
		}
		known = known && nhc.DeletionTimestamp == nil
		check := newSettledCheck(s.snapshot, nhc)
		for i := range nhc.Status.UnhealthyNodes {
			entry := &nhc.Status.UnhealthyNodes[i]
			if decision := entry.Decision; decision != nil && decision.Reason == v1alpha1.DecidedBudgetExhausted {
				note(entry.Name, check.refusalAfterBudgets(entry.Name))
			}
		}
	}
	now := window{known: s.now, rv: s.rv, at: s.now}
	for _, track := range s.mhcs {
		mhc := track.at(s.rv)
		if mhc == nil || !s.activity.mayBeActive(now) { // Its status is what it was (spec M4.2).
			continue
		}
		known = known && mhc.DeletionTimestamp == nil && s.activity.surelyActive(now)
		check := newMachineCheck(s.snapshot, mhc)
		for i := range mhc.Status.UnhealthyMachines {
			entry := &mhc.Status.UnhealthyMachines[i]
			if t := check.targets[entry.Name]; t != nil && entry.Decision.Reason == v1alpha1.DecidedBudgetExhausted {
				known = known && t.Node != "" && !t.Failed() // Else the back-off may have been in the way.
				note(slotName(t.Machine), check.waitAfterBudgets(t))
			}
		}
	}
	return sets.List(found), known
}

// leased reports whether there is a lease for a node: that it expires is only noticed a minute later at
// most (spec 14.3).
func (s *budgetCheck) leased(node string) bool {
	for key := range s.leasesOf[node] {
		if s.leases[key].at(s.rv) != nil {
			return true
		}
	}
	return false
}

// waitsForBudget reports whether status says that what a violation is about waits for a budget.
func (d *Deadlines) waitsForBudget(v Violation, now time.Time) bool {
	p := d.snapshotAt(now)
	if nhc := p.nhcs[v.NHC].at(p.rv); nhc != nil {
		return slices.ContainsFunc(nhc.Status.UnhealthyNodes, func(entry v1alpha1.UnhealthyNode) bool {
			return entry.Name == v.Node && entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedBudgetExhausted
		})
	}
	mhc := p.mhcs[strings.TrimPrefix(v.NHC, mhcName(""))].at(p.rv)
	return mhc != nil && slices.ContainsFunc(mhc.Status.UnhealthyMachines, func(entry v1beta1.UnhealthyMachine) bool {
		return machineName(key(mhc.Namespace, entry.Name)) == v.Node && entry.Decision.Reason == v1alpha1.DecidedBudgetExhausted
	})
}
