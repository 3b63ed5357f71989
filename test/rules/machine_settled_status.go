// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// checkStatus compares numbers and conditions of the status with what exists (spec M7.3, M16.1).
func (s *machineCheck) checkStatus() {
	status := &s.mhc.Status
	s.check("M16.1", "", status.ObservedGeneration != s.mhc.Generation, "observedGeneration is %d of %d", status.ObservedGeneration, s.mhc.Generation)
	healthy := len(s.targets) - s.unhealthy
	s.check("M16.1", "", status.ExpectedMachines == nil || *status.ExpectedMachines != len(s.targets), "expectedMachines is %s, not %d", number(status.ExpectedMachines), len(s.targets))
	s.check("M16.1", "", status.CurrentHealthy == nil || *status.CurrentHealthy != healthy, "currentHealthy is %s, not %d", number(status.CurrentHealthy), healthy)
	limit, _ := s.mhc.limit(len(s.targets)) // What is no limit allows none.
	left := 0
	if len(s.targets) > 0 {
		left = max(0, limit-s.unhealthy)
	}
	s.check("M7.3", "", status.RemediationsAllowed == nil || int(*status.RemediationsAllowed) != left, "remediationsAllowed is %s, not %d", valueOf(status.RemediationsAllowed), left)
	s.checkAllowed(s.condition(v1beta1.ConditionRemediationAllowed))
	s.checkOverlap(s.condition(v1beta1.ConditionSelectorOverlap))
	unavailable := s.condition(v1beta1.ConditionTemplateAvailable)
	s.check("M12.1", "", !s.mhc.broken && (unavailable != nil) != (s.mhc.strategy() == byTemplate && s.templateMissing()), "condition ExternalRemediationTemplateAvailable is %v", unavailable)
	stalled := s.condition(v1beta1.ConditionStalled)
	s.check("M16.4", "", (stalled != nil) != (s.mhc.broken || unavailable != nil), "condition Stalled is %v", stalled)
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

func number(n *int) string {
	if n == nil {
		return "absent"
	}
	return fmt.Sprint(*n)
}

func (s *machineCheck) condition(conditionType string) *v1beta1.Condition {
	for i := range s.mhc.Status.Conditions {
		if s.mhc.Status.Conditions[i].Type == conditionType {
			return &s.mhc.Status.Conditions[i]
		}
	}
	return nil
}

// checkAllowed judges condition RemediationAllowed (spec M7.3).
func (s *machineCheck) checkAllowed(condition *v1beta1.Condition) {
	s.check("M7.3", "", condition == nil, "there is no condition RemediationAllowed")
	if condition == nil {
		return
	}
	if s.allowed() {
		plain := condition.Status == "True" && condition.Severity == "" && condition.Reason == "" && condition.Message == ""
		s.check("M7.3", "", !plain, "RemediationAllowed is %v", condition)
		return
	}
	blocked := condition.Status == "False" && condition.Severity == "Warning" && condition.Reason == "TooManyUnhealthy" &&
		strings.Contains(condition.Message, fmt.Sprintf("(total: %d, unhealthy: %d, maxUnhealthy: ", len(s.targets), s.unhealthy))
	if value := s.mhc.Spec.MaxUnhealthy; value != nil && strings.HasSuffix((*intstr.IntOrString)(value).String(), "%") && !s.mhc.broken {
		limit, _ := s.mhc.limit(len(s.targets))
		blocked = blocked && strings.HasSuffix(condition.Message, fmt.Sprintf("of %d allows %d.", len(s.targets), limit))
	}
	s.check("M7.3", "", !blocked, "RemediationAllowed is %v with %d of %d unhealthy", condition, s.unhealthy, len(s.targets))
}

// checkOverlap judges condition SelectorOverlap (spec M7.4).
func (s *machineCheck) checkOverlap(condition *v1beta1.Condition) {
	var names []string
	for _, other := range s.others {
		for _, t := range s.targets {
			if other.Selects(t.Machine) {
				names = append(names, other.Name)
				break
			}
		}
	}
	s.check("M7.4", "", (condition != nil) != (len(names) > 0), "condition SelectorOverlap is %v, others are %v", condition, names)
	for _, name := range names {
		s.check("M7.4", "", condition != nil && !strings.Contains(condition.Message, name), "condition SelectorOverlap does not name %s", name)
	}
}

// checkEntries compares the list of Machines with what exists (spec M16.1, M8.3).
func (s *machineCheck) checkEntries() {
	listed := map[string]bool{}
	for i := range s.mhc.Status.UnhealthyMachines {
		entry := &s.mhc.Status.UnhealthyMachines[i]
		listed[entry.Name] = true
		t := s.targets[entry.Name]
		if t == nil {
			s.check("M16.1", entry.Name, !s.ownLeft(entry.Name) && !s.leaseLeft(entry.Name), "status lists a Machine that is no target")
			continue
		}
		s.check("M16.1", entry.Name, t.state == MachineHealthy && entry.Decision.Reason != v1alpha1.DecidedUpdateFailed, "status lists a healthy Machine: %s", entry.Decision.Reason)
		s.check("M16.1", entry.Name, entry.Node != t.Node, "status says that the Node is %q, it is %q", entry.Node, t.Node)
		s.checkMachineDecision(t, entry)
	}
	for name, t := range s.targets {
		s.check("M8.3", name, t.state != MachineHealthy && !listed[name], "status does not list a Machine that is %s", t.state)
	}
}

// ownLeft reports whether the MachineHealthCheck has a CR for a Machine that it does not select, or
// that is gone.
func (s *machineCheck) ownLeft(name string) bool {
	for key := range s.crsOfMachine[key(s.mhc.Namespace, name)] {
		if cr := s.crs[key].at(s.rv); cr != nil && cr.CheckedBy(s.mhc.Key()) {
			return true
		}
	}
	return false
}

// leaseLeft reports whether the MachineHealthCheck holds the lease of the Node of a Machine whose
// remediation goes on, although it does not select the Machine any more (spec M10.3).
func (s *machineCheck) leaseLeft(name string) bool {
	machine := s.machines[key(s.mhc.Namespace, name)].at(s.rv)
	if machine == nil || (!machine.Deleting && !machine.Has(v1beta1.AnnotationExternalRemediation)) {
		return false
	}
	return s.holdsLease(s.mhc.Key(), machine.Node)
}

// requestFailed are the reasons that say that a request has failed.
var requestFailed = []v1alpha1.DecisionReason{v1alpha1.DecidedCreateFailed, v1alpha1.DecidedDeleteFailed, v1alpha1.DecidedUpdateFailed}

// failures are the reasons whose causes are not followed.
var failures = append(slices.Clone(requestFailed), v1alpha1.DecidedRecovering, v1alpha1.DecidedNextBatch)

// waits are the reasons from the control plane on: a target that waits for one thing is not told that
// another is in the way, too.
var waits = []v1alpha1.DecisionReason{
	v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum, v1alpha1.DecidedBudgetExhausted, v1beta1.DecidedBackOff, v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedLeaseTaken,
}

// checkMachineDecision judges that the decision about a target is true (spec M8.3).
func (s *machineCheck) checkMachineDecision(t *machineTarget, entry *v1beta1.UnhealthyMachine) {
	decision := &entry.Decision
	check := func(broken bool, format string, args ...any) {
		s.check("M8.3", t.Name, broken, "decision %s/%s, %q: "+format, append([]any{decision.Type, decision.Reason, decision.Message}, args...)...)
	}
	check(decision.Message == "", "it has no message")
	check(decision.Type != v1beta1.DecisionType(decision.Reason), "there is no such decision")
	check(decision.Since.IsZero() || decision.Since.After(s.now), "it is since %s", decision.Since.UTC())
	check(decision.NextCheckTime != nil && s.now.After(decision.NextCheckTime.Time), "it was to change and has not")
	if slices.Contains(failures, decision.Reason) {
		return
	}
	want := s.expected(t)
	alike := slices.Contains(waits, decision.Reason) && slices.Contains(waits, want)
	alike = alike || (decision.Reason == v1beta1.DecidedRemediationOverdue && s.mayBeOverdue(t))
	alike = alike || (decision.Reason == v1beta1.DecidedOtherHealthCheck && s.hasFormerCR(t.Machine))
	alike = alike || (decision.Reason == v1alpha1.DecidedGateClosed && s.mayBeBooting(t))
	alike = alike || (decision.Reason == v1alpha1.DecidedClusterUpgrading && s.failedInUpdate(t))
	alike = alike || (want == v1alpha1.DecidedClusterUpgrading && s.mhc.updateMayBeOver(t.Machine, t.node, s.now))
	check(decision.Reason != want && !alike, "it has to be %q", want)
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

// overdueAfter is when a remediation is overdue (spec M12.6).
const overdueAfter = 30 * time.Minute

// mayBeOverdue reports whether a running remediation of a target may have begun long enough ago. It does not check
// which client has requested a deletion, or the age of an annotation.
func (s *machineCheck) mayBeOverdue(t *machineTarget) bool {
	long := func(since time.Time) bool { return !s.now.Before(since.Add(overdueAfter)) }
	switch {
	case t.Deleting:
		return long(t.DeletionRequested)
	case len(t.own) > 0:
		return slices.ContainsFunc(t.own, func(cr *CR) bool { return cr.Deleting && long(cr.DeletedAt) })
	default:
		return t.Has(v1beta1.AnnotationExternalRemediation) && long(t.Created)
	}
}

// expected returns the decision that is due about a target.
func (s *machineCheck) expected(t *machineTarget) v1alpha1.DecisionReason {
	deleting := slices.ContainsFunc(t.own, func(cr *CR) bool { return cr.Deleting })
	switch {
	case t.Deleting:
		return v1beta1.DecidedMachineDeleting
	case t.state == MachineUnhealthy && deleting, t.state == MachineUnderRemediation && len(t.own) > 0:
		return v1alpha1.DecidedAwaitingDeletion
	case t.state == MachineUnhealthy && len(t.own) > 0 && !s.now.Before(t.own[0].Created.Add(overdueAfter)):
		return v1beta1.DecidedRemediationOverdue
	case t.state == MachineUnhealthy && len(t.own) > 0:
		return v1alpha1.DecidedStepRunning
	case t.state == MachineUnhealthy && s.underWay(t), t.state == MachineUnderRemediation:
		return v1beta1.DecidedExternalRemediation
	case t.state == MachineUnhealthy:
		return s.refusal(t)
	case t.state == MachineSoonUnhealthy:
		return v1alpha1.DecidedSoonUnhealthy
	case t.state == MachineNotStarted:
		return v1beta1.DecidedNotStarted
	default:
		return ""
	}
}
