// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// newControlPlaneScenario returns a scenario for one NodeHealthCheck with a kind of
// CRs, in a cluster whose slot is free.
func newControlPlaneScenario(t *testing.T, c *cluster, key string, kind remediationKind) *scenario {
	t.Helper()
	s := newEmptyScenario(t, c, t.Name()+"/"+key, kind)
	s.createTemplate(usualTemplate())
	s.atEnd = append(s.atEnd, s.dropCRs)
	return s
}

// createControlPlane creates control plane nodes.
func (s *scenario) createControlPlane(names ...string) {
	s.t.Helper()
	s.createNodes(names...)
	for _, name := range names {
		s.labelNode(name, map[string]any{controlPlaneRole: ""})
	}
}

func (s *scenario) slotRefused(name string) string {
	return "Skipping remediation of " + s.node(name) + " for preventing control plane / etcd quorum loss, going to retry in a minute"
}

// requireNoSlot requires that a control plane node waits for the slot, which was
// told of once.
func (s *scenario) requireNoSlot(name string) {
	s.t.Helper()
	s.eventuallyEvent("RemediationSkipped", s.slotRefused(name))
	s.eventually("the event about the node", func() bool { return len(s.eventsAbout("Node", s.node(name), "RemediationSkipped")) > 0 })
	s.eventually("node "+name+" is listed", func() bool { return s.entry(name) != nil })
	s.catchUp()
	require.Empty(s.t, s.entry(name).Remediations, "12.2")
	require.Nil(s.t, s.cr(name), "12.2")
	require.Nil(s.t, s.nodeLease(name), "5.4: the lease comes after the slot")
	require.Equal(s.t, []string{s.slotRefused(name)}, s.events("RemediationSkipped"), "19.1: once")
	require.Equal(s.t, []string{s.slotRefused(name)}, s.eventsAbout("Node", s.node(name), "RemediationSkipped"), "19.1: once")
}

// TestControlPlane: at most one control plane node is under remediation, in the whole
// cluster (spec 12). So these tests have a cluster of their own, one after the other.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	newEmptyScenario(t, c, t.Name(), powerCycle).installRungs()
	c.startController(t, "control-plane", "--leader-elect=false")

	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"12.2-two-NodeHealthChecks-with-two-kinds", testSlotOfTwoKinds},
		{"12.2-two-nodes-of-one-NodeHealthCheck", testSlotInTurn},
		{"12.1-label-control-plane", func(t *testing.T, c *cluster) { testControlPlaneLabel(t, c, controlPlaneRole) }},
		{"12.1-label-master", func(t *testing.T, c *cluster) { testControlPlaneLabel(t, c, "node-role.kubernetes.io/master") }},
		{"12.1-label-controlplane", func(t *testing.T, c *cluster) { testControlPlaneLabel(t, c, "node-role.kubernetes.io/controlplane") }},
		{"12.1-two-members-of-etcd-fail (FR-319)", testEtcdMembers},
		{"5.6-a-dry-run-loses-the-slot", testSlotOfADryRun},
		{"12.5-quorum", testQuorum},
		{"12.2-foreign-with-label", testSlotOfLabelledCR},
		{"12.2-foreign-for-a-control-plane-node", testSlotOfForeignCR},
		{"12.2-kind-without-a-reference", testSlotOfUnknownKind},
		{"12.2-becomes-a-control-plane-node", testSlotOfPromotedNode},
		{"12.2-next-steps", testSlotAcrossSteps},
		{"12.2-current-CR-vanishes", testSlotAfterDeletion},
		{"12.4-waiting-node-recovers", testSlotNotNeeded},
		{"12.2-node-whose-lease-is-taken", testSlotWithoutLease},
		{"P1-creation-denied-of-another-NodeHealthCheck", func(t *testing.T, c *cluster) { testSlotAfterDenial(t, c, false) }},
		{"P1-creation-denied-of-the-same-NodeHealthCheck", func(t *testing.T, c *cluster) { testSlotAfterDenial(t, c, true) }},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c) })
	}
}

// testSlotOfTwoKinds: one slot for two NodeHealthChecks, until the CR is gone.
func testSlotOfTwoKinds(t *testing.T, c *cluster) {
	one, two := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", powerCycle)
	for _, s := range []*scenario{one, two} {
		s.createControlPlane("cp")
		s.createNHC()
	}
	one.fail("cp")
	two.fail("cp")
	var first, second *scenario
	patience.Eventually(t, "one of the two is remediated", func() bool {
		first, second = one, two
		if two.cr("cp") != nil {
			first, second = two, one
		}
		return first.cr("cp") != nil
	})
	cr := first.eventuallyCR("cp")
	require.Equal(t, map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf, v1alpha1.LabelControlPlane: ""}, cr.GetLabels(), "11.1")
	second.requireNoSlot("cp")
	require.Empty(t, first.events("RemediationSkipped"), "12.4: never for the node that has the slot")

	// As long as its CR exists, it has the slot.
	first.setFinalizers("cp", rungFinalizer)
	first.heal("cp")
	first.eventuallyDeleting("cp")
	second.requireNoSlot("cp")
	first.setFinalizers("cp")
	second.eventuallyCR("cp")
	require.Nil(t, first.cr("cp"))
	require.Len(t, second.crRequests("create", "cp"), 1)
	require.Equal(t, []string{second.slotRefused("cp")}, second.events("RemediationSkipped"))
}

// testSlotInTurn: nodes of one NodeHealthCheck get the slot one after the other.
func testSlotInTurn(t *testing.T, c *cluster) {
	s := newControlPlaneScenario(t, c, "one", rungKinds[1])
	s.createControlPlane("cp1", "cp2", "cp3")
	s.createNHC()
	names := []string{"cp1", "cp2", "cp3"}
	for _, name := range names {
		s.fail(name)
	}
	for range names {
		s.eventually("one of them is remediated", func() bool { return *s.status().RemediatingNodes == 1 })
		s.catchUp()
		crs := s.crs()
		require.Len(t, crs, 1, "12.2")
		name := crs[0].GetName()[len(s.name)+1:]
		require.Contains(t, names, name, "each in its turn")
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		s.heal(name)
		s.eventually("it has recovered", func() bool { return s.entry(name) == nil })
	}
	require.Empty(t, names)
}

// testControlPlaneLabel: either label makes a control plane node, and others need no slot.
func testControlPlaneLabel(t *testing.T, c *cluster, role string) {
	one, two := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[1])
	for _, s := range []*scenario{one, two} {
		s.createNodes("cp", "worker")
		s.labelNode("cp", map[string]any{role: "any"})
		s.createNHC()
	}
	one.fail("cp")
	one.eventuallyCR("cp")
	require.Contains(t, one.cr("cp").GetLabels(), v1alpha1.LabelControlPlane)
	two.fail("worker")
	require.NotContains(t, two.eventuallyCR("worker").GetLabels(), v1alpha1.LabelControlPlane, "12.2: this is about control plane nodes")
	two.fail("cp")
	two.eventuallyEvent("RemediationSkipped", two.slotRefused("cp"))
	two.catchUp()
	require.Nil(t, two.cr("cp"))
	// When the Node is gone, its remediator still holds the CR: the host may be off.
	one.setFinalizers("cp", rungFinalizer)
	one.deleteNode("cp")
	one.eventuallyCondition(v1alpha1.ConditionLeftoverRemediations, metav1.ConditionTrue)
	two.catchUp()
	require.Nil(t, two.cr("cp"), "12.2")
	// Nor does it help to forget the NodeHealthCheck, and with it the kind.
	one.deleteNHC()
	one.eventually("the NodeHealthCheck is gone", func() bool {
		_, err := one.nhc.RemediationV1alpha1().NodeHealthChecks().Get(t.Context(), one.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	two.catchUp()
	require.Nil(t, two.cr("cp"), "12.2: a kind that is not referred to any more")
	one.setFinalizers("cp")
	two.eventuallyCR("cp")
}

// testEtcdMembers: members of etcd that are no control plane nodes by another label are remediated one at a
// time, also by a NodeHealthCheck that selects workers, too (FR-319).
func testEtcdMembers(t *testing.T, c *cluster) {
	s := newControlPlaneScenario(t, c, "one", rungKinds[0])
	s.createNodes("e1", "e2", "e3", "w1", "w2", "w3", "w4")
	s.createControlPlane("c1", "c2")
	for _, name := range []string{"e1", "e2", "e3"} {
		s.labelNode(name, map[string]any{"node-role.kubernetes.io/etcd": "true"})
	}
	s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: controlPlaneRole, Operator: metav1.LabelSelectorOpDoesNotExist}}
		spec.MinHealthy, spec.MaxUnhealthy = nil, new(intOrString("50%"))
	})
	s.eventuallyCounts(7, 7)
	s.fail("e1")
	s.fail("e2")
	s.eventually("one of them is remediated", func() bool { return len(s.crs()) > 0 })
	s.eventually("both are decided", func() bool { return s.entry("e1") != nil && s.entry("e2") != nil })
	s.catchUp()
	require.Len(t, s.crs(), 1, "12.2: both are members of etcd")
	first, second := "e1", "e2"
	if s.cr("e2") != nil {
		first, second = second, first
	}
	s.requireNoSlot(second)
	s.eventuallyDecided(second, v1alpha1.DecidedControlPlaneBusy)
	s.heal(first)
	s.eventuallyCR(second)
}

// testQuorum: outside of OpenShift, a node that is Ready may be a member of etcd at work.
func testQuorum(t *testing.T, c *cluster) {
	s := newControlPlaneScenario(t, c, "one", rungKinds[0])
	s.createControlPlane("cp1", "cp2", "cp3")
	s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.UnhealthyConditions = append(spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{Type: "Disk", Status: corev1.ConditionTrue})
	})
	s.setCondition("cp3", "Ready", corev1.ConditionUnknown, time.Now())
	s.eventuallyCR("cp3")
	s.setCondition("cp3", "Ready", corev1.ConditionTrue, time.Now())
	s.eventuallyNoCR("cp3")
	s.eventuallyCounts(3, 3)

	s.labelNode("cp3", map[string]any{scenarioLabel: "none"}) // It fails without being remediated.
	s.setCondition("cp3", "Ready", corev1.ConditionUnknown, time.Now())
	s.eventuallyCounts(2, 2)
	s.setCondition("cp1", "Disk", corev1.ConditionTrue, time.Now())
	s.requireNoSlot("cp1")
	s.eventuallyDecided("cp1", v1alpha1.DecidedEtcdQuorum)
	s.setCondition("cp3", "Ready", corev1.ConditionTrue, time.Now())
	s.eventuallyCR("cp1")
	s.labelNode("cp3", map[string]any{scenarioLabel: s.name})
}

// testSlotOfLabelledCR: a foreign CR takes the slot by its label.
func testSlotOfLabelledCR(t *testing.T, c *cluster) {
	s, other := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[2])
	other.createNHC() // It refers to the kind.
	s.createControlPlane("cp")
	s.createNHC()
	foreign := other.createForeignCR("anything", nil)
	other.patch(other.crClient(), "anything", metadataPatch("labels", map[string]any{v1alpha1.LabelControlPlane: ""}))
	other.catchUp() // The foreign CR is in the cache.
	s.fail("cp")
	s.requireNoSlot("cp")
	require.NoError(t, other.crClient().Delete(t.Context(), foreign.GetName(), metav1.DeleteOptions{}))
	s.eventuallyCR("cp")
}

// testSlotOfForeignCR: a foreign CR takes the slot by its node.
func testSlotOfForeignCR(t *testing.T, c *cluster) {
	s, other := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[2])
	other.createNHC()
	s.createControlPlane("cp", "cp2")
	s.createNHC()
	foreign := other.createForeignCR(s.node("cp2"), nil)
	other.catchUp()
	s.fail("cp")
	s.requireNoSlot("cp")
	other.patch(other.crClient(), foreign.GetName(), map[string]any{"metadata": map[string]any{"finalizers": []string{rungFinalizer}}})
	require.NoError(t, other.crClient().Delete(t.Context(), foreign.GetName(), metav1.DeleteOptions{}))
	other.catchUp()
	s.requireNoSlot("cp")
	other.patch(other.crClient(), foreign.GetName(), map[string]any{"metadata": map[string]any{"finalizers": nil}})
	s.eventuallyCR("cp")
}

// testSlotOfUnknownKind: CRs of a kind that no NodeHealthCheck refers to take no slot.
func testSlotOfUnknownKind(t *testing.T, c *cluster) {
	s, other := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[2])
	s.createControlPlane("cp", "cp2")
	s.createNHC()
	other.createForeignCR(s.node("cp2"), nil)
	s.fail("cp")
	s.eventuallyCR("cp")
	require.Empty(t, s.events("RemediationSkipped"))
}

// testSlotOfPromotedNode: a node becomes one of the control plane while it is remediated.
func testSlotOfPromotedNode(t *testing.T, c *cluster) {
	one, two := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[1])
	one.createNodes("cp")
	two.createControlPlane("cp")
	one.createNHC()
	two.createNHC()
	one.fail("cp")
	cr := one.eventuallyCR("cp")
	require.NotContains(t, cr.GetLabels(), v1alpha1.LabelControlPlane)
	one.labelNode("cp", map[string]any{controlPlaneRole: ""})
	one.catchUpNodes()
	two.fail("cp")
	two.requireNoSlot("cp")
	require.Equal(t, cr.GetResourceVersion(), one.cr("cp").GetResourceVersion(), "11.2")
	one.labelNode("cp", map[string]any{controlPlaneRole: nil})
	two.eventuallyCR("cp")
}

// testSlotAcrossSteps: the node that has the slot keeps it, until its last CR is gone.
func testSlotAcrossSteps(t *testing.T, c *cluster) {
	l := newLadder(t, c, 3)
	other := newControlPlaneScenario(t, c, "two", powerCycle)
	l.createControlPlane("cp")
	other.createControlPlane("cp")
	l.createNHC(l.escalation())
	other.createNHC()
	l.fail("cp")
	l.eventuallyStep("cp", 0)
	other.fail("cp")
	other.requireNoSlot("cp")
	for step := range 2 {
		l.rungs[step].reportFailure("cp")
		for _, cr := range l.eventuallyStep("cp", step+1) {
			require.Contains(t, cr.GetLabels(), v1alpha1.LabelControlPlane, "11.1")
		}
	}
	l.rungs[2].reportFailure("cp")
	l.eventuallyExhausted("cp")
	other.requireNoSlot("cp")
	require.Empty(t, l.events("RemediationSkipped"), "12.4: never for the node that has the slot")
	l.rungs[2].setFinalizers("cp", rungFinalizer)
	l.heal("cp")
	l.eventually("all but the last are gone", func() bool { return len(l.entry("cp").Remediations) == 1 })
	other.requireNoSlot("cp")
	l.rungs[2].setFinalizers("cp")
	other.eventuallyCR("cp")
}

// testSlotAfterDeletion: the CR that has the slot is deleted by somebody.
func testSlotAfterDeletion(t *testing.T, c *cluster) {
	one, two := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[1])
	one.createControlPlane("cp")
	two.createControlPlane("cp")
	one.createNHC()
	two.createNHC()
	one.fail("cp")
	one.eventuallyCR("cp")
	two.fail("cp")
	two.requireNoSlot("cp")
	// Either of them is next, but not both.
	one.deleteCR("cp")
	patience.Eventually(t, "one of them is remediated", func() bool { return *one.status().RemediatingNodes+*two.status().RemediatingNodes == 1 })
	one.catchUp()
	two.catchUp()
	require.NotEqual(t, one.cr("cp") != nil, two.cr("cp") != nil, "12.2")
}

// testSlotNotNeeded: the node that waits recovers, and fails again.
func testSlotNotNeeded(t *testing.T, c *cluster) {
	one, two := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[1])
	one.createControlPlane("cp")
	two.createControlPlane("cp")
	one.createNHC()
	two.createNHC()
	one.fail("cp")
	one.eventuallyCR("cp")
	two.fail("cp")
	two.requireNoSlot("cp")
	two.heal("cp")
	two.eventuallyCounts(1, 1)
	two.fail("cp")
	two.eventually("the event of the second time", func() bool { return len(two.events("RemediationSkipped")) == 2 })
	require.Empty(t, two.crRequests("create", "cp"))
}

// testSlotAfterDenial: the slot is free again when the creation of the CR fails.
func testSlotAfterDenial(t *testing.T, c *cluster, sameNHC bool) {
	s := newControlPlaneScenario(t, c, "one", rungKinds[0])
	s.createControlPlane("cp1")
	s.createNHC()
	other, next := s, "cp2"
	if !sameNHC {
		other = newControlPlaneScenario(t, c, "two", rungKinds[1])
		other.createNHC()
	}
	other.createControlPlane(next)
	allow := s.deny(t, "creation-"+s.name, denial{
		group: s.kind.remediations.Group, resource: s.kind.remediations.Resource, operation: admissionregistrationv1.Create,
		unless: fmt.Sprintf("request.name != '%s' && request.name != 'dry-run'", s.node("cp1")), try: s.tryCR,
	})
	s.fail("cp1")
	denied := func() int { return len(s.creationAttempts()) }
	s.eventually("two denied attempts", func() bool { return denied() > 1 })
	other.fail(next)
	other.eventuallyCR(next)
	// While it has the slot, the other one does not try.
	s.eventuallyEvent("RemediationSkipped", s.slotRefused("cp1"))
	allow()
	s.catchUp()
	require.Nil(t, s.cr("cp1"))
	other.heal(next)
	s.eventuallyCR("cp1")
}

// testSlotWithoutLease: a node that could not begin anyway leaves the slot to others.
func testSlotWithoutLease(t *testing.T, c *cluster) {
	s := newControlPlaneScenario(t, c, "", rungKinds[0])
	s.createControlPlane("cp1", "cp2")
	s.createNHC()
	s.createNodeLease("cp1")
	s.fail("cp1")
	s.eventuallyEvent("RemediationSkipped", s.leaseTaken("cp1"))
	s.fail("cp2")
	s.eventuallyCR("cp2")
	busy := s.eventuallyDecided("cp1", v1alpha1.DecidedControlPlaneBusy)
	require.Contains(t, busy.Message, s.node("cp2")+" is under remediation", "12.2: the message names it")
	s.heal("cp2")
	s.eventuallyNoCR("cp2")
	s.eventuallyDecided("cp1", v1alpha1.DecidedLeaseTaken)
	require.Nil(t, s.cr("cp1"), "14.3")
	s.heal("cp1") // Or it would begin when the lease goes, at the end.
	s.eventuallyListed(map[string]int{})
}

// testSlotOfADryRun: a node that would be remediated waits for the slot as soon as another one has it, and
// would be remediated after that (spec 5.6, P2).
func testSlotOfADryRun(t *testing.T, c *cluster) {
	s, other := newScenario(t, c), newScenario(t, c)
	s.createControlPlane("a")
	other.createControlPlane("b", "c", "d")
	s.createNHC(mode(v1alpha1.ModeDryRun))
	other.createNHC()
	s.fail("a")
	s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
	other.fail("b")
	other.eventuallyCR("b")
	require.Contains(t, s.eventuallyDecided("a", v1alpha1.DecidedControlPlaneBusy).Message, other.node("b"))
	other.heal("b")
	s.eventuallyDecided("a", v1alpha1.DecidedDryRun)
}
