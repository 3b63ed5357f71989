// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestDeniedByAdmission: what admission refuses is tried again and does no harm to
// other nodes. It is no missing permission (spec 6.6, 11.4, P1).
func TestDeniedByAdmission(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.installAll()
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	allow := s.deny(t, "quota-"+s.name, denial{
		group: s.kind.remediations.Group, resource: s.kind.remediations.Resource, operation: admissionregistrationv1.Create,
		unless: "!object.metadata.name.endsWith('-a') && object.metadata.name != 'dry-run'", try: s.tryCR,
	})
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.fail("b")
	s.eventuallyCR("b")
	s.eventually("several attempts", func() bool { return len(s.crRequests("create", "a")) >= 4 })
	s.eventuallyListed(map[string]int{"a": 0, "b": 1})
	s.eventuallyCounts(3, 1)
	s.requireEnabled()
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	s.heal("b")
	s.eventuallyNoCR("b")
	s.catchUp()
	attempts := s.crRequests("create", "a")
	for i, backoff := 1, 100*time.Millisecond; i < len(attempts); i, backoff = i+1, 2*backoff {
		require.GreaterOrEqual(t, attempts[i].Time.Sub(attempts[i-1].Time), backoff, "P1: with backoff: %v", attempts)
	}
	allow()
	s.requireOnly("a", s.eventuallyCR("a"))
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(3, 3)
	require.Empty(t, s.events("Disabled"), "6.6")
	s.requireEvents("Node", s.node("a"), "RemediationCreated", 1)
	s.requireEvents("Node", s.node("a"), "DetectedUnhealthy", 1)
}
