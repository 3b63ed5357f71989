// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// createBudget creates a RemediationBudget with the name of the scenario for its nodes, and waits
// until it was evaluated.
func (s *scenario) createBudget(change ...func(*nhcv1alpha1.RemediationBudgetSpec)) {
	s.t.Helper()
	budget := &nhcv1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec:       nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}},
	}
	for _, c := range change {
		c(&budget.Spec)
	}
	budgets := s.nhc.NHCV1alpha1().RemediationBudgets()
	_, err := budgets.Create(s.t.Context(), budget, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.atEnd = append(s.atEnd, func(ctx context.Context) { _ = budgets.Delete(ctx, s.name, metav1.DeleteOptions{}) })
	s.eventually("the budget was evaluated", func() bool { return len(s.budget().Status.Conditions) > 0 })
}

func (s *scenario) budget() *nhcv1alpha1.RemediationBudget {
	s.t.Helper()
	budget, err := s.nhc.NHCV1alpha1().RemediationBudgets().Get(s.t.Context(), s.name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return budget
}

// updateBudget changes the spec of the budget.
func (s *scenario) updateBudget(change func(*nhcv1alpha1.RemediationBudgetSpec)) {
	s.t.Helper()
	s.eventually("the budget can be updated", func() bool {
		budget := s.budget()
		change(&budget.Spec)
		_, err := s.nhc.NHCV1alpha1().RemediationBudgets().Update(s.t.Context(), budget, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false
		}
		require.NoError(s.t, err)
		return true
	})
}

// eventuallyHeldByBudget waits until a node waits for a budget, with this message.
func (s *scenario) eventuallyHeldByBudget(node, message string) {
	s.t.Helper()
	s.eventually("node "+node+" is held: "+message, func() bool {
		entry := s.entry(node)
		return entry != nil && entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedBudgetExhausted && entry.Decision.Message == message
	})
	require.Nil(s.t, s.cr(node))
}

// eventuallyBudget waits until the status of the budget has these numbers: observed, unhealthy and
// remediating nodes, and allowed remediations.
func (s *scenario) eventuallyBudget(numbers ...int32) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("budget %v", numbers), func() bool {
		status := s.budget().Status
		var found []int32
		for _, n := range []*int32{status.ObservedNodes, status.NotHealthyNodes, status.RemediatingNodes, status.RemediationsAllowed} {
			if n != nil {
				found = append(found, *n)
			}
		}
		return slices.Equal(numbers, found)
	})
}

func (s *scenario) budgetCondition(conditionType string) metav1.Condition {
	s.t.Helper()
	condition := meta.FindStatusCondition(s.budget().Status.Conditions, conditionType)
	require.NotNil(s.t, condition)
	return *condition
}

// eventuallyBudgetEvent waits until there is an event with this reason and note about the budget.
func (s *scenario) eventuallyBudgetEvent(reason, note string) {
	s.t.Helper()
	about := fields.Set{"regarding.kind": nhcv1alpha1.BudgetKind, "regarding.name": s.name, "reason": reason}
	s.eventually("event "+reason+": "+note, func() bool {
		list, err := s.kube.EventsV1().Events(metav1.NamespaceDefault).List(s.t.Context(), metav1.ListOptions{FieldSelector: about.String()})
		require.NoError(s.t, err)
		return len(list.Items) == 1 && list.Items[0].Note == note && list.Items[0].ReportingController == "RemediationBudget"
	})
}

func maxConcurrent(n int) func(*nhcv1alpha1.RemediationBudgetSpec) {
	return func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.MaxConcurrent = new(intstr.FromInt(n)) }
}

// TestBudgetKindGoes: without the kind there are no budgets (spec B1.4).
func TestBudgetKindGoes(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startController(t, "budgets", "--leader-elect=false")
	s := newScenario(t, c)
	s.createNodes("a", "b")
	s.createNHC()
	s.createBudget(maxConcurrent(1))
	s.fail("a")
	s.eventuallyCR("a")
	s.fail("b")
	s.eventuallyHeldByBudget("b", s.name+": 1 of at most 1 nodes are under remediation")
	_, err := s.Kubectl(t.Context(), "delete", "crd", nhcv1alpha1.BudgetPlural+"."+nhcv1alpha1.GroupName)
	require.NoError(t, err)
	s.eventuallyCR("b")
}

// TestBudget: what a RemediationBudget keeps from beginning, and what it says (spec B).
func TestBudget(t *testing.T) {
	t.Parallel()
	t.Run("B3.2-maxConcurrent", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a", "b", "c")
		s.createNHC()
		s.createBudget(maxConcurrent(1), func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.Reason = "Storage rebuilds slowly." })
		s.eventuallyBudget(3, 0, 0, 1)
		s.fail("a")
		s.eventuallyCR("a")
		s.eventuallyBudget(3, 1, 1, 0)
		require.Equal(t, nhcv1alpha1.ReasonBudgetAvailable, s.budgetCondition(nhcv1alpha1.ConditionBudgetExhausted).Reason, "B5.2: no node waits yet")
		s.fail("b")
		s.eventuallyHeldByBudget("b", s.name+": 1 of at most 1 nodes are under remediation. Storage rebuilds slowly.")
		s.eventuallyBudgetEvent(nhcv1alpha1.ReasonBudgetExhausted, "1 node waits: "+s.node("b"))
		s.fail("c")
		s.eventuallyHeldByBudget("c", s.name+": 1 of at most 1 nodes are under remediation. Storage rebuilds slowly.")
		s.eventuallyBudget(3, 3, 1, 0)
		s.eventually("both are named", func() bool {
			return s.budgetCondition(nhcv1alpha1.ConditionBudgetExhausted).Message == fmt.Sprintf("2 nodes wait: %s, %s", s.node("b"), s.node("c"))
		})
		s.heal("a")
		s.eventuallyCR("b") // B4.1: it has been unhealthy for longer than c.
		require.Nil(t, s.cr("c"), "B3.2")
		s.heal("c") // B4.2: what waits may go by itself.
		s.eventuallyBudgetEvent(nhcv1alpha1.ReasonBudgetAvailable, "No node waits for the budget")
		s.heal("b")
		s.eventuallyBudget(3, 0, 0, 1)
	})
}
