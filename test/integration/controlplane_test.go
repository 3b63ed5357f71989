// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
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
		{"12.1-label-control-plane", testControlPlaneLabel},
		{"12.1-two-members-of-etcd-fail (FR-319)", testEtcdMembers},
		{"5.6-a-dry-run-loses-the-slot", testSlotOfADryRun},
		{"12.5-quorum", testQuorum},
		{"P1-creation-denied-of-another-NodeHealthCheck", testSlotAfterDenial},
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

// testControlPlaneLabel: the label makes a control plane node, and others need no slot.
func testControlPlaneLabel(t *testing.T, c *cluster) {
	one, two := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[1])
	for _, s := range []*scenario{one, two} {
		s.createNodes("cp", "worker")
		s.labelNode("cp", map[string]any{controlPlaneRole: "any"})
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

// testSlotAfterDenial: the slot is free again when the creation of the CR fails.
func testSlotAfterDenial(t *testing.T, c *cluster) {
	s, other := newControlPlaneScenario(t, c, "one", rungKinds[0]), newControlPlaneScenario(t, c, "two", rungKinds[1])
	s.createControlPlane("cp1")
	s.createNHC()
	other.createNHC()
	other.createControlPlane("cp2")
	allow := s.deny(t, "creation-"+s.name, denial{
		group: s.kind.remediations.Group, resource: s.kind.remediations.Resource, operation: admissionregistrationv1.Create,
		unless: fmt.Sprintf("request.name != '%s' && request.name != 'dry-run'", s.node("cp1")), try: s.tryCR,
	})
	s.fail("cp1")
	denied := func() int { return len(s.creationAttempts()) }
	s.eventually("two denied attempts", func() bool { return denied() > 1 })
	other.fail("cp2")
	other.eventuallyCR("cp2")
	// While it has the slot, the other one does not try.
	s.eventuallyEvent("RemediationSkipped", s.slotRefused("cp1"))
	allow()
	s.catchUp()
	require.Nil(t, s.cr("cp1"))
	other.heal("cp2")
	s.eventuallyCR("cp1")
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
