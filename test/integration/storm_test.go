// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// condition returns a condition of the NodeHealthCheck, the zero value if there is none.
func (s *scenario) condition(conditionType string) metav1.Condition {
	if found := meta.FindStatusCondition(s.status().Conditions, conditionType); found != nil {
		return *found
	}
	return metav1.Condition{}
}

func (s *scenario) eventuallyCondition(conditionType string, status metav1.ConditionStatus) metav1.Condition {
	s.t.Helper()
	s.eventually(fmt.Sprintf("condition %s=%s", conditionType, status), func() bool { return s.condition(conditionType).Status == status })
	return s.condition(conditionType)
}

// eventuallyDecided waits until the decision on a node has a reason, and returns it.
func (s *scenario) eventuallyDecided(name string, reason v1alpha1.DecisionReason) *v1alpha1.Decision {
	s.t.Helper()
	var decision *v1alpha1.Decision
	s.eventually("the decision "+string(reason)+" on node "+name, func() bool {
		entry := s.entry(name)
		if entry == nil || entry.Decision == nil || entry.Decision.Reason != reason {
			return false
		}
		decision = entry.Decision
		return true
	})
	return decision
}
