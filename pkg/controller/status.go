// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcac "github.com/nhc-controller/nhc-controller/pkg/generated/applyconfiguration/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// maxUnhealthyNodes is the number of entries that the API accepts.
const maxUnhealthyNodes = 5000

// newStatus computes the whole status from what was observed and done (spec 18).
// It is pure, and the status of an unchanged world is the old one.
func newStatus(nhc *v1alpha1.NodeHealthCheck, w *world, plans []remediation.NodePlan, outcomes []remediation.Outcome, now time.Time) *v1alpha1.NodeHealthCheckStatus {
	old := &nhc.Status
	status := &v1alpha1.NodeHealthCheckStatus{
		ObservedGeneration: nhc.Generation,
		ObservedNodes:      new(int32(w.fleet.Observed)),
		HealthyNodes:       new(int32(w.fleet.Healthy)),
		Conditions:         disabledCondition(nhc, w, now),
		LastUpdateTime:     old.LastUpdateTime,
	}
	recorded := make(map[string]*v1alpha1.UnhealthyNode, len(old.UnhealthyNodes))
	for i := range old.UnhealthyNodes {
		recorded[old.UnhealthyNodes[i].Name] = &old.UnhealthyNodes[i]
	}
	remediating := 0
	for i := range plans {
		entry := newEntry(&plans[i], &outcomes[i], recorded[plans[i].Node.Name], now)
		if entry == nil {
			continue
		}
		if len(entry.Remediations) > 0 {
			remediating++
		}
		status.UnhealthyNodes = append(status.UnhealthyNodes, *entry)
	}
	status.UnhealthyNodes = limitEntries(status.UnhealthyNodes, maxUnhealthyNodes)
	status.RemediatingNodes = new(int32(remediating))
	status.Phase, status.Reason = phaseOf(nhc, status.Conditions, remediating)
	if !equality.Semantic.DeepEqual(old, status) {
		status.LastUpdateTime = new(seconds(now))
	}
	return status
}

// seconds returns an instant as the API stores it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// disabledCondition returns the conditions: the one that there is. As long as
// nothing is known of the templates it stays as it was.
func disabledCondition(nhc *v1alpha1.NodeHealthCheck, w *world, now time.Time) []metav1.Condition {
	var conditions []metav1.Condition
	if old := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionDisabled); old != nil {
		conditions = append(conditions, *old)
	}
	if w.findings.problem == nil && w.findings.unknown {
		return conditions
	}
	condition := metav1.Condition{
		Type:               v1alpha1.ConditionDisabled,
		Status:             metav1.ConditionFalse,
		Reason:             v1alpha1.ReasonEnabled,
		Message:            v1alpha1.MessageEnabled,
		ObservedGeneration: nhc.Generation,
		LastTransitionTime: seconds(now),
	}
	if w.findings.problem != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, w.findings.problem.Reason, w.findings.problem.Message
	}
	meta.SetStatusCondition(&conditions, condition)
	return conditions
}

// newEntry returns the entry of a node, or nil if it is not listed (spec 18.4).
func newEntry(plan *remediation.NodePlan, outcome *remediation.Outcome, old *v1alpha1.UnhealthyNode, now time.Time) *v1alpha1.UnhealthyNode {
	node := &plan.Node
	remediations := remediationsOf(node, outcome)
	entry := &v1alpha1.UnhealthyNode{Name: node.Name, Remediations: remediations[:min(len(remediations), maxRemediations)]}
	unhealthy := node.Verdict.State == health.Unhealthy && !node.Circumstances.Unselected
	lingering := node.Verdict.State == health.SoonUnhealthy && !node.Circumstances.Unselected && old != nil
	if len(entry.Remediations) == 0 && !unhealthy && !lingering {
		return nil
	}
	if node.Verdict.State == health.Healthy && !node.Circumstances.NodeDeleted {
		entry.ConditionsHealthyTimestamp = new(seconds(now))
		if old != nil && old.ConditionsHealthyTimestamp != nil {
			entry.ConditionsHealthyTimestamp = old.ConditionsHealthyTimestamp
		}
		if plan.Delayed {
			entry.HealthyDelayed = new(true)
		}
	}
	return entry
}

// remediationsOf returns the CRs that exist for a node after the plan was carried
// out. Those of a deleted Node count only until their deletion was requested (spec
// 17.2, 17.4).
func remediationsOf(node *remediation.Node, outcome *remediation.Outcome) []v1alpha1.Remediation {
	gone := map[types.UID]bool{}
	for _, cr := range outcome.Gone {
		gone[cr.UID] = true
	}
	if node.Circumstances.NodeDeleted {
		for _, cr := range outcome.Deleted {
			gone[cr.UID] = true
		}
	}
	var remediations []v1alpha1.Remediation
	for _, cr := range node.Own {
		ending := node.Circumstances.NodeDeleted && (cr.Deleting() || node.DeletionRequested[cr.UID])
		if !gone[cr.UID] && !ending {
			remediations = append(remediations, record(cr, timedOut(node, outcome, cr)))
		}
	}
	remediations = append(remediations, node.Unreadable...)
	if created := outcome.Created; created != nil {
		remediations = append(remediations, record(created, nil))
	}
	return remediations
}

// maxRemediations is the number of remediations that the API accepts in an entry.
const maxRemediations = 32

// timedOut returns when the step of a CR ended without success: now, or as status
// says, or else as the CR says, which is how status is rebuilt.
func timedOut(node *remediation.Node, outcome *remediation.Outcome, cr *remediation.CR) *metav1.Time {
	for i := range node.Recorded {
		if known := &node.Recorded[i]; known.Resource.UID == cr.UID && known.TimedOut != nil {
			return known.TimedOut
		}
	}
	if at, ended := outcome.TimedOut[cr.UID]; ended {
		return new(seconds(at))
	}
	if at, marked := cr.TimedOutAt(); marked && !cr.Deleting() {
		return new(seconds(at))
	}
	return nil
}

func record(cr *remediation.CR, timedOut *metav1.Time) v1alpha1.Remediation {
	entry := v1alpha1.Remediation{Resource: cr.Reference(), Started: cr.CreationTimestamp, TimedOut: timedOut}
	entry.TemplateName, _ = cr.Template()
	return entry
}

// limitEntries sorts the entries by name and keeps at most limit of them, and no
// more than an object can hold, those with remediations first (spec 18.6).
func limitEntries(entries []v1alpha1.UnhealthyNode, limit int) []v1alpha1.UnhealthyNode {
	byName := func(a, b v1alpha1.UnhealthyNode) int { return strings.Compare(a.Name, b.Name) }
	if len(entries) > limit || entriesSize(entries) > maxEntriesSize {
		slices.SortFunc(entries, func(a, b v1alpha1.UnhealthyNode) int {
			return cmp.Or(min(len(b.Remediations), 1)-min(len(a.Remediations), 1), byName(a, b))
		})
		entries = entries[:min(len(entries), limit)]
		size := 0
		for i := range entries {
			if size += entrySize(&entries[i]); size > maxEntriesSize {
				entries = entries[:i]
				break
			}
		}
	}
	slices.SortFunc(entries, byName)
	return entries
}

// maxEntriesSize is how many bytes the entries may take in the stored object, of the
// 1.5 MiB that etcd accepts by default.
const maxEntriesSize = 1_200_000

func entriesSize(entries []v1alpha1.UnhealthyNode) int {
	size := 0
	for i := range entries {
		size += entrySize(&entries[i])
	}
	return size
}

// entrySize returns about how many bytes an entry takes, rather too many than too
// few: its JSON, and its part of the managed fields, which repeat the name.
func entrySize(entry *v1alpha1.UnhealthyNode) int {
	const fields, timestamps, remediationFields = 120, 80, 210
	size := fields + 2*len(entry.Name)
	if entry.ConditionsHealthyTimestamp != nil {
		size += timestamps
	}
	for i := range entry.Remediations {
		cr := &entry.Remediations[i]
		size += remediationFields + len(cr.TemplateName) +
			len(cr.Resource.APIVersion) + len(cr.Resource.Kind) + len(cr.Resource.Namespace) + len(cr.Resource.Name) + len(cr.Resource.UID)
	}
	return size
}

// phaseOf returns the phase and its reason (spec 18.1).
func phaseOf(nhc *v1alpha1.NodeHealthCheck, conditions []metav1.Condition, remediating int) (v1alpha1.Phase, string) {
	disabled := meta.FindStatusCondition(conditions, v1alpha1.ConditionDisabled)
	switch {
	case disabled != nil && disabled.Status == metav1.ConditionTrue:
		return v1alpha1.PhaseDisabled, fmt.Sprintf("NHC is disabled: %s: %s", disabled.Reason, disabled.Message)
	case len(nhc.Spec.PauseRequests) > 0:
		return v1alpha1.PhasePaused, "NHC is paused: " + strings.Join(nhc.Spec.PauseRequests, ",")
	case remediating > 0:
		return v1alpha1.PhaseRemediating, fmt.Sprintf("NHC is remediating %d nodes", remediating)
	default:
		return v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
	}
}

// writeStatus writes the status if it differs from what nhc already says, bound to
// the resourceVersion that it was computed from.
func (c *Controller) writeStatus(ctx context.Context, nhc *v1alpha1.NodeHealthCheck, status *v1alpha1.NodeHealthCheckStatus) error {
	if equality.Semantic.DeepEqual(&nhc.Status, status) {
		return nil
	}
	ac, err := statusApplyConfiguration(status)
	if err != nil {
		return err
	}
	written, err := c.client.NodeHealthChecks().ApplyStatus(ctx,
		nhcac.NodeHealthCheck(nhc.Name).WithResourceVersion(nhc.ResourceVersion).WithStatus(ac),
		metav1.ApplyOptions{FieldManager: Name, Force: true})
	switch {
	case apierrors.IsInvalid(err):
		// Applied to a list of which somebody else has written a part, a list without
		// entries becomes null, which the schema refuses.
		written = nhc.DeepCopy()
	case err != nil:
		return fmt.Errorf("applying status: %w", err)
	default:
		c.writes.Wrote(nhc.Name, nhcResource, written.ResourceVersion)
	}
	if equality.Semantic.DeepEqual(&written.Status, status) {
		return nil
	}
	// Applying leaves alone what somebody else has written: the operator that was
	// here before, for example. All of the status is ours, so this is replaced.
	written.Status = *status
	replaced, err := c.client.NodeHealthChecks().UpdateStatus(ctx, written, metav1.UpdateOptions{FieldManager: Name})
	if err != nil {
		return fmt.Errorf("replacing status: %w", err)
	}
	c.writes.Wrote(nhc.Name, nhcResource, replaced.ResourceVersion)
	return nil
}

// statusApplyConfiguration returns all of a status: what an apply leaves out is
// removed. Both types have the same JSON form, so no field can be forgotten.
func statusApplyConfiguration(status *v1alpha1.NodeHealthCheckStatus) (*nhcac.NodeHealthCheckStatusApplyConfiguration, error) {
	encoded, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding status: %w", err)
	}
	ac := nhcac.NodeHealthCheckStatus()
	if err := json.Unmarshal(encoded, ac); err != nil {
		return nil, fmt.Errorf("decoding status: %w", err)
	}
	return ac, nil
}
