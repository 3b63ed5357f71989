// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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

func healthyDelay(delay time.Duration) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.HealthyDelay = &metav1.Duration{Duration: delay} }
}

// eventuallyDelayed waits until a node is delayed, and returns since when.
func (s *scenario) eventuallyDelayed(name string) time.Time {
	s.t.Helper()
	s.eventually("node "+name+" is delayed", func() bool {
		entry := s.entry(name)
		return entry != nil && entry.HealthyDelayed != nil
	})
	entry := s.entry(name)
	require.True(s.t, *entry.HealthyDelayed, "16.4: true or absent")
	require.NotNil(s.t, entry.ConditionsHealthyTimestamp)
	return entry.ConditionsHealthyTimestamp.Time
}

// confirm confirms by hand that a node is healthy.
func (s *scenario) confirm(name string, value any) {
	s.t.Helper()
	s.annotateNode(name, map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: value})
}

func (s *scenario) nodeObject(name string) *corev1.Node {
	s.t.Helper()
	node, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), s.node(name), metav1.GetOptions{})
	require.NoError(s.t, err)
	return node
}

// setFinalizersOf replaces the finalizers of a CR.
func (s *scenario) setFinalizersOf(cr string, finalizers ...string) {
	s.t.Helper()
	s.patch(s.crClient(), cr, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

// recover heals a node and waits until nothing is left of its remediation.
func (s *scenario) recover(name string, nodes int32) {
	s.t.Helper()
	s.heal(name)
	s.eventuallyNoCR(name)
	s.eventuallyCounts(nodes, nodes)
	s.eventuallyNoneListed()
	s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+s.node(name))
}
