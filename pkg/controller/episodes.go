// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// observations returns what a sync saw of the nodes and left behind, for the history.
func (w *world) observations(plans []remediation.NodePlan, outcomes []remediation.Outcome, now time.Time) []history.Observation {
	observations := make([]history.Observation, 0, len(plans))
	for i := range plans {
		node := &plans[i].Node
		observation := history.Observation{
			Node:         node.Name,
			State:        node.Verdict.State,
			NodeDeleted:  node.Circumstances.NodeDeleted,
			Selected:     !node.Circumstances.Unselected,
			Deadline:     node.Verdict.Deadline,
			Remediations: remediationsOf(node, &outcomes[i]),
			Failed:       failedCRs(node),
			Fenced:       fenced(node, now),
		}
		if object := w.objects[node.Name]; object != nil {
			observation.Created = object.CreationTimestamp.Time
		}
		if node.Verdict.State != health.Healthy {
			observation.Trigger = &v1alpha1.Trigger{Type: node.Verdict.Type, Status: node.Verdict.Status, Reason: node.Verdict.Reason}
		}
		observations = append(observations, observation)
	}
	return observations
}

// failedCRs returns the own CRs whose remediator reports a failure.
func failedCRs(node *remediation.Node) sets.Set[types.UID] {
	failed := sets.New[types.UID]()
	for _, cr := range node.Own {
		if cr.Succeeded == corev1.ConditionFalse {
			failed.Insert(cr.UID)
		}
	}
	return failed
}

// fenced returns the first instant at which an own CR says that the node was safely
// down, zero if none does.
func fenced(node *remediation.Node, now time.Time) time.Time {
	var first time.Time
	for _, cr := range node.Own {
		if at, down := cr.FencedAt(now); down {
			first = health.Earliest(first, at)
		}
	}
	return first
}
