// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// testMachineBudget: a RemediationBudget admits one Machine, and the next one when the replacement is
// healthy, although by then Machine and Node are gone (spec M8.5, B3.2).
func testMachineBudget(t *testing.T, s *machineScenario) {
	var full atomic.Bool // The provider has no instance left.
	set := s.startMachineSet(3, func(ctx context.Context, machine string) error {
		if full.Load() {
			return nil
		}
		return s.joins(ctx, machine)
	})
	s.createCheck()
	s.eventuallyCounts(3, 3)
	budgets := s.nhc.RemediationV1alpha1().RemediationBudgets()
	budget := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: v1alpha1.RemediationBudgetSpec{
		MachineSelector: &v1alpha1.BudgetMachineSelector{Namespace: s.name}, MaxConcurrent: new(intstr.FromInt32(1)),
	}}
	_, err := budgets.Create(t.Context(), budget, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = budgets.Delete(context.WithoutCancel(t.Context()), s.name, metav1.DeleteOptions{}) })
	number := func(of func(*v1alpha1.RemediationBudgetStatus) *int32) int32 {
		found, err := budgets.Get(t.Context(), s.name, metav1.GetOptions{})
		require.NoError(t, err)
		if n := of(&found.Status); n != nil {
			return *n
		}
		return -1
	}
	observed := func(status *v1alpha1.RemediationBudgetStatus) *int32 { return status.ObservedNodes }
	s.eventually("the budget counts them", func() bool { return number(observed) == 3 })

	full.Store(true)
	s.setReady("m1", corev1.ConditionUnknown)
	s.eventuallyGone("m1")
	s.setReady("m2", corev1.ConditionUnknown)
	entry := s.eventuallyDecided("m2", string(v1alpha1.DecidedBudgetExhausted))
	require.Equal(t, s.name+": 1 of at most 1 Machines are under remediation", entry.Decision.Message, "B5.1")
	s.eventually("the MachineSet has created the replacement", func() bool { return len(set.Created()) == 4 })
	remediating := func(status *v1alpha1.RemediationBudgetStatus) *int32 { return status.RemediatingNodes }
	s.eventually("the Machine that is gone counts", func() bool { return number(remediating) == 1 })
	require.Len(t, s.deleteRequests(""), 1)

	full.Store(false)
	s.join("m4")
	s.eventuallyGone("m2")
	require.Len(t, s.deleteRequests(""), 2, "M10.2")
	s.eventuallyCounts(3, 3)
	s.eventually("all of it has ended", func() bool { return number(remediating) == 0 })
}
