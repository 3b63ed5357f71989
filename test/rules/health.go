// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Matches reports whether a condition of the node is one of those that make it
// unhealthy in time (spec 7.2, 7.3). A node is healthy if nothing matches.
func Matches(rules []v1alpha1.UnhealthyCondition, node *Node) bool {
	_, matches := deadline(rules, node)
	return matches
}

// NotHealthy reports whether a NodeHealthCheck does not find the node healthy: a condition matches, or the condition
// Ready is missing although a rule is about it (spec 7.6).
func NotHealthy(rules []v1alpha1.UnhealthyCondition, node *Node) bool {
	return Matches(rules, node) || neverReported(rules, node)
}

func neverReported(rules []v1alpha1.UnhealthyCondition, node *Node) bool {
	return slices.ContainsFunc(rules, func(rule v1alpha1.UnhealthyCondition) bool { return rule.Type == corev1.NodeReady }) &&
		!slices.ContainsFunc(node.Conditions, func(condition corev1.NodeCondition) bool { return condition.Type == corev1.NodeReady })
}

// Unhealthy reports whether every process finds the node unhealthy by now.
func Unhealthy(rules []v1alpha1.UnhealthyCondition, node *Node, now time.Time) bool {
	at, matches := deadline(rules, node)
	return matches && !at.latest.After(now)
}

// mayBeUnhealthy reports whether some process finds the node unhealthy by now.
func mayBeUnhealthy(rules []v1alpha1.UnhealthyCondition, node *Node, now time.Time) bool {
	at, matches := deadline(rules, node)
	return matches && !at.earliest.After(now)
}

// never is an instant that does not come.
var never = time.Date(100000, 1, 1, 0, 0, 0, 0, time.UTC)

// deadline returns when the first match has lasted for its duration.
func deadline(rules []v1alpha1.UnhealthyCondition, node *Node) (at span, matches bool) {
	at = span{never, never}
	for _, rule := range rules {
		for i := range node.Conditions {
			condition := &node.Conditions[i]
			if condition.Type == rule.Type && condition.Status == rule.Status {
				at, matches = at.first(node.lasts(condition, rule.Duration.Duration)), true
			}
		}
	}
	return at, matches
}

// share returns the number of nodes that a value stands for (spec 8.2).
func share(value intstr.IntOrString, observed int) int {
	if value.Type == intstr.Int {
		return value.IntValue()
	}
	digits, percent := strings.CutSuffix(value.StrVal, "%")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	if !percent {
		return n
	}
	quotient, rest := n*observed/100, n*observed%100
	if rest > 0 {
		quotient++
	}
	return quotient
}
