// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestTimesNotStorable: times that others write, and that the API cannot store once a
// duration is added, do not keep status from telling of other nodes (spec 18.2, P1).
func TestTimesNotStorable(t *testing.T) {
	t.Parallel()
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	s := newScenario(t, sharedCluster(t))
	s.createNodes("far", "never", "leased", "usual")
	s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.UnhealthyConditions = append(spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{
			Type: "Disk", Status: corev1.ConditionTrue, Duration: metav1.Duration{Duration: 24 * time.Hour},
		})
	})
	// Listed, because they were unhealthy before.
	for _, name := range []string{"far", "never", "leased"} {
		s.fail(name)
		s.eventuallyCR(name)
	}
	s.patchNodeLeaseSpec("leased", map[string]any{"acquireTime": metav1.NewMicroTime(last)})
	s.setCondition("far", "Disk", corev1.ConditionTrue, last)
	s.setCondition("never", "Disk", corev1.ConditionTrue, time.Time{})
	s.heal("far")
	s.heal("never")
	far := s.eventuallyDecided("far", v1alpha1.DecidedSoonUnhealthy)
	require.Contains(t, far.Message, "its reporter's clock is", "7.2")
	require.WithinRange(t, far.NextCheckTime.Time, s.transition("usual").Add(24*time.Hour), time.Now().Add(24*time.Hour+time.Second))
	require.Contains(t, s.eventuallyDecided("never", v1alpha1.DecidedSoonUnhealthy).Message, "has no lastTransitionTime", "7.2")
	s.eventually("the decision has no next check time", func() bool { return s.entry("leased").Decision.NextCheckTime == nil })
	s.fail("usual")
	s.eventuallyCR("usual")
	s.eventuallyCounts(4, 0)
}
