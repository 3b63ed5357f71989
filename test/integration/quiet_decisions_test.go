// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// kept is a NodeHealthCheck in one state, and the node that is in it.
type kept struct {
	*scenario
	node   string
	reason v1alpha1.DecisionReason
}

// TestQuietDecisions: whatever a node waits for, and however often its NodeHealthCheck
// is synced meanwhile, is told once. A successor tells nothing new either (spec P3, P8,
// 18.2, 19.1).
func TestQuietDecisions(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	controller := c.startController(t, "first")
	states := quietStates(t, c)
	for name, s := range states {
		decision := s.eventuallyDecided(s.node, s.reason)
		t.Logf("%s: %s", name, decision.Message)
	}
	leases := func(s kept, since time.Time) int {
		return len(s.requests(func(r localkube.Request) bool {
			return isWrite(r) && r.Resource == "leases" && r.Name == s.nodeLeaseName(s.node) && r.Time.After(since)
		}))
	}
	c.eventuallySilent(t, states)

	begin := time.Now()
	before := map[string]v1alpha1.NodeHealthCheckStatus{}
	for name, s := range states {
		before[name] = s.status()
	}
	disturb(t, states, 65*time.Second) // Longer than the retries of what time alone may end.
	for name, s := range states {
		t.Logf("%s: %d writes of status, %d of events, %d of the lease", name, len(s.writesSince(begin, v1alpha1.Plural)), len(s.writesSince(begin, "events")), leases(s, begin))
	}
	for name, s := range states {
		require.Empty(t, s.writesSince(begin, v1alpha1.Plural), name)
		require.Empty(t, s.writesSince(begin, "events"), name)
		require.Equal(t, before[name], s.status(), name)
		switch {
		case len(s.entry(s.node).Remediations) > 0:
			require.LessOrEqual(t, leases(s, begin), 2, "14.5: a sync renews it a minute after the last time, at the earliest: %s", name)
		case s.reason != v1alpha1.DecidedCreateFailed: // Every attempt begins with the lease (spec 14.2).
			require.Zero(t, leases(s, begin), name)
		}
	}

	controller.Stop()
	restarted := time.Now()
	c.startController(t, "second")
	disturb(t, states, 10*time.Second)
	for name, s := range states {
		require.Empty(t, s.writesSince(restarted, v1alpha1.Plural), "P8: %s", name)
		require.Equal(t, before[name], s.status(), name)
		if s.reason == v1alpha1.DecidedCreateFailed {
			attempts := s.crRequests("create", s.node)
			require.True(t, attempts[len(attempts)-1].Time.After(restarted), "it was quiet, not asleep")
		}
	}
}

// quietStates brings one NodeHealthCheck each into the states in which a node can be
// kept for long.
func quietStates(t *testing.T, c *cluster) map[string]kept {
	t.Helper()
	states := map[string]kept{}
	begin := func(name string, reason v1alpha1.DecisionReason, nodes int, change ...func(*v1alpha1.NodeHealthCheckSpec)) *scenario {
		s := newEmptyScenario(t, c, t.Name()+name, powerCycle)
		s.createTemplate(usualTemplate())
		s.createNodes(nodeNames(nodes)...)
		s.createNHC(change...)
		states[name] = kept{scenario: s, node: "00", reason: reason}
		return s
	}
	fail := func(s *scenario, names ...string) {
		for _, name := range names {
			s.fail(name)
		}
	}

	fail(begin("gate closed", v1alpha1.DecidedGateClosed, 3, minHealthy(intstr.FromString("100%"))), "00", "01")
	fail(begin("paused", v1alpha1.DecidedPaused, 2, pause("maintenance", "of the rack")), "00")

	calm := begin("storm that is calm", v1alpha1.DecidedStormActive, 3, minHealthy(intstr.FromInt32(2)), stormCooldown(time.Hour), pause("until both have failed"))
	fail(calm, "00", "01")
	calm.eventuallyCondition(v1alpha1.ConditionStormActive, metav1.ConditionTrue)
	calm.heal("01")
	calm.eventuallyCondition(v1alpha1.ConditionStormCooldownActive, metav1.ConditionTrue)
	calm.updateNHC(pause())

	rough := begin("storm that is not calm", v1alpha1.DecidedStormActive, 4, minHealthy(intstr.FromInt32(2)), stormThreshold(0), stormCooldown(time.Hour))
	fail(rough, "01", "02")
	rough.eventuallyCondition(v1alpha1.ConditionStormActive, metav1.ConditionTrue)
	rough.eventuallyCR("01")
	rough.heal("01")
	rough.eventuallyNoCR("01")
	fail(rough, "00")

	excluded := begin("excluded", v1alpha1.DecidedExcluded, 2)
	excluded.labelNode("00", map[string]any{v1alpha1.LabelExclude: "true"})
	fail(excluded, "00")

	taken := begin("lease taken", v1alpha1.DecidedLeaseTaken, 2)
	taken.createNodeLease("00")
	fail(taken, "00")

	busy := begin("control plane busy", v1alpha1.DecidedControlPlaneBusy, 3)
	for _, name := range []string{"00", "01"} {
		busy.labelNode(name, map[string]any{controlPlaneRole: ""})
	}
	fail(busy, "01")
	busy.eventuallyCR("01")
	fail(busy, "00")

	foreign := begin("foreign remediations", v1alpha1.DecidedForeignRemediation, 2)
	for _, name := range []string{"", "-b", "-c", "-d"} {
		foreign.createForeignCR(foreign.node("00")+name, map[string]string{v1alpha1.AnnotationNodeName: foreign.node("00"), v1alpha1.AnnotationTemplateName: foreign.name})
	}
	foreign.catchUp()
	fail(foreign, "00")

	delayed := begin("healthy delay", v1alpha1.DecidedHealthyDelay, 2, healthyDelay(time.Hour))
	fail(delayed, "00")
	delayed.eventuallyCR("00")
	delayed.heal("00")

	exhausted := begin("the last step failed", v1alpha1.DecidedStepFailed, 2, func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{{RemediationTemplate: *spec.RemediationTemplate, Order: 1, Timeout: metav1.Duration{Duration: time.Hour}}}
		spec.RemediationTemplate = nil
	})
	fail(exhausted, "00")
	exhausted.eventuallyCR("00")
	exhausted.report("00", [2]string{v1alpha1.RemediationSucceeded, "False"})

	denied := begin("create failed", v1alpha1.DecidedCreateFailed, 2)
	denied.denyCR("00")
	fail(denied, "00")

	going := begin("awaiting deletion", v1alpha1.DecidedAwaitingDeletion, 2)
	fail(going, "00")
	going.eventuallyCR("00")
	going.setFinalizers("00", rungFinalizer)
	going.heal("00")
	going.eventuallyDeleting("00")

	undeletable := begin("delete failed", v1alpha1.DecidedDeleteFailed, 2)
	fail(undeletable, "00")
	undeletable.eventuallyCR("00")
	undeletable.denyDeletion(t, "00")
	undeletable.heal("00")
	return states
}

// writesSince returns the requests of the controllers that write what belongs to the
// scenario, of one resource: names of events contain that of the scenario.
func (s *scenario) writesSince(since time.Time, resource string) []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return isWrite(r) && r.Resource == resource && strings.Contains(r.Name, s.name) && r.Time.After(since)
	})
}

// denyDeletion makes admission refuse to delete the CR of a node.
func (s *scenario) denyDeletion(t *testing.T, name string) {
	t.Helper()
	s.deny(t, "deletion-"+s.name, denial{
		group: s.kind.remediations.Group, resource: s.kind.remediations.Resource, operation: admissionregistrationv1.Delete,
		unless: fmt.Sprintf("request.name != '%s'", s.node(name)),
		try: func(ctx context.Context, dryRun []string) error {
			return s.crClient().Delete(ctx, s.node(name), metav1.DeleteOptions{DryRun: dryRun})
		},
	})
}

// eventuallySilent waits until the controller has done all that it has begun.
func (c *cluster) eventuallySilent(t *testing.T, states map[string]kept) {
	t.Helper()
	patience.Eventually(t, "silence", func() bool {
		since := time.Now().Add(-5 * time.Second)
		for _, s := range states {
			if len(s.writesSince(since, v1alpha1.Plural))+len(s.writesSince(since, "events")) > 0 {
				return false
			}
		}
		return true
	})
}

// disturb has all NodeHealthChecks synced every two seconds, by an annotation that means
// nothing, and the foreign leases renewed, for some time.
func disturb(t *testing.T, states map[string]kept, d time.Duration) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for begin := time.Now(); time.Since(begin) < d; <-ticker.C {
		now := time.Now()
		for _, s := range states {
			touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test":%q}}}`, now)
			_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Patch(t.Context(), s.name, types.MergePatchType, touch, metav1.PatchOptions{})
			require.NoError(t, err)
			if s.reason == v1alpha1.DecidedLeaseTaken {
				s.patchNodeLeaseSpec(s.node, map[string]any{"renewTime": microTime(now)})
			}
		}
	}
}
