// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestCrash: what a process knew goes with it, and nothing is lost and nothing
// repeated (spec P8, 18.2). The controllers of this test need no lease, so
// they do not wait until the lease of a killed one has expired.
func TestCrash(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)

	t.Run("between the CR and the status", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a", "b")
		first := c.startController(t, "unreported-1", "--leader-elect=false")
		s.createNHC()
		s.eventuallyCounts(2, 2)
		allow := s.denyStatus()
		s.fail("a")
		s.eventually("a CR for node a", func() bool { return s.cr("a") != nil })
		cr := s.cr("a")
		s.eventually("a refused write of the status", func() bool {
			return len(s.requests(func(r localkube.Request) bool { return r.Subresource == "status" && r.Name == s.name && r.Code >= 400 })) > 0
		})
		eventuallyReported := func(reason string, times int) {
			s.eventually(fmt.Sprintf("%d events %s on both", times, reason), func() bool {
				return len(s.events(reason)) == times && len(s.eventsAbout("Node", s.node("a"), reason)) == times
			})
		}
		eventuallyReported("DetectedUnhealthy", 1)
		eventuallyReported("RemediationCreated", 1)
		require.NoError(t, first.Kill())
		require.Nil(t, s.entry("a"), "the status knows nothing of the CR")
		allow()

		c.startController(t, "unreported-2", "--leader-elect=false")
		again := s.eventuallyCR("a")
		require.Equal(t, cr.GetUID(), again.GetUID())
		require.Equal(t, cr.GetResourceVersion(), again.GetResourceVersion(), "11.2: a CR is written once")
		entry := s.entry("a")
		require.Len(t, entry.Remediations, 1)
		require.Equal(t, cr.GetCreationTimestamp().UTC(), entry.Remediations[0].Started.UTC())
		s.eventuallyCounts(2, 1)

		s.recover("a", 2)
		require.Len(t, s.creations(), 1, "one CR was created, and no other was tried")
		eventuallyReported("DetectedUnhealthy", 2) // 19.3: status did not show that they were sent.
		eventuallyReported("RemediationCreated", 2)
		eventuallyReported("RemediationRemoved", 1)
	})

	t.Run("status wiped while the controller runs", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a", "b")
		c.startController(t, "wiped-running", "--leader-elect=false")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		s.eventuallyCounts(2, 1)
		before := s.status()
		s.wipeStatus()
		s.requireRebuilt(&before)
		require.Equal(t, cr.GetUID(), s.cr("a").GetUID())
		s.recover("a", 2)
		require.Len(t, s.creations(), 1)
	})

	t.Run("status wiped while the controller is down", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a", "b")
		first := c.startController(t, "wiped-down-1", "--leader-elect=false")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		s.eventuallyCounts(2, 1)
		before := s.status()
		require.NoError(t, first.Kill())
		s.wipeStatus()
		require.Nil(t, s.entry("a"))
		c.startController(t, "wiped-down-2", "--leader-elect=false")
		s.requireRebuilt(&before)
		require.Equal(t, cr.GetUID(), s.cr("a").GetUID())
		s.recover("a", 2)
		require.Len(t, s.creations(), 1)
	})

	t.Run("while a deletion waits for a finalizer", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a", "b")
		first := c.startController(t, "deleting-1", "--leader-elect=false")
		s.createNHC()
		s.fail("a")
		s.eventuallyCR("a")
		s.setFinalizers("a", "test.nhc-controller.io/repairing")
		s.heal("a")
		deleting := s.eventuallyDeleting("a")
		s.eventually("status shows that the node is healthy", func() bool {
			entry := s.entry("a")
			return entry != nil && entry.ConditionsHealthyTimestamp != nil
		})
		s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+s.node("a"))
		before := s.status()
		require.NoError(t, first.Kill())

		second := c.startController(t, "deleting-2", "--leader-elect=false")
		eventuallyReady(t, second)
		s.createNodes("c") // Once it is counted, the second controller has seen all.
		s.eventuallyCounts(3, 2)
		status := s.status()
		require.Equal(t, before.UnhealthyNodes, status.UnhealthyNodes, "16.2")
		require.Equal(t, v1alpha1.PhaseRemediating, status.Phase, "16.2")
		require.Equal(t, deleting.GetResourceVersion(), s.cr("a").GetResourceVersion(), "no client writes to the CR")
		s.setFinalizers("a")
		s.eventuallyNoCR("a")
		s.eventuallyCounts(3, 3)
		s.eventuallyNoneListed()
		require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
		require.Len(t, s.crRequests("delete", "a"), 1, "16.1: a CR already being deleted gets no request")
		require.Len(t, s.events("RemediationRemoved"), 1)
	})

	t.Run("before the CR is created", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a", "b")
		first := c.startController(t, "creating-1", "--leader-elect=false")
		s.createNHC()
		s.eventuallyCounts(2, 2)
		creations := s.holdCreations()
		s.fail("a")
		creations.await(t)
		require.NoError(t, first.Kill())
		// The API server completes a request whose client has gone, or not.
		creations.release()
		c.startController(t, "creating-2", "--leader-elect=false")
		cr := s.eventuallyCR("a")
		s.recover("a", 2)
		created := s.requests(func(r localkube.Request) bool {
			return r.Verb == "create" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && r.Code == 201
		})
		require.Len(t, created, 1, "the CR %s is the only one", cr.GetName())
	})
}

// denyStatus has the API server refuse all writes of the status.
func (s *scenario) denyStatus() (allow func()) {
	s.t.Helper()
	return s.deny(s.t, "status-of-"+s.name, denial{
		group: v1alpha1.GroupName, resource: v1alpha1.Plural + "/status", operation: admissionregistrationv1.Update, unless: "false",
		try: func(ctx context.Context, dryRun []string) error {
			patch := []byte(`{"status":{"reason":"dry run"}}`)
			_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun}, "status")
			return err
		},
	})
}

func (s *scenario) wipeStatus() {
	s.t.Helper()
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name, map[string]any{"status": nil}, "status")
}

// requireRebuilt waits until the status is what it was. The times that only status knew
// are new.
func (s *scenario) requireRebuilt(before *v1alpha1.NodeHealthCheckStatus) {
	s.t.Helper()
	s.eventually("a status", func() bool { return s.status().Phase != "" })
	after := s.status()
	require.NotNil(s.t, after.LastUpdateTime)
	require.Len(s.t, after.Conditions, len(before.Conditions))
	for i := range after.Conditions {
		require.False(s.t, after.Conditions[i].LastTransitionTime.IsZero())
		after.Conditions[i].LastTransitionTime = before.Conditions[i].LastTransitionTime
	}
	after.LastUpdateTime = before.LastUpdateTime
	require.Len(s.t, after.UnhealthyNodes, len(before.UnhealthyNodes))
	for i := range after.UnhealthyNodes {
		after.UnhealthyNodes[i].Decision.Since = before.UnhealthyNodes[i].Decision.Since
	}
	require.Equal(s.t, *before, after, "18.2")
}

// recover heals a node and waits until nothing is left of its remediation.
func (s *scenario) recover(name string, nodes int32) {
	s.t.Helper()
	s.heal(name)
	s.eventuallyNoCR(name)
	s.eventuallyCounts(nodes, nodes)
	s.eventuallyNoneListed()
	s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+s.node(name))
}

// creations returns the controller's attempts to create a CR.
func (s *scenario) creations() []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == "create" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name
	})
}
