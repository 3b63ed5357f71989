// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// newEntries returns the entries of all nodes for status (spec 18.4), in the order of the
// plans.
func (r *Report) newEntries() []v1alpha1.UnhealthyNode {
	entries := make([]v1alpha1.UnhealthyNode, 0, len(r.in.Results))
	before := Finder{Entries: r.in.Before.Entries}
	for i, result := range r.in.Results {
		entry, listed := newEntry(result, r.in.Listed[i], r.in.Now)
		if !listed {
			continue
		}
		if episode := r.Ledger.Episode(entry.Name); episode != nil {
			entry.Trigger, entry.Detected = episode.Trigger, &episode.Detected
		}
		entry.Decision = dateDecision(r.in.Policy.Decision(result.Plan, result.Outcome), r.in.Listed[i], before.Decision(entry.Name), r.in.Now)
		entries = append(entries, entry)
	}
	return entries
}

// dateDecision returns a decision with the time since when it has been the same, nil if there is
// no decision. If status has the node, it uses the time of status, because a write may have
// succeeded although its answer was lost. Otherwise it uses that of the last report. It returns
// the decision of that report itself if it equals the new one.
func dateDecision(decision v1alpha1.Decision, old *v1alpha1.UnhealthyNode, remembered *v1alpha1.Decision, now time.Time) *v1alpha1.Decision {
	switch {
	case decision.Reason == "":
		return nil
	case old != nil && decision.SameReason(old.Decision):
		decision.Since = old.Decision.Since
	case decision.SameReason(remembered):
		decision.Since = remembered.Since
	default:
		decision.Since = seconds(now)
	}
	if sameDecision(&decision, remembered) {
		return remembered
	}
	changed := decision // Allocated only here.
	return &changed
}

// Finder finds the entries of nodes among Entries, which are in order of name. It is fastest
// if the nodes are asked for in that order, too.
type Finder struct {
	Entries []v1alpha1.UnhealthyNode
	next    int
}

// Entry returns the entry of a node, nil if there is none.
func (f *Finder) Entry(node string) *v1alpha1.UnhealthyNode {
	if f.next >= len(f.Entries) || f.Entries[f.next].Name != node {
		i, found := slices.BinarySearchFunc(f.Entries, node, func(entry v1alpha1.UnhealthyNode, name string) int { return strings.Compare(entry.Name, name) })
		if f.next = i; !found {
			return nil
		}
	}
	f.next++
	return &f.Entries[f.next-1]
}

// Decision returns the decision about a node, nil if there is none.
func (f *Finder) Decision(node string) *v1alpha1.Decision {
	if entry := f.Entry(node); entry != nil {
		return entry.Decision
	}
	return nil
}

// newEntry returns the entry of a node, and whether it is listed (spec 18.4).
func newEntry(result remediation.NodeResult, old *v1alpha1.UnhealthyNode, now time.Time) (entry v1alpha1.UnhealthyNode, listed bool) {
	node := result.Plan.Node
	remediations := RemediationsOf(result)
	entry = v1alpha1.UnhealthyNode{Name: node.Name, Remediations: remediations[:min(len(remediations), maxRemediations)]}
	unhealthy := node.Verdict.State == health.Unhealthy && !node.Constraints.Unselected
	lingering := node.Verdict.State == health.SoonUnhealthy && !node.Constraints.Unselected && (old != nil || node.Verdict.NeverReported())
	if len(entry.Remediations) == 0 && !unhealthy && !lingering {
		return entry, false
	}
	if node.Verdict.State == health.Healthy && !node.Constraints.NodeDeleted {
		entry.ConditionsHealthyTimestamp = new(seconds(now))
		if !node.HealthySince.IsZero() {
			entry.ConditionsHealthyTimestamp = new(metav1.NewTime(node.HealthySince))
		}
		if result.Plan.Delayed {
			entry.HealthyDelayed = new(true)
		}
	}
	return entry, true
}

// RemediationsOf returns the CRs that exist for a node after the plan was carried out.
// CRs of a deleted Node only count until their deletion was requested (spec 17.2, 17.4).
func RemediationsOf(result remediation.NodeResult) []v1alpha1.Remediation {
	node, outcome := result.Plan.Node, result.Outcome
	gone := map[types.UID]bool{}
	for _, cr := range outcome.Gone {
		gone[cr.UID] = true
	}
	if node.Constraints.NodeDeleted {
		for _, cr := range outcome.Deleted {
			gone[cr.UID] = true
		}
	}
	var remediations []v1alpha1.Remediation
	for _, cr := range node.Own {
		ending := node.Constraints.NodeDeleted && (cr.Deleting() || node.DeletionRequested[cr.UID])
		if !gone[cr.UID] && !ending {
			remediations = append(remediations, Record(cr, timedOut(node, outcome, cr)))
		}
	}
	remediations = append(remediations, node.Unreadable...)
	if created := outcome.NewCR(); created != nil {
		remediations = append(remediations, Record(created, nil))
	}
	return remediations
}

// maxRemediations is the number of remediations that the API accepts in an entry.
const maxRemediations = 32

// timedOut returns when the step of a CR ended without success: now, or the time in
// status, or else the time in the CR, from which status can be rebuilt.
func timedOut(node *remediation.Node, outcome *remediation.Outcome, cr *object.CR) *metav1.Time {
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

// Record returns the entry of a CR. timedOut is when it timed out, nil if it did not.
func Record(cr *object.CR, timedOut *metav1.Time) v1alpha1.Remediation {
	entry := v1alpha1.Remediation{Resource: cr.Reference(), Started: cr.CreationTimestamp, TimedOut: timedOut}
	entry.TemplateName, _ = cr.Template()
	return entry
}
