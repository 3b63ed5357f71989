// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// evidence judges since when conditions have lasted (spec 7.2). A client that only reads has not followed the Nodes.
// It only knows when they were created, and which times are in the future. The controller has written its further
// knowledge to status.
type evidence struct {
	// told is what status says about nodes, by their names.
	told map[string][]told
	now  time.Time
}

// told is the entry of a node in the status of a NodeHealthCheck.
type told struct {
	nhc   *v1alpha1.NodeHealthCheck
	entry *v1alpha1.UnhealthyNode
}

func newEvidence(snapshot *Snapshot, now time.Time) evidence {
	e := evidence{told: map[string][]told{}, now: now}
	for _, nhc := range snapshot.NodeHealthChecks {
		for i := range nhc.Status.UnhealthyNodes {
			entry := &nhc.Status.UnhealthyNodes[i]
			e.told[entry.Name] = append(e.told[entry.Name], told{nhc, entry})
		}
	}
	return e
}

// of returns the evidence for a Node.
func (e evidence) of(node *corev1.Node) health.Evidence {
	known := health.EvidenceOf(node, nil)
	for _, told := range e.told[node.Name] {
		for i := range known.Conditions {
			condition := &known.Conditions[i]
			since, _ := known.Since(condition, e.now)
			begun, doubt := told.begun(condition, since, e.now)
			if begun.IsZero() || begun.Sub(since).Abs() <= usualSkew {
				continue
			}
			known.Seen = append(known.Seen, health.Sighting{
				Type: condition.Type, Status: condition.Status, Transition: condition.LastTransitionTime.Time, Begun: begun, Doubt: doubt,
			})
		}
	}
	return known
}

const (
	// usualSkew is the difference between times that is not reported.
	usualSkew = 5 * time.Second
	// disbelieved is what is known of a time if the controller does not say more.
	disbelieved = "the controller does not believe its lastTransitionTime"
)

// begun returns since when a condition has lasted by what the controller has written, and why that is not what the
// condition says. It is zero if the controller says nothing about it. Since is what the Node itself says.
func (t told) begun(condition *corev1.NodeCondition, since, now time.Time) (begun time.Time, doubt string) {
	decision, trigger := t.entry.Decision, t.entry.Trigger
	for _, rule := range t.nhc.Spec.UnhealthyConditions {
		if rule.Type != condition.Type || rule.Status != condition.Status || since.IsZero() || decision == nil || t.entry.ConditionsHealthyTimestamp != nil {
			continue
		}
		if decision.Reason == v1alpha1.DecidedSoonUnhealthy {
			message, about := strings.CutPrefix(decision.Message, fmt.Sprintf("Condition %s=%s ", rule.Type, rule.Status))
			if !about || decision.NextCheckTime == nil {
				return time.Time{}, ""
			}
			if _, doubt, _ = strings.Cut(message, ": "); doubt == "" {
				doubt = disbelieved
			}
			return decision.NextCheckTime.Add(-rule.Duration.Duration), doubt
		}
		// What was detected later than the condition says is later by what the controller has seen. What was detected
		// earlier may have been healthy for a moment since, unless it is unhealthy only by what was detected.
		detected := trigger != nil && t.entry.Detected != nil && trigger.Type == rule.Type && trigger.Status == rule.Status
		if detected && (t.entry.Detected.After(since) || now.Before(since.Add(rule.Duration.Duration))) {
			return t.entry.Detected.Time, disbelieved
		}
	}
	return time.Time{}, ""
}
