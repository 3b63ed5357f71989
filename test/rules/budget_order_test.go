// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestBudgetOrder begins the remediation of node "young" at second 200, while "old" waits for the only place.
func TestBudgetOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		setup func(s *fixture)
		want  []string
	}{
		"B4.1 the other one comes first": {func(*fixture) {}, []string{"B4.1"}},
		"there is a place for both":      {func(s *fixture) { s.budget(past, newBudget(maxConcurrent("2"))) }, nil},
		"another budget refuses it": {func(s *fixture) {
			add(s.budgets, "c", s.next(), past, newBudget(maxConcurrent("0"), selecting("zone", "o")))
		}, nil},
		"another budget refused it until just now": {func(s *fixture) {
			add(s.budgets, "c", s.next(), past, newBudget(maxConcurrent("0"), selecting("zone", "o")))
			add(s.budgets, "c", s.next(), at(199.5), nil)
		}, nil},
		"it has not waited for long": {func(s *fixture) { s.nhc(past, waitingCheck("old", 150)) }, nil},
		"something else has just gone": {func(s *fixture) {
			s.cr(past, newCR("old", "Reboot", "one"))
			s.noCR(at(150), newCR("old", "Reboot", "one"))
		}, nil},
		"it has just recovered": {func(s *fixture) { s.node(at(199.5), newNode("old", "True", at(10))) }, nil},
		"it is under remediation already": {func(s *fixture) {
			s.cr(past, newCR("young", "Reboot", "two"))
		}, nil},
		"the leader is new":    {func(s *fixture) { s.Led(at(190)) }, nil},
		"something went wrong": {func(s *fixture) { s.EndFault(at(150), s.BeginFault(at(140), "test", Tolerance{})) }, nil},
		"it is as old": {func(s *fixture) {
			s.node(past, newNode("young", "False", at(10)))
		}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.node(past, newNode("old", "False", at(10), labelled("zone", "o")))
			s.node(past, newNode("young", "False", at(60)))
			s.nhc(past, waitingCheck("old", 100))
			s.budget(past, newBudget(maxConcurrent("1")))
			tt.setup(s)
			w := window{nhc: "nhc", node: "young", known: at(199), nodeKnown: at(199), rv: s.next(), at: at(200), first: true}
			s.addCR("Reboot ns/young", w.rv, at(200), newCR("young", "Reboot", "one", func(cr *CR) { cr.Process, cr.Created = "test/1", at(200) }))
			require.Empty(t, broke(s.budgetsAllow(w, asker{"young", s.identityOf("young", w)}, request(200), false)))
			require.Equal(t, tt.want, broke(s.inOrder(w, request(200))))
		})
	}
}

// waitingCheck is a NodeHealthCheck by which a node waits for a budget since then.
func waitingCheck(node string, since float64) *NHC {
	return healthCheck(func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: node, Decision: &v1alpha1.Decision{
			Type: v1alpha1.DecisionHeld, Reason: v1alpha1.DecidedBudgetExhausted, Message: "b", Since: metav1.NewTime(at(since)),
		}}}
	})
}
