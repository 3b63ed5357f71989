// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestEscalation follows one node through all steps, to its recovery (spec 13.1 to
// 13.3, 13.6, 16.1, 18.3, P7).
func TestEscalation(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 3)
	l.createNodes("a", "b")
	l.createNHC(l.escalation())
	l.eventuallyCounts(2, 2)

	l.fail("a")
	l.eventuallyStep("a", 0)
	require.Nil(t, l.rungs[1].cr("a"), "P7: order counts, positions do not")
	require.Nil(t, l.rungs[2].cr("a"), "P7")
	versions := map[types.UID]string{}
	for step := range 2 {
		// A remediator may report anything else in the meantime.
		l.rungs[step].report("a", [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"})
		l.rungs[step].reportFailure("a")
		crs := l.eventuallyStep("a", step+1)
		l.requireEnded("a", step, crs[step])
		versions[crs[step].GetUID()] = crs[step].GetResourceVersion()
		require.Equal(t, v1alpha1.PhaseRemediating, l.status().Phase, "13.3")
		require.Equal(t, "NHC is remediating 1 nodes", l.status().Reason)
		require.Equal(t, map[string]string{v1alpha1.AnnotationNodeName: l.node("a"), v1alpha1.AnnotationTemplateName: l.name}, crs[step+1].GetAnnotations(), "11.1")
		require.Empty(t, l.events("NoTemplateLeft"))
	}
	l.rungs[2].reportFailure("a")
	crs := l.eventuallyExhausted("a")
	l.requireEnded("a", 2, crs[2])
	versions[crs[2].GetUID()] = crs[2].GetResourceVersion()
	l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("a"))
	l.eventually("the event about the node", func() bool { return len(l.eventsAbout("Node", l.node("a"), "NoTemplateLeft")) > 0 })

	// Nothing more comes, whatever else happens.
	l.catchUp()
	l.rungs[2].report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
	l.rungs[2].reportFailure("a")
	l.catchUp()
	for i, cr := range l.eventuallyExhausted("a") {
		require.Equal(t, crs[i].GetUID(), cr.GetUID(), "13.6: the CRs stay")
		require.Nil(t, cr.GetDeletionTimestamp())
		require.Equal(t, crs[i].GetAnnotations(), cr.GetAnnotations(), "13.8: never changed")
		if i < 2 {
			require.Equal(t, versions[cr.GetUID()], cr.GetResourceVersion(), "11.2")
		}
	}
	require.Equal(t, v1alpha1.PhaseRemediating, l.status().Phase)
	require.Len(t, l.patches("a"), 3, "13.8: written once per step")
	require.Equal(t, []string{l.noTemplateLeft("a")}, l.events("NoTemplateLeft"), "13.6: once")

	l.heal("a")
	l.eventuallyCounts(2, 2)
	require.Empty(t, l.listed())
	require.Equal(t, v1alpha1.PhaseEnabled, l.status().Phase)
	for _, rung := range l.rungs {
		require.Empty(t, rung.crs(), "16.1: of every step, timed out or not")
		require.Len(t, rung.crRequests("create", "a"), 1, "13.1")
		require.Len(t, rung.crRequests("delete", "a"), 1, "16.1")
		l.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind "+rung.kind.name+" with name "+l.node("a"))
	}
	require.Len(t, l.eventsAbout("Node", l.node("a"), "DetectedUnhealthy"), 1, "19.1: one episode")
	require.Len(t, l.eventsAbout("Node", l.node("a"), "RemediationCreated"), 3)
	require.Len(t, l.eventsAbout("Node", l.node("a"), "RemediationRemoved"), 3)

	// The next episode begins with the first step.
	l.fail("a")
	l.eventuallyStep("a", 0)
	require.Nil(t, l.rungs[1].cr("a"))
}
