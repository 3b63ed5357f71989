// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestSyncOrder has one sync find everything at once, because much has happened while no
// controller was running. Endings come before beginnings, nodes have their turn by name,
// and status is last (spec 5.1, 5.4).
func TestSyncOrder(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	ending, workers := []string{"z-gone", "z-healed"}, []string{"a", "b"}
	s.createNodes(slices.Concat(ending, workers)...)
	s.createControlPlane("cp-1", "cp-2")
	first := c.startController(t, "order-1", "--leader-elect=false")
	s.createNHC()
	for _, name := range ending {
		s.fail(name)
		s.eventuallyCR(name)
	}
	first.Stop()
	// The last by name fails first.
	for _, name := range []string{"cp-2", "cp-1", "b", "a"} {
		s.fail(name)
	}
	s.heal("z-healed")
	s.deleteNode("z-gone")
	since := time.Now()
	c.startController(t, "order-2", "--leader-elect=false")

	for _, name := range append(workers, "cp-1") {
		s.eventuallyCR(name)
	}
	s.eventuallyListed(map[string]int{"a": 1, "b": 1, "cp-1": 1, "cp-2": 0})
	s.eventuallyEvent("RemediationSkipped", s.slotRefused("cp-2"))
	require.Nil(t, s.cr("cp-2"), "5.1: the place is for the first by name")
	of := func(verb string) []localkube.Request {
		return s.requests(func(r localkube.Request) bool {
			return r.Verb == verb && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && r.Time.After(since)
		})
	}
	status := func() []localkube.Request {
		return s.requests(func(r localkube.Request) bool {
			return r.Resource == v1alpha1.Plural && r.Subresource == "status" && r.Name == s.name && r.Time.After(since)
		})
	}
	s.eventually("the log is complete", func() bool { return len(of("delete")) >= 2 && len(of("create")) >= 3 && len(status()) > 0 })
	deletions, creations := of("delete"), of("create")
	require.Len(t, deletions, 2)
	require.Len(t, creations, 3)
	for _, deletion := range deletions {
		require.True(t, deletion.Time.Before(creations[0].Time), "5.1: deleted and recovered nodes come first")
	}
	for _, creation := range creations {
		require.True(t, creation.Time.Before(status()[0].Time), "5.1: status comes last")
	}
}
