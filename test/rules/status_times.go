// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// reportTime is how long a report may wait until it is written (spec 18.2, B5.2).
const reportTime = time.Second

// dated judges that a time in status, which a write has set, is that of the look that it reports. Requests that
// fail are repeated with the times of former looks.
func (j *Judge) dated(rule, what string, at time.Time, by *Request) finding {
	tolerance := j.toleranceAt(by)
	if j.config.WithoutTimes || !j.config.Exact || tolerance != j.config.Tolerance {
		return finding{rule: rule}
	}
	earliest := by.Time.Add(-tolerance.Sync - tolerance.Cache - reportTime - rounding)
	return check(rule, at.Before(earliest) || at.After(by.Time), "%s is %s, and was written at %s", what, at.UTC().Format(time.TimeOnly), by.Time.UTC().Format(time.TimeOnly))
}

// transitions judges the times of conditions after a write of the status: they move with the status of the condition
// alone, and then to the present (spec 6.3).
func (j *Judge) transitions(rule string, before, after []metav1.Condition, by *Request) (findings []finding) {
	for i := range after {
		condition := &after[i]
		old := meta.FindStatusCondition(before, condition.Type)
		if old == nil || old.Status != condition.Status {
			findings = append(findings, j.dated(rule, "the transition of condition "+condition.Type, condition.LastTransitionTime.Time, by))
			continue
		}
		findings = append(findings, check(rule, !old.LastTransitionTime.Equal(&condition.LastTransitionTime),
			"condition %s is %s since %s, and was so since %s", condition.Type, condition.Status, condition.LastTransitionTime.UTC(), old.LastTransitionTime.UTC()))
	}
	return findings
}

// conditionsOf returns the conditions of a MachineHealthCheck in the form of the others.
func conditionsOf(mhc *MHC) (conditions []metav1.Condition) {
	for _, c := range mhc.Status.Conditions {
		conditions = append(conditions, metav1.Condition{Type: c.Type, Status: metav1.ConditionStatus(c.Status), LastTransitionTime: c.LastTransitionTime})
	}
	return conditions
}

// judgeTimes judges the times that a write of the status of a NodeHealthCheck has set.
func (j *Judge) judgeTimes(event Change, before, after *NHC, by *Request) {
	nhc, status := event.Key, &after.Status
	remembers := before.foreign || j.requests.failedLast(nhc, by.Time) // The process knows times that status has not.
	if !remembers && !j.config.WithoutTimes {
		j.record("", nhc, j.transitions("6.3", j.formerConditions(event, before, after, by), status.Conditions, by)...)
	}
	if status.LastUpdateTime != nil {
		j.record("", nhc, j.dated("18.2", "lastUpdateTime", status.LastUpdateTime.Time, by))
	}
	if start := status.StormRecoveryStartTime; start != nil && !remembers && !j.config.WithoutTimes && !start.Equal(before.Status.StormRecoveryStartTime) {
		active := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStormActive)
		j.record("", nhc, check("9.9", active == nil || !active.LastTransitionTime.Equal(start), "stormRecoveryStartTime is %s, and condition StormActive is %v", start.UTC(), active))
	}
	for i := range status.UnhealthyNodes {
		entry := &status.UnhealthyNodes[i]
		old := entryOf(&before.Status, entry.Name)
		if old == nil {
			old = &v1alpha1.UnhealthyNode{}
		}
		j.record(entry.Name, nhc, j.decisionTime(remembers, old, entry, by))
		if j.config.WithoutTimes {
			continue
		}
		if !remembers {
			j.record(entry.Name, nhc, j.healthyTime(event, old, entry, by))
		}
		j.record(entry.Name, nhc, j.timeoutTimes(event, old, entry, by)...)
	}
}

// formerConditions returns the conditions of the status before, without a cooldown that has begun anew: calm may have been
// lost for a moment that status has not shown (spec 9.5).
func (j *Judge) formerConditions(event Change, before, after *NHC, by *Request) []metav1.Condition {
	old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionStormCooldownActive)
	cooling := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionStormCooldownActive)
	if old == nil || cooling == nil || old.Status != metav1.ConditionTrue || old.LastTransitionTime.Equal(&cooling.LastTransitionTime) {
		return before.Status.Conditions
	}
	w := j.windowOf(event, by, event.Key, "")
	w.known = j.nhcs[event.Key].seenBefore(event.ResourceVersion).Add(w.known.Sub(by.Time))
	if all(j.nhcs[event.Key].during(w.known, w.rv), func(nhc *NHC) bool { return nhc != nil && j.countsBy(nhc, w).SurelyCalm(&nhc.Spec) }) {
		return before.Status.Conditions
	}
	return slices.DeleteFunc(slices.Clone(before.Status.Conditions), func(c metav1.Condition) bool { return c.Type == cooling.Type })
}

func entryOf(status *v1alpha1.NodeHealthCheckStatus, node string) *v1alpha1.UnhealthyNode {
	if i := slices.IndexFunc(status.UnhealthyNodes, func(entry v1alpha1.UnhealthyNode) bool { return entry.Name == node }); i >= 0 {
		return &status.UnhealthyNodes[i]
	}
	return nil
}

// decisionTime judges since when something is decided about a node, which stays as long as that does (spec 23b.5).
func (j *Judge) decisionTime(remembers bool, old, entry *v1alpha1.UnhealthyNode, by *Request) finding {
	switch decision := entry.Decision; {
	case decision.SameReason(old.Decision):
		return check("23b.5", !decision.Since.Equal(&old.Decision.Since), "decision %s is since %s, and was since %s", decision.Reason, decision.Since.UTC(), old.Decision.Since.UTC())
	case decision == nil || remembers:
		return finding{rule: "23b.5"}
	default:
		return j.dated("23b.5", "decision "+string(decision.Reason)+" is since", decision.Since.Time, by)
	}
}

// timeoutTimes judges when steps are said to have ended: once, and when the CR says so if it does (spec 13.2, 13.5).
func (j *Judge) timeoutTimes(event Change, old, entry *v1alpha1.UnhealthyNode, by *Request) (findings []finding) {
	for _, remediation := range entry.Remediations {
		i := slices.IndexFunc(old.Remediations, func(r v1alpha1.Remediation) bool { return r.Resource.UID == remediation.Resource.UID })
		switch at := remediation.TimedOut; {
		case at == nil:
		case i >= 0 && old.Remediations[i].TimedOut != nil:
			findings = append(findings, check("13.2", !at.Equal(old.Remediations[i].TimedOut), "a step has ended at %s, and had at %s", at.UTC(), old.Remediations[i].TimedOut.UTC()))
		case !j.markedAt(event, entry.Name, &remediation, by):
			findings = append(findings, j.dated("13.5", "the end of a step", at.Time, by))
		}
	}
	return findings
}

// markedAt reports whether the CR may have said that it was over at the time that status has.
func (j *Judge) markedAt(event Change, node string, remediation *v1alpha1.Remediation, by *Request) bool {
	w := j.windowOf(event, by, event.Key, node)
	for key := range j.crsOf[node] {
		if some(j.crs[key].during(w.known, w.rv), func(cr *CR) bool {
			if cr == nil || cr.UID != remediation.Resource.UID {
				return false
			}
			at, err := time.Parse(time.RFC3339, cr.TimedOut)
			return err == nil && at.Truncate(time.Second).Equal(remediation.TimedOut.Time)
		}) {
			return true
		}
	}
	return false
}

// healthyTime judges since when a node with CRs is said to be healthy: since it was first seen so, and that stays as long
// as nothing interrupts it (spec 16.4).
func (j *Judge) healthyTime(event Change, old, entry *v1alpha1.UnhealthyNode, by *Request) finding {
	since := entry.ConditionsHealthyTimestamp
	switch {
	case since == nil, !j.config.Exact:
		return finding{rule: "16.4"}
	case old.ConditionsHealthyTimestamp == nil:
		return j.dated("16.4", "conditionsHealthyTimestamp", since.Time, by)
	case since.Equal(old.ConditionsHealthyTimestamp):
		return check("16.4", since.After(by.Time), "conditionsHealthyTimestamp is %s", since.UTC())
	}
	return check("16.4", !j.mayBeInterrupted(event, entry.Name, by),
		"conditionsHealthyTimestamp is %s, was %s, and the node was healthy meanwhile", since.UTC(), old.ConditionsHealthyTimestamp.UTC())
}

// mayBeInterrupted reports whether a process may have taken a node that it had seen healthy for another, or not
// healthy, since the status was written before.
func (j *Judge) mayBeInterrupted(event Change, name string, by *Request) bool {
	written := j.nhcs[event.Key].seenBefore(event.ResourceVersion)
	tolerance := j.toleranceAt(&Request{Time: written, UserAgent: by.UserAgent})
	if tolerance != j.config.Tolerance || j.toleranceAt(by) != tolerance || j.ledSince(written) {
		return true
	}
	from := written.Add(-tolerance.Sync - tolerance.Cache)
	checks := j.nhcs[event.Key].during(from, event.ResourceVersion)
	sick := func(node *Node) bool {
		return node == nil || some(checks, func(nhc *NHC) bool { return nhc == nil || NotHealthy(nhc.Spec.UnhealthyConditions, node) })
	}
	versions := j.nodes[name].during(from, event.ResourceVersion)
	for len(versions) > 1 && sick(versions[len(versions)-1]) {
		versions = versions[:len(versions)-1] // Then it has recovered.
	}
	first := versions[len(versions)-1]
	return some(versions, func(node *Node) bool { return sick(node) || !sameConditions(node, first) })
}

// sameConditions reports whether two versions are of one Node, with the same conditions since the same times.
func sameConditions(a, b *Node) bool {
	return a.UID == b.UID && slices.EqualFunc(a.Conditions, b.Conditions, func(a, b corev1.NodeCondition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
	})
}

// budgetTimes judges the times that a write of the status of a budget has set.
func (j *Judge) budgetTimes(event Change, before, after *Budget, by *Request) []finding {
	if j.config.WithoutTimes {
		return nil
	}
	findings := j.transitions("B5.2", before.Status.Conditions, after.Status.Conditions, by)
	for i := range after.Status.Groups {
		group, old := &after.Status.Groups[i], &nhcv1alpha1.BudgetGroup{}
		if i := slices.IndexFunc(before.Status.Groups, func(g nhcv1alpha1.BudgetGroup) bool { return g.Name == group.Name }); i >= 0 {
			old = &before.Status.Groups[i]
		}
		if since := group.WithinSince; since != nil && !since.Equal(old.WithinSince) {
			findings = append(findings, j.dated("B3.6", "withinSince of group "+group.Name, since.Time, by))
			findings = append(findings, check("B3.6", old.WithinSince != nil && !j.mayHaveExceeded(event, before, after, group.Name, by),
				"withinSince of group %q is %s, was %v, and it has not exceeded maxUnhealthy meanwhile", group.Name, since.UTC(), old.WithinSince))
		}
		if started := group.LastStarted; started != nil && !started.Equal(old.LastStarted) {
			findings = append(findings, check("B3.4", !j.somethingBegan(started.Time, by), "lastStarted of group %q is %s, and nothing began then", group.Name, started.UTC()))
		}
	}
	return findings
}

// mayHaveExceeded reports whether a group may have exceeded maxUnhealthy since the status was written before.
func (j *Judge) mayHaveExceeded(event Change, before, after *Budget, group string, by *Request) bool {
	w := j.windowOf(event, by, "", "")
	w.known = j.budgets[event.Key].seenBefore(event.ResourceVersion).Add(w.known.Sub(by.Time))
	sameBefore := before.Status.ObservedGeneration == after.Status.ObservedGeneration
	return !j.config.Exact || !sameBefore || after.invalid || after.Spec.MaxUnhealthy == nil || j.ledSince(w.known) || j.exceeds(after, group, w, "").maybe
}

// somethingBegan reports whether the controller may know a remediation that began in a second (spec B3.4). A
// remediation may have begun although its request failed. The controller reads the answer after the API server has
// sent it. In a real cluster, the referee may see status before it sees the beginning.
func (j *Judge) somethingBegan(at time.Time, by *Request) bool {
	if !j.config.Exact {
		return true
	}
	if j.toleranceAt(by) != j.config.Tolerance || j.toleranceAt(&Request{Time: at, UserAgent: by.UserAgent}) != j.config.Tolerance {
		return true
	}
	if slices.ContainsFunc(j.begun, func(one begun) bool {
		return !at.Before(one.at.Add(-rounding)) && !at.After(one.answered.Add(rounding))
	}) {
		return true
	}
	for _, track := range j.crs {
		if some(track.during(time.Time{}, j.last), func(cr *CR) bool { return cr != nil && cr.Created.Equal(at) }) {
			return true
		}
	}
	for _, track := range j.machines {
		if some(track.during(time.Time{}, j.last), func(machine *Machine) bool { return machine != nil && machine.DeletionRequested.Equal(at) }) {
			return true
		}
	}
	return false
}

// machineTimes judges the times that a write of the status of a MachineHealthCheck has set (spec M16.1, M8.3).
func (j *Judge) machineTimes(before, after *MHC, by *Request) (findings []finding) {
	if !j.config.WithoutTimes || j.toleranceAt(by) == j.config.Tolerance {
		findings = j.transitions("M16.1", conditionsOf(before), conditionsOf(after), by)
	}
	for i := range after.Status.UnhealthyMachines {
		entry := &after.Status.UnhealthyMachines[i]
		k := slices.IndexFunc(before.Status.UnhealthyMachines, func(old v1beta1.UnhealthyMachine) bool { return old.Name == entry.Name })
		same := k >= 0 && before.Status.UnhealthyMachines[k].Decision.SameReason(&entry.Decision)
		switch {
		case same && j.toleranceAt(by) == j.config.Tolerance: // Otherwise an answer may have been lost, and the report with it.
			since := before.Status.UnhealthyMachines[k].Decision.Since
			findings = append(findings, check("M8.3", !since.Equal(&entry.Decision.Since), "decision %s about %s is since %s, and was since %s", entry.Decision.Reason, entry.Name, entry.Decision.Since.UTC(), since.UTC()))
		case !same && !before.foreign:
			findings = append(findings, j.dated("M8.3", "decision "+string(entry.Decision.Reason)+" is since", entry.Decision.Since.Time, by))
		}
	}
	return findings
}
