// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestStandbyWithABrokenWatch: the watch of Nodes of a standby has failed since before a node went down.
// It takes over, and must not delete the CR of a node that it still takes for healthy (spec 6.8, P5).
func TestStandbyWithABrokenWatch(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	reader := c.createToken(t, "watch-reader", true)
	s, leader, standby, failure := standbyMisses(t, c)
	cr := s.cr("a")
	eventuallyLogged(t, standby, "The watch of a cache has failed for too long: nothing that depends on the cache begins")
	failing := func() float64 {
		_, body := c.get(t, standby, "Bearer "+reader)
		return parseSeries(t, body)[`nhc_watch_failing{cache="nodes"}`]
	}
	require.InDelta(t, 1, failing(), 0)
	require.Equal(t, http.StatusOK, probe(t, standby, "/readyz"), "its caches are filled")
	leader.Stop()
	c.eventuallyLeader(t, "standby")
	s.fail("b")
	eventuallyLogged(t, standby, "Waiting for a cache to fill")

	failure.end()
	s.eventuallyCR("b") // P12: by itself.
	require.Zero(t, failing())
	require.Equal(t, cr.GetUID(), s.cr("a").GetUID())
	require.Nil(t, s.cr("a").GetDeletionTimestamp())
	require.Empty(t, s.deletions("a"), "P6: the node was down all the time")
	s.heal("a")
	s.heal("b")
	s.eventuallyCounts(3, 3)
	s.eventuallyNoCR("a")
	require.Len(t, s.deletions("a"), 1)
}

// TestJustBrokenWatch: a standby whose watch of Nodes has broken a moment ago takes over. It has not missed
// anything for long, but a failure (spec 16.7).
func TestJustBrokenWatch(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s, leader, standby, failure := standbyMisses(t, c)
	cr := s.cr("a")
	leader.Stop()
	c.eventuallyLeader(t, "standby")
	eventuallyLogged(t, standby, "Stopped acting on the node: the Node has changed")
	require.Empty(t, s.deletions("a"), "P6: the node was down all the time")
	require.Equal(t, cr.GetUID(), s.cr("a").GetUID())
	failure.end()
	s.heal("a")
	s.eventuallyNoCR("a")
	require.Len(t, s.deletions("a"), 1)
}

// standbyMisses starts a leader and a standby. Then the watch of Nodes of the standby fails, and after that node a. The leader
// creates the CR.
func standbyMisses(t *testing.T, c *cluster) (s *scenario, leader, standby *localkube.Process, failure *outOfOrder) {
	t.Helper()
	s = newScenario(t, c)
	s.createNodes("a", "b", "c")
	failure = &outOfOrder{path: "/api/"}
	proxy, err := faultproxy.Start(c.AdminConfig(), faultproxy.Hooks{Before: failure.before, After: failure.after})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Stop()) })
	leader = c.startController(t, "leader", shortLease...)
	c.eventuallyLeader(t, "leader")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	standby, err = deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{Name: "standby", Args: append([]string{"-v=5"}, shortLease...), Through: proxy.Config})
	require.NoError(t, err)
	t.Cleanup(standby.Stop)
	eventuallyReady(t, standby)

	failure.begin("nodes")
	s.fail("a")
	s.eventuallyCR("a")
	return s, leader, standby, failure
}

// deletions returns the requests to delete the CR of a node.
func (s *scenario) deletions(node string) []localkube.Request {
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == "delete" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && r.Name == s.node(node)
	})
}
