// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediationbudget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
)

// shownCRs are health checks of which a cache shows CRs, by node.
type shownCRs struct{ started map[string]time.Time }

func (s shownCRs) Observe(node string) budget.Observation {
	started, is := s.started[node]
	return budget.Observation{Remediating: is, Started: started}
}

func (shownCRs) Wake([]string) {}

func (shownCRs) SyncAll() {}

// TestReservedNodesAreObserved: a cache may show the CR that a health check has created before its
// handler is called. Who looks again by that cache loses no place (spec B3.2).
func TestReservedNodesAreObserved(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 7, 12, 0, 0, 0, time.UTC)
	crs := shownCRs{started: map[string]time.Time{}}
	c := &Controller{
		Config: Config{Nodes: informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Nodes(), Clock: clocktesting.NewFakePassiveClock(now)},
		counts: budget.NewCounts(), changes: sets.New[string](), allChanged: true, healthChecks: map[string]budget.HealthChecks{v1alpha1.Kind: crs},
	}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, c.Nodes.Informer().GetIndexer().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	one := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: v1alpha1.RemediationBudgetSpec{
		NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(1)),
	}}
	c.counts.SetBudget(budget.Parse(one), nil)
	x, y := budget.Claimant{Kind: v1alpha1.Kind, Name: "x"}, budget.Claimant{Kind: v1alpha1.Kind, Name: "y"}
	require.Empty(t, c.admit(x, []budget.Candidate{{Node: "a", Since: now, Begins: true}}))
	c.counts.End(x, "a", budget.Begun, now)
	crs.started["a"] = now
	require.Empty(t, c.admit(x, nil), "it looks before NodeChanged is called")
	refusals := c.admit(y, []budget.Candidate{{Node: "b", Since: now, Begins: true}})
	require.Contains(t, refusals, "b")
	require.Equal(t, "one: 1 of at most 1 nodes are under remediation", refusals["b"].Message)
}
