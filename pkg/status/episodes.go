// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Observations yields the observations of the nodes after the actions of the sync, for
// the history.
func (r *Report) Observations(yield func(history.Observation) bool) {
	gone := map[string][]*object.CR{}
	for _, cr := range r.in.Gone {
		gone[cr.Node()] = append(gone[cr.Node()], cr)
	}
	for _, result := range r.in.Results {
		node := result.Plan.Node
		observation := history.Observation{
			Node:         node.Name,
			State:        node.Verdict.State,
			HealthySince: node.HealthySince,
			NodeDeleted:  node.Constraints.NodeDeleted,
			Selected:     !node.Constraints.Unselected,
			Since:        node.Verdict.Since,
			CRs:          historyCRs(result, gone[node.Name], r.in.Now),
			Created:      node.Created,
			WouldBegin:   result.Plan.Candidate && result.Plan.WouldCreate != nil,
		}
		if node.Verdict.State != health.Healthy {
			observation.Trigger = v1alpha1.Trigger{Type: node.Verdict.Type, Status: node.Verdict.Status, Reason: node.Verdict.Reason}
		}
		if !yield(observation) {
			return
		}
	}
}

// historyCRs returns the own CRs of a node for the history: those that status shows after
// the sync, those that only the cache shows, and those that no cache shows any more.
func historyCRs(result remediation.NodeResult, gone []*object.CR, now time.Time) []history.CR {
	var crs []history.CR
	node, outcome := result.Plan.Node, result.Outcome
	shown := RemediationsOf(result)
	for i := range shown {
		crs = append(crs, history.CR{Remediation: shown[i]})
	}
	for _, cr := range node.Own {
		i := slices.IndexFunc(shown, func(entry v1alpha1.Remediation) bool { return entry.Resource.UID == cr.UID })
		if i < 0 {
			// It is being deleted after its Node, or a live request has found it gone: it stays until
			// the watch says so. If it has replaced its Node, nothing more is to come.
			i = len(crs)
			crs = append(crs, history.CR{Remediation: Record(cr, timedOut(node, outcome, cr))})
			say(&crs[i], cr, node.DeletionRequested, now)
			crs[i].Gone = node.Constraints.NodeDeleted && crs[i].Replaced
			continue
		}
		say(&crs[i], cr, node.DeletionRequested, now)
	}
	for _, cr := range gone {
		crs = append(crs, history.CR{Remediation: Record(cr, nil), Gone: true})
		say(&crs[len(crs)-1], cr, node.DeletionRequested, now)
	}
	return crs
}

// say adds the conditions of a CR, and whether the controller has deleted it.
func say(to *history.CR, cr *object.CR, requested map[types.UID]bool, now time.Time) {
	to.Requested = requested[cr.UID]
	to.Failed = cr.Succeeded == corev1.ConditionFalse
	to.Replaced = cr.Succeeded == corev1.ConditionTrue && cr.PermanentNodeDeletionExpected == corev1.ConditionTrue
	if at, fenced := cr.FencedAt(now); fenced {
		to.Fenced = at
	}
}
