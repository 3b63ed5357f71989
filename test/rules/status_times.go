// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// kept judges that conditions have the same time as before as long as they have the same status (spec 6.3). A cooldown
// may have begun anew in between (spec 9.5).
func kept(rule string, before, after []metav1.Condition) (findings []finding) {
	for i := range after {
		condition := &after[i]
		if old := meta.FindStatusCondition(before, condition.Type); old != nil && old.Status == condition.Status && condition.Type != v1alpha1.ConditionStormCooldownActive {
			findings = append(findings, check(rule, !old.LastTransitionTime.Equal(&condition.LastTransitionTime),
				"condition %s is %s since %s, and was so since %s", condition.Type, condition.Status, condition.LastTransitionTime.UTC(), old.LastTransitionTime.UTC()))
		}
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

// judgeTimes judges that times in the status of a NodeHealthCheck stay as long as what they are about.
func (j *Judge) judgeTimes(event Change, before, after *NHC, by *Request) {
	nhc, status := event.Key, &after.Status
	remembers := before.foreign || j.requests.failedLast(nhc, by.Time) // The process knows times that status has not.
	if !remembers {
		j.record("", nhc, kept("6.3", before.Status.Conditions, status.Conditions)...)
	}
	for i := range status.UnhealthyNodes {
		entry := &status.UnhealthyNodes[i]
		old := entryOf(&before.Status, entry.Name)
		if old == nil {
			continue
		}
		if decision := entry.Decision; decision.SameReason(old.Decision) {
			j.record(entry.Name, nhc, check("23b.5", !decision.Since.Equal(&old.Decision.Since), "decision %s is since %s, and was since %s", decision.Reason, decision.Since.UTC(), old.Decision.Since.UTC()))
		}
		if !remembers {
			j.record(entry.Name, nhc, j.healthyTime(event, old, entry, by))
		}
		j.record(entry.Name, nhc, timeoutTimes(old, entry)...)
	}
}

func entryOf(status *v1alpha1.NodeHealthCheckStatus, node string) *v1alpha1.UnhealthyNode {
	if i := slices.IndexFunc(status.UnhealthyNodes, func(entry v1alpha1.UnhealthyNode) bool { return entry.Name == node }); i >= 0 {
		return &status.UnhealthyNodes[i]
	}
	return nil
}

// timeoutTimes judges that a step ends once (spec 13.2).
func timeoutTimes(old, entry *v1alpha1.UnhealthyNode) (findings []finding) {
	for _, remediation := range entry.Remediations {
		i := slices.IndexFunc(old.Remediations, func(r v1alpha1.Remediation) bool { return r.Resource.UID == remediation.Resource.UID })
		if at := remediation.TimedOut; at != nil && i >= 0 && old.Remediations[i].TimedOut != nil {
			findings = append(findings, check("13.2", !at.Equal(old.Remediations[i].TimedOut), "a step has ended at %s, and had at %s", at.UTC(), old.Remediations[i].TimedOut.UTC()))
		}
	}
	return findings
}

// healthyTime judges that a node with CRs is said to be healthy since the same time as long as nothing interrupts it
// (spec 16.4).
func (j *Judge) healthyTime(event Change, old, entry *v1alpha1.UnhealthyNode, by *Request) finding {
	since := entry.ConditionsHealthyTimestamp
	if since == nil || !j.config.Exact || old.ConditionsHealthyTimestamp == nil || since.Equal(old.ConditionsHealthyTimestamp) {
		return finding{rule: "16.4"}
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

// machineTimes judges that times in the status of a MachineHealthCheck stay as long as what they are about (spec M16.1,
// M8.3). While something is wrong, an answer may be lost, and the report with it.
func (j *Judge) machineTimes(before, after *MHC, by *Request) (findings []finding) {
	if j.toleranceAt(by) != j.config.Tolerance {
		return nil
	}
	findings = kept("M16.1", conditionsOf(before), conditionsOf(after))
	for i := range after.Status.UnhealthyMachines {
		entry := &after.Status.UnhealthyMachines[i]
		k := slices.IndexFunc(before.Status.UnhealthyMachines, func(old v1beta1.UnhealthyMachine) bool { return old.Name == entry.Name })
		if k >= 0 && before.Status.UnhealthyMachines[k].Decision.SameReason(&entry.Decision) {
			since := before.Status.UnhealthyMachines[k].Decision.Since
			findings = append(findings, check("M8.3", !since.Equal(&entry.Decision.Since), "decision %s about %s is since %s, and was since %s", entry.Decision.Reason, entry.Name, entry.Decision.Since.UTC(), since.UTC()))
		}
	}
	return findings
}
