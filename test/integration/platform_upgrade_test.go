// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// testUpgrade: of the cluster. Nothing begins, nothing times out, what runs can end
// (spec 5.2, 5.3, 10.2 to 10.4).
func testUpgrade(t *testing.T, c *cluster, controller *localkube.Process) {
	c.installOptional(t, clusterVersion)
	c.createOptional(t, clusterVersion, "", "version", progressing("False", ""))
	s := newOnPlatform(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	s.catchUp()
	require.Empty(t, s.events("RemediationSkipped"))

	// Nothing else happens, so that only a watch can tell.
	s.setProgressing("True", "to 2")
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase, "10.2: the phase stays")
	require.Equal(t, "NHC is enabled, no ongoing remediation", s.status().Reason)
	before := s.syncs(controller)
	s.setProgressing("False", "at 2")
	s.eventually("the end of the upgrade is noticed", func() bool { return s.syncs(controller) > before })

	s.fail("a")
	s.eventuallyCR("a")
	s.fail("c")
	c0 := s.eventuallyCR("c")
	s.setProgressing("True", "to 3")
	s.eventually("the event of the second upgrade", func() bool { return len(s.events("RemediationSkipped")) == 2 })
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0, "c": 1})
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase, "10.2: the phase stays")
	require.Equal(t, "NHC is remediating 2 nodes", s.status().Reason)
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyListed(map[string]int{"b": 0, "c": 1})
	s.eventuallyRenewed("c", s.ageLease("c", 31*time.Minute, 5*time.Minute)) // Overdue, and due to be renewed.
	s.setProgressing("True", "to 3: 90% complete")
	s.catchUpNodes()
	s.requireNeverCreated("b")
	require.Equal(t, c0.GetResourceVersion(), s.cr("c").GetResourceVersion(), "5.2: no timeout")
	require.Equal(t, []string{upgradePostponed, upgradePostponed}, s.events("RemediationSkipped"), "19.1: when an upgrade begins")

	s.setProgressing("False", "at 3")
	s.eventuallyCR("b")
	s.eventuallyTimedOut("c") // 5.3
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	require.Len(t, s.events("RemediationSkipped"), 2)
}

// testUpgradeOfNode: the machine configuration of an unhealthy node is being changed
// (spec 10.2 to 10.4).
func testUpgradeOfNode(t *testing.T, c *cluster, _ *localkube.Process) {
	s := newOnPlatform(t, c)
	s.createNodes("a", "b", "c", "d")
	s.configure("a", "rendered-1", "rendered-1")
	s.configure("b", "rendered-1", "rendered-2")
	s.configure("d", "rendered-1", "")
	s.createNHC()
	s.eventuallyCounts(4, 4)
	s.fail("a")
	s.fail("d")
	s.eventuallyCR("a")
	s.eventuallyCR("d")
	require.Empty(t, s.events("RemediationSkipped"), "10.2: node b is healthy")

	s.fail("b")
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	s.fail("c")
	s.eventuallyListed(map[string]int{"a": 1, "b": 0, "c": 0, "d": 1})
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	s.heal("a")
	s.eventuallyNoCR("a")
	s.catchUpNodes()
	s.requireNeverCreated("b", "c")

	s.configure("b", "rendered-2", "rendered-2") // 10.3: nothing else wakes the NodeHealthCheck.
	s.eventuallyCR("b")
	s.eventuallyCR("c")
	require.Equal(t, []string{upgradePostponed}, s.events("RemediationSkipped"), "19.1: once")
}

// testUpgradeAndPause: the upgrade is reported (spec 5.4, 10.4).
func testUpgradeAndPause(t *testing.T, c *cluster, _ *localkube.Process) {
	c.installOptional(t, clusterVersion)
	c.createOptional(t, clusterVersion, "", "version", progressing("True", ""))
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	s.createNHC(pause("exam"))
	s.eventuallyEvent("RemediationSkipped", upgradePostponed)
	require.Equal(t, v1alpha1.PhasePaused, s.status().Phase)
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.catchUpNodes()
	require.Equal(t, []string{upgradePostponed}, s.events("RemediationSkipped"))

	// One ends, the other goes on, in both orders.
	s.updateNHC(pause())
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	s.updateNHC(pause("another exam"))
	require.Equal(t, v1alpha1.PhasePaused, s.status().Phase)
	s.catchUpNodes()
	s.requireNeverCreated("a")
	require.Equal(t, []string{upgradePostponed}, s.events("RemediationSkipped"))
	c.deleteOptional(t, clusterVersion, "", "version")
	s.fail("b")
	s.eventuallyListed(map[string]int{"a": 0, "b": 0})
	s.catchUpNodes()
	s.requireNeverCreated("a", "b")
	s.updateNHC(pause())
	s.eventuallyCR("a")
	s.eventuallyCR("b")
}

// testForbiddenClusterVersion: the cluster counts as not being upgraded, and etcd
// that cannot be read refuses (spec 10.2, 12.3).
func testForbiddenClusterVersion(t *testing.T, c *cluster) {
	c.installOptional(t, clusterVersion)
	c.createOptional(t, clusterVersion, "", "version", progressing("True", ""))
	s := newOnPlatform(t, c)
	s.createNodes("a", "cp")
	s.labelNode("cp", map[string]any{"node-role.kubernetes.io/control-plane": ""})
	s.createNHC()
	reviewed := func() bool {
		return len(s.audited(t, func(r localkube.Request) bool {
			return r.URI == "/apis/"+clusterVersion.resource.GroupVersion().String() && r.Code == 200
		})) > 0
	}
	s.eventually("the controller has found the kind", reviewed)
	s.eventually("a control plane node is refused", func() bool {
		s.fail("cp")
		s.eventually("an answer", func() bool { return s.cr("cp") != nil || len(s.events("RemediationSkipped")) > 0 })
		if s.cr("cp") != nil { // It was faster than the look at the kind.
			s.heal("cp")
			s.eventuallyNoCR("cp")
		}
		return len(s.events("RemediationSkipped")) > 0
	})
	require.Contains(t, s.events("RemediationSkipped")[0], "for preventing control plane / etcd quorum loss", "12.3: not as an upgrade")
	s.fail("a")
	s.eventuallyCR("a")
	s.eventuallyListed(map[string]int{"a": 1, "cp": 0})
	require.NotContains(t, s.events("RemediationSkipped"), upgradePostponed, "10.2")
	s.eventually("the lack of access is told", func() bool { return s.platformAccess() != nil })
	require.Contains(t, s.platformAccess().Message, platformForbidden(clusterVersion))
}
