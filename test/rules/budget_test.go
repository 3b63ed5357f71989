// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// TestBudgets begins the remediation of node "n" at second 100, by what is known since second 97. Node "m" is under
// remediation, and "o" is healthy.
func TestBudgets(t *testing.T) {
	t.Parallel()

	concurrent := func(limit string) func(*nhcv1alpha1.RemediationBudgetSpec) {
		return func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.MaxConcurrent = new(intstr.Parse(limit)) }
	}
	notHealthy := func(limit string) func(*nhcv1alpha1.RemediationBudgetSpec) {
		return func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.MaxUnhealthy = new(intstr.Parse(limit)) }
	}
	for name, tc := range map[string]struct {
		spec  func(*nhcv1alpha1.RemediationBudgetSpec)
		since time.Time
		want  []string
	}{
		"B3.2 one is at work":       {concurrent("1"), past, []string{"B3.2"}},
		"B3.2 none may be":          {concurrent("0"), past, []string{"B3.2"}},
		"B3.2 two may be":           {concurrent("2"), past, nil},
		"B3.2 two thirds":           {concurrent("67%"), past, nil},
		"B3.3 both are not healthy": {notHealthy("1"), past, []string{"B3.3"}},
		"B3.3 two of three may be":  {notHealthy("60%"), past, nil},
		"B4.2 it was just written":  {concurrent("1"), at(99), nil},
		"B2.1 it need not apply now": {func(spec *nhcv1alpha1.RemediationBudgetSpec) {
			concurrent("1")(spec)
			spec.ActiveDuring = make([]nhcv1alpha1.BudgetSchedule, 1)
		}, past, nil},
		"B3.1 another group": {func(spec *nhcv1alpha1.RemediationBudgetSpec) { concurrent("1")(spec); spec.TopologyKey = "zone" }, past, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.node(past, failedNode("n", labelled("zone", "a")))
			s.node(past, failedNode("m", labelled("zone", "b")))
			s.node(past, healthyNode("o"))
			s.cr(past, newCR("m", "Reboot", "one"))
			budget := &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}}}
			tc.spec(&budget.Spec)
			add(s.budgets, "b", s.next(), tc.since, newBudget(budget))
			w := window{nhc: "nhc", node: "n", known: at(97), nodeKnown: at(99), rv: s.next(), at: at(100), first: true}
			require.Equal(t, tc.want, broke(s.budgetsAllow(w)))
		})
	}
}
