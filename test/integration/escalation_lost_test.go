// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestEscalationCRDeletedByOthers: the step whose CR has vanished gets a new one (spec
// 11.6, 13.2, P9).
func TestEscalationCRDeletedByOthers(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	l.createNodes("a")
	l.createNHC(l.escalation())
	l.fail("a")
	l.eventuallyStep("a", 0)
	l.reportFailure("a")
	old := l.eventuallyStep("a", 1)
	// As long as the first is there, nothing else begins again.
	l.setFinalizers("a", rungFinalizer)
	l.deleteCR("a")
	l.rungs[1].setFinalizers("a", rungFinalizer)
	l.rungs[1].deleteCR("a")
	l.rungs[1].eventuallyTimedOut("a")
	l.rungs[1].setFinalizers("a")
	l.eventually("only the first step is left", func() bool { entry := l.entry("a"); return entry != nil && len(entry.Remediations) == 1 })
	require.Equal(t, old[0].GetUID(), l.entry("a").Remediations[0].Resource.UID)
	l.catchUp()
	require.Nil(t, l.rungs[1].cr("a"), "P9: a new beginning waits until all of the old is gone")
	l.setFinalizers("a")
	l.eventually("a new CR for the first step", func() bool { cr := l.cr("a"); return cr != nil && cr.GetUID() != old[0].GetUID() })
	l.eventuallyStep("a", 0)
	require.Nil(t, l.rungs[1].cr("a"), "13.1")
}

// TestEscalationStatusWiped: the CRs show the state of the steps (spec P8, 18.2).
func TestEscalationStatusWiped(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 3)
	l.createNodes("a")
	l.createNHC(l.escalation())
	l.fail("a")
	l.eventuallyStep("a", 0)
	l.reportFailure("a")
	l.eventuallyStep("a", 1)
	before := l.status()
	l.wipeStatus()
	l.eventuallyStep("a", 1)
	require.Equal(t, before.UnhealthyNodes, l.status().UnhealthyNodes, "18.2: rebuilt from the CRs")
	require.Nil(t, l.rungs[2].cr("a"), "P8: nothing is lost, nothing repeated")
	l.rungs[1].reportFailure("a")
	l.eventuallyStep("a", 2)
	l.rungs[2].reportFailure("a")
	l.eventuallyExhausted("a")
	before = l.status()
	l.wipeStatus()
	l.eventuallyExhausted("a")
	require.Equal(t, before.UnhealthyNodes, l.status().UnhealthyNodes, "18.2: rebuilt from the CRs")
	require.Len(t, l.patches("a"), 3)
	for _, rung := range l.rungs {
		require.Len(t, rung.crRequests("create", "a"), 1)
	}
	l.heal("a")
	l.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind Replace with name "+l.node("a"))
	require.Len(t, l.events("NoTemplateLeft"), 1, "19.3: the process remembers what status does not show")
	require.Len(t, l.events("RemediationCreated"), 3, "19.3")
	require.Len(t, l.events("DetectedUnhealthy"), 1, "19.3")
}

// TestStatusPartlyWrittenByOthers: a field that somebody else has set in an entry does
// not keep the entry from going away (spec 18.2, P4).
func TestStatusPartlyWrittenByOthers(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	entry := s.entry("a")
	entry.Remediations[0].TimedOut = new(metav1.NewTime(time.Now().Truncate(time.Second)))
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
		map[string]any{"status": map[string]any{"unhealthyNodes": []any{entry}}}, "status")
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(1, 1)
	s.eventuallyNoneListed()
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
}

// TestEscalationCrash: a process is killed on the way from one step to the next (spec
// P8, 13.2).
func TestEscalationCrash(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	begin := func(t *testing.T, name string) (*ladder, *localkube.Process) {
		t.Helper()
		l := newLadder(t, c, 3)
		l.createNodes("a")
		process := c.startController(t, name+"-1", "--leader-elect=false")
		l.createNHC(l.escalation())
		l.fail("a")
		l.eventuallyStep("a", 0)
		l.reportFailure("a")
		l.eventuallyStep("a", 1)
		return l, process
	}
	end := func(l *ladder) {
		l.t.Helper()
		l.rungs[2].reportFailure("a")
		l.eventuallyExhausted("a")
		l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("a"))
		for _, rung := range l.rungs {
			created := l.requests(func(r localkube.Request) bool {
				return r.Verb == "create" && r.Resource == rung.kind.remediations.Resource && r.Namespace == l.name && r.Code == 201
			})
			require.Len(l.t, created, 1, "P8: no step is skipped or repeated")
		}
		l.heal("a")
		l.eventuallyCounts(1, 1)
		require.Empty(l.t, l.listed())
		for _, rung := range l.rungs {
			require.Empty(l.t, rung.crs())
		}
	}
	t.Run("in the middle of a step", func(t *testing.T) {
		l, process := begin(t, "step")
		before := l.status()
		require.NoError(t, process.Kill())
		l.rungs[1].reportFailure("a")
		c.startController(t, "step-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 2)
		require.Equal(t, before.UnhealthyNodes[0].Remediations[0], l.entry("a").Remediations[0])
		l.requireEnded("a", 1, crs[1])
		end(l)
	})
	t.Run("between the annotation and the next CR", func(t *testing.T) {
		l, process := begin(t, "annotation")
		creations := l.rungs[2].holdCreations()
		l.rungs[1].reportFailure("a")
		creations.await(t)
		require.NoError(t, process.Kill())
		l.requireTimedOut(l.rungs[1].cr("a"))
		require.Nil(t, l.entry("a").Remediations[1].TimedOut, "status knows nothing of it")
		creations.release()
		c.startController(t, "annotation-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 2)
		l.requireEnded("a", 1, crs[1])
		end(l)
	})
	t.Run("between the next CR and the status", func(t *testing.T) {
		l, process := begin(t, "status")
		allow := l.denyStatus()
		l.rungs[1].reportFailure("a")
		l.eventually("the CR of the last step", func() bool { return l.rungs[2].cr("a") != nil })
		require.NoError(t, process.Kill())
		require.Len(t, l.entry("a").Remediations, 2, "status knows nothing of it")
		allow()
		c.startController(t, "status-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 2)
		l.requireEnded("a", 1, crs[1])
		end(l)
	})
	t.Run("with the status wiped", func(t *testing.T) {
		l, process := begin(t, "wiped")
		require.NoError(t, process.Kill())
		l.wipeStatus()
		c.startController(t, "wiped-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 1)
		l.requireEnded("a", 0, crs[0])
		l.rungs[1].reportFailure("a")
		l.eventuallyStep("a", 2)
		end(l)
	})
}
