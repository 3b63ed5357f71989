// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// machineCheck is what a snapshot means to one MachineHealthCheck.
type machineCheck struct {
	*snapshot
	mhc *MHC
	// targets are by name, and others the other MachineHealthChecks of the namespace.
	targets   map[string]*machineTarget
	others    []*MHC
	unhealthy int
	left      []Violation
}

// machineTarget is a target as it is.
type machineTarget struct {
	*Machine
	node  *Node
	own   []*CR
	state MachineState
}

// targetOf returns a Machine as a MachineHealthCheck sees it.
func (p *snapshot) targetOf(mhc *MHC, machine *Machine) *machineTarget {
	t := &machineTarget{Machine: machine, node: p.nodes[machine.Node].at(p.rv)}
	for _, key := range slices.Sorted(maps.Keys(p.crsOfMachine[machine.Key()])) {
		if cr := p.crs[key].at(p.rv); cr != nil && cr.CheckedBy(mhc.Key()) {
			t.own = append(t.own, cr)
		}
	}
	t.state = mhc.State(machine, t.node, len(t.own) > 0, p.now)
	return t
}

func newMachineCheck(p *snapshot, mhc *MHC) *machineCheck {
	s := &machineCheck{snapshot: p, mhc: mhc, targets: map[string]*machineTarget{}}
	for _, versions := range p.machines {
		machine := versions.at(p.rv)
		if !mhc.Selects(machine) {
			continue
		}
		t := p.targetOf(mhc, machine)
		s.targets[machine.Name] = t
		if t.state != MachineHealthy {
			s.unhealthy++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.mhcs)) {
		if other := p.mhcs[key].at(p.rv); other != nil && other.Namespace == mhc.Namespace && other.Name != mhc.Name && other.DeletionTimestamp == nil {
			s.others = append(s.others, other)
		}
	}
	return s
}

// allowed reports whether the threshold allows remediations (spec M7.1).
func (s *machineCheck) allowed() bool {
	limit, _ := s.mhc.limit(len(s.targets)) // What is no limit allows none.
	return s.unhealthy <= limit
}

func (s *machineCheck) check(rule, machine string, broken bool, format string, args ...any) {
	s.checks[rule]++
	if !broken {
		return
	}
	name := ""
	if machine != "" {
		name = machineName(key(s.mhc.Namespace, machine))
	}
	s.left = append(s.left, Violation{Rule: rule, Node: name, NHC: mhcName(s.mhc.Key()), Text: fmt.Sprintf(format, args...)})
}

// unsettledMachines returns the unsettled states of MachineHealthChecks and their remediations. If
// another controller looks after them, everything counts as settled (spec M4.2).
func (p *snapshot) unsettledMachines() []Violation {
	if !p.activity.activeAt(p.rv, p.now) {
		return nil
	}
	if p.staleCRs() {
		return p.leftCheckLeases()
	}
	var left []Violation
	for _, key := range slices.Sorted(maps.Keys(p.mhcs)) {
		if mhc := p.mhcs[key].at(p.rv); mhc != nil && mhc.DeletionTimestamp == nil {
			left = append(left, newMachineCheck(p, mhc).violations()...)
		}
	}
	left = append(left, p.leftCheckLeases()...)
	return append(left, p.leftMachineCRs()...)
}

func (s *machineCheck) violations() []Violation {
	s.checkKinds()
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		t := s.targets[name]
		standing := slices.ContainsFunc(t.own, func(cr *CR) bool { return !cr.Deleting })
		s.check("M12.5", name, standing && t.state == MachineUnderRemediation, "nothing is wrong with the Machine any more, and its CR stays")
		second := t.Has(v1beta1.AnnotationRemediationStrategy) && !t.Has(v1beta1.AnnotationExternalRemediation)
		s.check("M11.2", name, second && !t.Deleting && s.mhc.strategy() != byAnnotation && !t.paused(), "the second key is left without the first")
		if t.state == MachineUnhealthy {
			s.checkBegun(t)
		}
	}
	return s.left
}

// checkBegun judges that an unhealthy target is under remediation, unless something is in the way
// (spec M8.1, M19.1).
func (s *machineCheck) checkBegun(t *machineTarget) {
	if s.underWay(t) || s.mayBeBooting(t) || s.vanished(t) || s.failedInUpdate(t) || s.hasFormerCR(t.Machine) {
		return
	}
	s.check("M8.1", t.Name, s.refusal(t) == "", "the Machine is unhealthy (%s) and nothing is in the way, but nothing has begun", s.mhc.criterion(t.Machine, t.node, s.now))
}

// mayBeBooting reports whether status says that an unhealthy target has to stay so for its timeout once more, and the
// threshold has not allowed remediations for longer than that (spec M7.6).
func (s *machineCheck) mayBeBooting(t *machineTarget) bool {
	allowed := s.condition(v1beta1.ConditionRemediationAllowed)
	waits := slices.ContainsFunc(s.mhc.Status.UnhealthyMachines, func(entry v1beta1.UnhealthyMachine) bool {
		return entry.Name == t.Name && entry.Decision.Reason == "GateClosed" && entry.Decision.NextCheckTime != nil
	})
	if t.Failed() || !waits || allowed == nil {
		return false
	}
	longest := s.mhc.startup
	for i := range s.mhc.conditions {
		longest = max(longest, s.mhc.conditions[i].Duration.Duration)
	}
	return s.now.Before(allowed.LastTransitionTime.Add(longest + bound))
}

// vanished reports whether status says that the remediation of a target was withdrawn, and when it may be repeated: at
// most half an hour later (spec M12.7).
func (s *machineCheck) vanished(t *machineTarget) bool {
	return slices.ContainsFunc(s.mhc.Status.UnhealthyMachines, func(entry v1beta1.UnhealthyMachine) bool {
		decision, next := &entry.Decision, entry.Decision.NextCheckTime
		return entry.Name == t.Name && decision.Reason == v1alpha1.DecidedVanished && next != nil &&
			s.now.Before(next.Add(bound)) && !next.After(decision.Since.Add(30*time.Minute))
	})
}

// underWay reports whether a target is under remediation.
func (s *machineCheck) underWay(t *machineTarget) bool {
	return t.Deleting || len(t.own) > 0 || (t.Has(v1beta1.AnnotationExternalRemediation) && !t.Failed())
}

// leftCheckLeases returns leases of nodes that a MachineHealthCheck holds for nothing (spec M10.3).
func (p *snapshot) leftCheckLeases() (left []Violation) {
	for _, name := range slices.Sorted(maps.Keys(p.leases)) {
		lease := p.leases[name].at(p.rv)
		holder, held := checkOfHolder(holderOf(lease))
		if !held {
			continue
		}
		p.checks["M10.3"]++
		if node := nodeOfLease(lease); !p.remediatedBy(holder, node) {
			left = append(left, Violation{Rule: "M10.3", Node: node, NHC: mhcName(holder), Text: "a lease is held for nothing"})
		}
	}
	return left
}

// remediatedBy reports whether a MachineHealthCheck may have a remediation under way for a Node. Its CR may name the Node
// of a Machine that is gone.
func (p *snapshot) remediatedBy(check, node string) bool {
	for _, versions := range p.crs {
		if cr := versions.at(p.rv); cr != nil && cr.Node == node && (cr.CheckedBy(check) || slices.Contains(cr.FormerChecks, check)) {
			return true
		}
	}
	for key, versions := range p.machines {
		machine := versions.at(p.rv)
		if machine == nil || machine.Node != node {
			continue
		}
		if machine.Deleting || machine.Has(v1beta1.AnnotationExternalRemediation) {
			return true
		}
		for cr := range p.crsOfMachine[key] {
			if object := p.crs[cr].at(p.rv); object != nil && (object.CheckedBy(check) || slices.Contains(object.FormerChecks, check)) {
				return true
			}
		}
	}
	return false
}

// staleCRs reports whether there is a CR that a process may not know of.
func (p *snapshot) staleCRs() bool {
	for _, versions := range p.crs {
		if cr := versions.at(p.rv); cr != nil && p.stale(cr) {
			return true
		}
	}
	return false
}

// stale reports whether a CR belongs to a MachineHealthCheck that is gone, or whose spec and status do not
// refer to its kind. A process that started later, or was not active then, does not know such a CR.
func (p *snapshot) stale(cr *CR) bool {
	if len(cr.Checks) == 0 {
		return false
	}
	for _, v := range slices.Backward(p.mhcs[cr.Checks[0]]) {
		if v.object != nil && (v.object.refersTo(cr) || v.object.lists(cr)) {
			return false
		}
		lost := v.object == nil && !p.activity.surelyActive(window{known: v.seen, rv: v.rv, at: v.seen})
		if v.rv <= p.rv && (lost || slices.ContainsFunc(p.activity.starts, v.seen.Before)) {
			return true
		}
	}
	return false
}

// snapshotOf is what there was when the controller made a request.
func (j *Judge) snapshotOf(w window) *snapshot {
	return &snapshot{history: j.history, rv: w.rv, now: w.at, checks: j.figures.Checks}
}

// leftMachineCRs returns CRs of Machines or MachineHealthChecks that are gone (spec M12.5, M3.5).
func (p *snapshot) leftMachineCRs() (left []Violation) {
	for _, name := range slices.Sorted(maps.Keys(p.crs)) {
		cr := p.crs[name].at(p.rv)
		if cr == nil || len(cr.Checks) == 0 {
			continue
		}
		p.checks["M12.5"]++
		mhc, machine := p.mhcs[cr.Checks[0]].at(p.rv), p.machines[cr.Machine].at(p.rv)
		text := ""
		switch {
		case cr.Deleting:
		case mhc == nil || mhc.DeletionTimestamp != nil || machine == nil:
			text = cr.String() + " is left"
		case !mhc.Selects(machine) && p.targetOf(mhc, machine).state == MachineUnderRemediation:
			text = "nothing is wrong with the Machine any more, and " + cr.String() + " stays"
		}
		if text != "" {
			left = append(left, Violation{Rule: "M12.5", Node: machineName(cr.Machine), NHC: mhcName(cr.Checks[0]), Text: text})
		}
	}
	return left
}

// checkKinds judges that status lists the kinds of all CRs, so that a later process finds them (spec
// M16.3).
func (s *machineCheck) checkKinds() {
	for _, versions := range s.crs {
		cr := versions.at(s.rv)
		if cr != nil && cr.CheckedBy(s.mhc.Key()) && !s.stale(cr) {
			s.check("M16.3", cr.Name, !s.mhc.lists(cr), "remediationKinds does not list %s", cr.Kind)
		}
	}
}

func (s *machineCheck) condition(conditionType string) *v1beta1.Condition {
	for i := range s.mhc.Status.Conditions {
		if s.mhc.Status.Conditions[i].Type == conditionType {
			return &s.mhc.Status.Conditions[i]
		}
	}
	return nil
}

// failedInUpdate reports whether a Machine has failed whose Node is being updated, so that it may be held for half an
// hour since it was first seen so (spec M9.1).
func (s *machineCheck) failedInUpdate(t *machineTarget) bool {
	type instant struct {
		rv   uint64
		seen time.Time
	}
	var changes []instant // Of one or the other: both together say whether it was selected.
	for _, v := range s.machines[t.Key()] {
		changes = append(changes, instant{v.rv, v.seen})
	}
	for _, v := range s.mhcs[s.mhc.Key()] {
		changes = append(changes, instant{v.rv, v.seen})
	}
	slices.SortFunc(changes, func(a, b instant) int { return cmp.Compare(b.rv, a.rv) })
	since := s.now
	for _, change := range changes {
		if change.rv > s.rv {
			continue
		}
		machine, mhc := s.machines[t.Key()].at(change.rv), s.mhcs[s.mhc.Key()].at(change.rv)
		if machine == nil || machine.UID != t.UID || !machine.Failed() || mhc == nil || mhc.UID != s.mhc.UID || !mhc.Selects(machine) {
			break
		}
		since = change.seen
	}
	// Where another controller looked after it, this one saw it later.
	begin := window{known: s.now.Add(-longestUpdate - bound), rv: s.rv, at: s.now}
	lately := s.now.Before(since.Add(longestUpdate+bound)) || !s.activity.surelyActive(begin)
	return t.Failed() && t.node != nil && t.node.Updates() && !s.mhc.forTermination() && lately
}
