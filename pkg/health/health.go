// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health decides which nodes are unhealthy, and when to look again. Its gate and
// its storm decide whether too few nodes are healthy, or were until just now, to start a
// remediation. It is pure: it reads only its arguments, keeps no state, and never asks
// for the time.
//
//	           a rule matches              the match has lasted its duration
//	Healthy ──────────────────► SoonUnhealthy ──────────────────► Unhealthy
//	   ▲                              │                               │
//	   └──────────────────────────────┴───────────────────────────────┘
//	                          no rule matches
package health

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// State is the health of one node (spec 7.3).
type State int

const (
	// Healthy means that no rule matches.
	Healthy State = iota
	// SoonUnhealthy means that a rule matches, but none for its duration yet.
	SoonUnhealthy
	// Unhealthy means that a rule has matched for its duration.
	Unhealthy
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Healthy:
		return "Healthy"
	case SoonUnhealthy:
		return "SoonUnhealthy"
	case Unhealthy:
		return "Unhealthy"
	default:
		return "Invalid"
	}
}

// Verdict is the judgement on one node. For a healthy node, all fields except State are
// zero.
type Verdict struct {
	State State
	// Type and Status are those of the condition that expired, or expires, first.
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
	// Reason is the one that the condition gives.
	Reason string
	// Since is since when that condition has had its status, zero if it does not say so. Doubt says
	// why Since is not its lastTransitionTime, empty if it is.
	Since time.Time
	Doubt string
	// Deadline is the instant at which that condition has lasted its duration, and the node
	// becomes, or became, unhealthy. It is zero if the condition has no lastTransitionTime
	// (spec 7.2).
	Deadline time.Time
}

// Judge returns the verdict on a node by this evidence at the instant now. It considers all
// rules and all conditions. Their order only matters for rules with equal deadlines: the verdict
// names the first one.
func Judge(rules []v1alpha1.UnhealthyCondition, evidence Evidence, now time.Time) Verdict {
	var first Verdict
	for i := range rules {
		rule := &rules[i]
		for j := range evidence.Conditions {
			condition := &evidence.Conditions[j]
			if condition.Type != rule.Type || condition.Status != rule.Status {
				continue
			}
			since, doubt := evidence.Since(condition, now)
			var deadline time.Time
			if !since.IsZero() {
				deadline = since.Add(rule.Duration.Duration)
			}
			if first.State != Healthy && (deadline.IsZero() || (!first.Deadline.IsZero() && !deadline.Before(first.Deadline))) {
				continue
			}
			first = Verdict{
				State:    SoonUnhealthy,
				Type:     rule.Type,
				Status:   rule.Status,
				Reason:   condition.Reason,
				Since:    since,
				Doubt:    doubt,
				Deadline: deadline,
			}
		}
	}
	if first.State == SoonUnhealthy && !first.Deadline.IsZero() && !now.Before(first.Deadline) {
		first.State = Unhealthy
	}
	return first
}

// JudgeNode is Judge for a NodeHealthCheck: where a rule is about condition Ready, a Node without it is SoonUnhealthy,
// with no Status and no Deadline (spec 7.6).
func JudgeNode(rules []v1alpha1.UnhealthyCondition, evidence Evidence, now time.Time) Verdict {
	verdict := Judge(rules, evidence, now)
	if verdict.State == Healthy && neverReported(rules, evidence.Conditions) {
		return Verdict{State: SoonUnhealthy, Type: corev1.NodeReady}
	}
	return verdict
}

// NeverReported reports whether the Node is not healthy only because its kubelet has not reported yet.
func (v Verdict) NeverReported() bool {
	return v.State == SoonUnhealthy && v.Type != "" && v.Status == ""
}

// SurelyHealthy reports whether JudgeNode finds a Node with these conditions healthy at any time.
func SurelyHealthy(rules []v1alpha1.UnhealthyCondition, conditions []corev1.NodeCondition) bool {
	return !Matches(rules, conditions) && !neverReported(rules, conditions)
}

func neverReported(rules []v1alpha1.UnhealthyCondition, conditions []corev1.NodeCondition) bool {
	return slices.ContainsFunc(rules, func(rule v1alpha1.UnhealthyCondition) bool { return rule.Type == corev1.NodeReady }) &&
		!slices.ContainsFunc(conditions, func(condition corev1.NodeCondition) bool { return condition.Type == corev1.NodeReady })
}

// Matches reports whether some rule matches some condition, for however long.
func Matches(rules []v1alpha1.UnhealthyCondition, conditions []corev1.NodeCondition) bool {
	for i := range rules {
		for j := range conditions {
			if conditions[j].Type == rules[i].Type && conditions[j].Status == rules[i].Status {
				return true
			}
		}
	}
	return false
}
