// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestFormerKinds: an own CR is not forgotten when its kind is that of a former template and no status names it any
// more, neither by the process that created it nor by the next one (spec 6.8).
func TestFormerKinds(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	controller := c.startController(t, "before", shortLease...)
	s := newScenario(t, c)
	another := newRepairScenario(t, c, "")
	another.installAll()
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	s.setFinalizers("a", hold)
	s.deleteNode("a")
	ofNewKind := func() int {
		list, err := another.resource(another.kind.remediations).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(list.Items)
	}
	leftover := func() bool {
		condition := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionLeftoverRemediations)
		return condition != nil && condition.Status == metav1.ConditionTrue
	}
	s.eventually("its end waits for a finalizer", leftover)
	s.updateNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = another.templateReference() })
	requireKept := func() {
		t.Helper()
		s.fail("b") // Something else to do.
		s.eventually("a CR of the new kind", func() bool { return ofNewKind() == 1 })
		s.heal("b")
		s.eventually("no CR of the new kind", func() bool { return ofNewKind() == 0 })
		require.True(t, leftover(), "6.8: the CR of the former kind is known")
	}
	requireKept()

	controller.Stop()
	c.startController(t, "after", shortLease...)
	c.eventuallyLeader(t, "after")
	requireKept()

	s.createNodes("a")
	s.fail("a")
	s.eventuallyDecided("a", v1alpha1.DecidedAwaitingDeletion)
	require.Zero(t, ofNewKind(), "P9: no second remediator on the same host")
	s.setFinalizers("a")
	s.eventually("then the new one begins", func() bool { return ofNewKind() == 1 })
	s.heal("a")
}

// TestFormerKindBeforeTheFirstStatus: admission denies every status, and then the spec gets another kind. The CR that was
// created in between is known from the caches (spec 6.8).
func TestFormerKindBeforeTheFirstStatus(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startController(t, "controller", shortLease...)
	s, another := newScenario(t, c), newRepairScenario(t, c, " another")
	another.installAll()
	s.createNodes("a", "b", "c")
	s.createNHC()
	allow := s.denyStatus()
	s.fail("a")
	s.eventually("a CR, which no status names", func() bool { return s.cr("a") != nil })
	nhc := s.get()
	require.Empty(t, nhc.Status.UnhealthyNodes)
	nhc.Spec.RemediationTemplate = another.templateReference()
	_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Update(t.Context(), nhc, metav1.UpdateOptions{})
	require.NoError(t, err)
	allow()
	s.eventuallyDecided("a", v1alpha1.DecidedStepRunning) // "A remediation object that belongs to no step is still running".
	list, err := another.resource(another.kind.remediations).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items, "P9: no second remediator on the same host")
	s.heal("a")
	s.eventuallyNoCR("a")
}

// TestFormerKindOfADeletedCheck: a NodeHealthCheck is deleted while a remediation runs, whose CR waits for its finalizer, and
// created again with another kind: the former CR is still its own (spec 6.8).
func TestFormerKindOfADeletedCheck(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	s, another := newScenario(t, c), newRepairScenario(t, c, " another")
	another.installAll()
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	s.setFinalizers("a", hold)
	s.deleteNHC()
	nhc := s.spec(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = another.templateReference() })
	_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), nhc, metav1.CreateOptions{})
	require.NoError(t, err)
	s.eventuallyDecided("a", v1alpha1.DecidedAwaitingDeletion)
	list, err := another.resource(another.kind.remediations).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items, "P9: no second remediator on the same host")
	s.setFinalizers("a")
	s.eventually("then the new one begins", func() bool {
		list, err := another.resource(another.kind.remediations).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(list.Items) == 1
	})
	s.heal("a")
}
