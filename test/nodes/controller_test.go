// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// takeover is how much later a remediation may start if it is the node of the controller that fails.
const takeover = 20 * time.Second

// restart is how much later if both replicas are gone: five seconds until new ones start, 15 until one of
// them may take over from the leader, and as much for a machine that is busy with other tests.
const restart = 40 * time.Second

// TestNodeOfController: the nodes of the controller fail like others.
func TestNodeOfController(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	t.Run("leader", func(t *testing.T) {
		s := s.in(t)
		leader, _ := s.controllers()
		s.fail(leader, "a power cut", (*Node).PowerOff)
		s.awaitRepair(leader, takeover)
	})
	t.Run("standby", func(t *testing.T) {
		s := s.in(t)
		_, standby := s.controllers()
		require.Len(t, standby, 1)
		s.fail(standby[0], "a power cut", (*Node).PowerOff)
		s.awaitRepair(standby[0], 0)
	})
	t.Run("both", func(t *testing.T) {
		s := s.in(t)
		s.configure(`{"minHealthy":1}`) // Two of three nodes fail.
		leader, standby := s.controllers()
		require.Len(t, standby, 1)
		s.fail(leader, "a power cut", (*Node).PowerOff)
		require.NoError(t, standby[0].PowerOff())
		s.awaitRepair(leader, restart)
		s.awaitRepair(standby[0], restart)
	})
}

// awaitRepair waits for all steps of a remediation, which may start late because of the controller.
func (s *story) awaitRepair(node *Node, late time.Duration) {
	s.t.Helper()
	unknown := s.await("node " + node.Name + " Ready=Unknown")
	created := s.await("remediation " + node.Name + " created")
	s.await("remediation " + node.Name + " deleted")
	s.settle()
	s.t.Logf("TIMES %-24s noticed %5.1f  remediation %5.1f", s.t.Name(), unknown.Seconds(), created.Seconds())
	require.Less(s.t, created-unknown, decided+late)
}
