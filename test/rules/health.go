// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Matches reports whether a condition of the node is one of those that make it
// unhealthy in time, and Unhealthy whether it has lasted for long enough by now (spec
// 7.2, 7.3). A node is healthy if nothing matches.
func Matches(rules []v1alpha1.UnhealthyCondition, node *Node) bool {
	_, matches := deadline(rules, node)
	return matches
}

// Unhealthy reports whether the node is unhealthy by now.
func Unhealthy(rules []v1alpha1.UnhealthyCondition, node *Node, now time.Time) bool {
	first, matches := deadline(rules, node)
	return matches && !first.After(now)
}

// never is an instant that does not come.
var never = time.Date(100000, 1, 1, 0, 0, 0, 0, time.UTC)

// deadline returns when the first match has lasted for its duration.
func deadline(rules []v1alpha1.UnhealthyCondition, node *Node) (first time.Time, matches bool) {
	for _, rule := range rules {
		for _, condition := range node.Conditions {
			if condition.Type != rule.Type || condition.Status != rule.Status {
				continue
			}
			expiry := never // Without a transition it is not known for how long it has lasted.
			if since := condition.LastTransitionTime.Time; !since.IsZero() {
				if since.Before(node.Created) {
					since = node.Created // Nothing lasts for longer than the Node.
				}
				expiry = since.Add(rule.Duration.Duration)
			}
			if !matches || expiry.Before(first) {
				first, matches = expiry, true
			}
		}
	}
	return first, matches
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
