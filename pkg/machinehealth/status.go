// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Entries are the decisions about targets, by the names of the Machines.
type Entries map[string]*v1beta1.UnhealthyMachine

// EntriesOf returns the entries that status lists.
func EntriesOf(status *v1beta1.MachineHealthCheckStatus) Entries {
	entries := make(Entries, len(status.UnhealthyMachines))
	for i := range status.UnhealthyMachines {
		entries[status.UnhealthyMachines[i].Name] = &status.UnhealthyMachines[i]
	}
	return entries
}

// NewEntries returns the decisions about the targets. before are the entries of the last sync: an
// unchanged decision keeps its times.
func (p *Policy) NewEntries(results []TargetResult, before Entries, now time.Time) Entries {
	entries := Entries{}
	for _, result := range results {
		decision := p.Decision(result)
		if decision.Reason == "" {
			continue
		}
		target := result.Plan.Target
		entry := &v1beta1.UnhealthyMachine{Name: target.Machine.Name, Node: target.Machine.Node, Decision: decision}
		old := before[entry.Name]
		setTrigger(entry, &target.Verdict, old, now)
		entry.Decision.Since = whole(now)
		if old != nil && old.Decision.SameReason(&entry.Decision) {
			entry.Decision.Since = old.Decision.Since
		}
		entries[entry.Name] = entry
	}
	return entries
}

// setTrigger sets what makes the Machine unhealthy, or did at the beginning of a
// remediation.
func setTrigger(entry *v1beta1.UnhealthyMachine, verdict *Verdict, old *v1beta1.UnhealthyMachine, now time.Time) {
	matches := verdict.State == Unhealthy || (verdict.State == SoonUnhealthy && verdict.Type != "")
	switch {
	case matches:
		entry.Trigger = &v1beta1.MachineTrigger{Type: verdict.Type, Status: verdict.Status, Reason: verdict.Trigger}
		if verdict.Trigger == "" {
			entry.Trigger.Reason = v1beta1.TriggerUnhealthyCondition
		}
		detected := whole(now)
		if old != nil && old.Trigger != nil && *old.Trigger == *entry.Trigger && old.Detected != nil {
			detected = *old.Detected // Another process may have seen more: clocks of nodes may be wrong (spec 7.2).
		} else if !verdict.Since.IsZero() {
			detected = whole(verdict.Since)
		}
		entry.Detected = &detected
	case old != nil && (verdict.State == Deleting || verdict.State == UnderRemediation || verdict.State == SoonUnhealthy):
		// The old trigger may still hold, also while a live read of the Node has no answer.
		entry.Trigger, entry.Detected = old.Trigger, old.Detected
	}
}

// whole returns an instant as status has it.
func whole(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// StatusInput is the input of a status.
type StatusInput struct {
	Check   *v1beta1.MachineHealthCheck
	Entries Entries
	History []v1beta1.Remediation
	// Kinds are the kinds that may have CRs, in any order.
	Kinds []schema.GroupVersionKind
	// Overlaps are the other MachineHealthChecks that select the same Machines.
	Overlaps []string
	Now      time.Time
}

// NewStatus returns the status of a MachineHealthCheck (spec M16.1, M7.3, M12.1).
func (p *Policy) NewStatus(in *StatusInput) v1beta1.MachineHealthCheckStatus {
	allowed := int32(min(p.Summary.RemediationsAllowed(), maxInt32))
	status := v1beta1.MachineHealthCheckStatus{
		ExpectedMachines: &p.Summary.Expected, CurrentHealthy: &p.Summary.Healthy, RemediationsAllowed: &allowed,
		ObservedGeneration: in.Check.Generation, RemediationHistory: Listed(in.History),
		UnhealthyMachines: listed(in.Entries),
	}
	if p.Summary.Ignored > 0 {
		status.IgnoredMachines = &p.Summary.Ignored
	}
	for _, kind := range in.Kinds {
		status.RemediationKinds = append(status.RemediationKinds, v1beta1.RemediationKind{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind})
	}
	slices.SortFunc(status.RemediationKinds, func(a, b v1beta1.RemediationKind) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	for _, condition := range p.conditions(in) {
		status.Conditions = append(status.Conditions, in.dated(condition))
	}
	return status
}

// dated returns a condition with its lastTransitionTime.
func (in *StatusInput) dated(condition v1beta1.Condition) v1beta1.Condition {
	condition.LastTransitionTime = whole(in.Now)
	for i := range in.Check.Status.Conditions {
		if old := &in.Check.Status.Conditions[i]; old.Type == condition.Type && old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	return condition
}

const maxInt32 = 1<<31 - 1

// conditions returns the conditions without their times. RemediationAllowed is always set, the others
// only while something is wrong.
func (p *Policy) conditions(in *StatusInput) []v1beta1.Condition {
	allowed := v1beta1.Condition{Type: v1beta1.ConditionRemediationAllowed, Status: corev1.ConditionTrue}
	switch {
	case p.Unavailable != nil:
		allowed = *p.Unavailable
	case !p.Summary.Allowed():
		allowed = v1beta1.Condition{
			Type: v1beta1.ConditionRemediationAllowed, Status: corev1.ConditionFalse, Severity: v1beta1.SeverityWarning,
			Reason: v1beta1.ReasonTooManyUnhealthy, Message: p.Summary.Explain(),
		}
	}
	conditions := []v1beta1.Condition{allowed}
	fail := func(conditionType, reason, message string) {
		conditions = append(conditions, v1beta1.Condition{
			Type: conditionType, Status: corev1.ConditionFalse, Severity: v1beta1.SeverityError, Reason: reason, Message: message,
		})
	}
	if p.Criteria.Strategy == Template && p.Template == nil && p.TemplateProblem != "" {
		fail(v1beta1.ConditionTemplateAvailable, v1beta1.ReasonTemplateNotFound, p.TemplateProblem)
	}
	if message := refusedCreation(in.Entries); message != "" {
		fail(v1beta1.ConditionRequestAvailable, v1beta1.ReasonRequestCreationFailed, message)
	}
	if len(in.Overlaps) > 0 {
		conditions = append(conditions, v1beta1.Condition{
			Type: v1beta1.ConditionSelectorOverlap, Status: corev1.ConditionTrue, Reason: v1beta1.ReasonOverlap,
			Message: "Machines are also selected by " + strings.Join(in.Overlaps, ", "),
		})
	}
	if stalled := p.stalled(); stalled != nil {
		conditions = append(conditions, *stalled)
	}
	return conditions
}

// stalled is set while nothing begins until you correct something (spec M16.4).
func (p *Policy) stalled() *v1beta1.Condition {
	switch {
	case p.Unavailable != nil:
		return stalledBy(p.Unavailable)
	case p.Criteria.Problem != "":
		return newStalled(string(v1alpha1.DecidedInvalidSpec), p.Criteria.Problem)
	case p.Criteria.Strategy == Template && p.Template == nil && p.TemplateProblem != "":
		return newStalled(v1beta1.ReasonTemplateNotFound, p.TemplateProblem)
	}
	return nil
}

func newStalled(reason, message string) *v1beta1.Condition {
	return &v1beta1.Condition{Type: v1beta1.ConditionStalled, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

// refusedCreation returns why a remediation object could not be created, for the first Machine by
// name.
func refusedCreation(entries Entries) string {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if decision := &entries[name].Decision; decision.Reason == v1alpha1.DecidedCreateFailed {
			return decision.Message
		}
	}
	return ""
}

// listed returns the entries that status has room for: remediations first, then by name.
func listed(entries Entries) []v1beta1.UnhealthyMachine {
	all := make([]v1beta1.UnhealthyMachine, 0, len(entries))
	for _, entry := range entries {
		all = append(all, *entry)
	}
	rank := func(entry *v1beta1.UnhealthyMachine) int {
		if entry.Decision.Type == v1alpha1.DecisionRemediating || entry.Decision.Type == v1alpha1.DecisionExhausted {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b v1beta1.UnhealthyMachine) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Name, b.Name))
	})
	return fitting(all[:min(len(all), v1beta1.MaxUnhealthyMachines)])
}

const (
	// maxListSize is how many bytes the entries may take in the stored object. etcd accepts 1.5 MiB
	// by default; with the history and the rest it stays below 1 MiB.
	maxListSize = 780_000
	// alwaysFit is how many entries fit, whatever their content is.
	alwaysFit = 150
)

// fitting returns the entries that an object can hold. It leaves out texts that repeat for many
// Machines before it leaves out a Machine.
func fitting(entries []v1beta1.UnhealthyMachine) []v1beta1.UnhealthyMachine {
	if len(entries) <= alwaysFit || object.Fitting(entries, maxListSize) == len(entries) {
		return entries
	}
	for i := range entries {
		entries[i].Decision.Message = ""
	}
	return entries[:object.Fitting(entries, maxListSize)]
}

// describe returns <namespace>/<name>/<Machine>/<Node>, as events name a target (spec M1.4).
func (p *Policy) describe(target *Target) string {
	return fmt.Sprintf("%s/%s/%s/%s", p.Owner.Namespace, p.Owner.Name, target.Machine.Name, target.Machine.Node)
}
