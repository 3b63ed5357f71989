// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

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
	s.patch(s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), s.node(name),
		metadataPatch("annotations", map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: value}))
}

func (s *scenario) confirmed(name string) bool {
	s.t.Helper()
	_, confirmed := s.nodeObject(name).Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	return confirmed
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
