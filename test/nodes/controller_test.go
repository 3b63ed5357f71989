// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// takeover is how much later a remediation may start if it is the node of the controller that fails.
const takeover = 20 * time.Second

// inReserve is what decided has in reserve.
const inReserve = decided - 5*time.Second

// TestNodeOfController: the nodes of the controller fail like others.
func TestNodeOfController(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	t.Run("services that restart", func(t *testing.T) {
		s := s.in(t)
		leader, _ := s.controllers()
		before := s.podOfLeader()
		s.fail(leader, "a restart of the kubelet", func(n *Node) error { return errors.Join(n.KillKubelet(), n.StartKubelet()) })
		time.Sleep(watched / 3)
		s.timeline.Say("test", "a restart of the runtime")
		require.NoError(t, errors.Join(leader.KillRuntime(), leader.StartRuntime()))
		time.Sleep(watched / 3)
		s.settle()
		if away := s.notReady(leader); away < tolerated {
			require.Equal(t, before.UID, s.podOfLeader().UID, "it has stayed where it was, while its node was not Ready for %s", away)
		}
	})
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
		s.await("remediation " + leader.Name + " created")
		late := takeover - inReserve + s.newLeader()
		s.awaitRepair(leader, late)
		s.awaitRepair(standby[0], late)
	})
}

// tolerated is how long a node of the controller may be not Ready before its pod is replaced: as in the Deployment.
const tolerated = 2 * time.Second

// notReady returns how long a node has been not Ready since the failure, if it is Ready again. A kubelet that restarts on a
// busy machine may say for some seconds that the node is not.
func (s *story) notReady(node *Node) time.Duration {
	s.t.Helper()
	from, _, was, _ := s.timeline.find("node "+node.Name+" Ready=False", "\x00")
	if !was {
		return 0
	}
	return s.await("node "+node.Name+" Ready=True") - from
}

// podOfLeader returns the replica that leads.
func (s *story) podOfLeader() *corev1.Pod {
	s.t.Helper()
	pod, _ := s.leader()
	require.NotNil(s.t, pod, "the leader is a pod")
	return pod
}

// newLeader tells when a replica that was started after a failure came to lead, and returns how long its
// container took to start: that depends on the machine only. Times of pods have no fractions of a second.
func (s *story) newLeader() (started time.Duration) {
	s.t.Helper()
	pod, lease := s.leader()
	require.NotNil(s.t, pod, "the leader is a pod")
	require.Len(s.t, pod.Status.ContainerStatuses, 1)
	require.NotNil(s.t, pod.Status.ContainerStatuses[0].State.Running)
	after := func(at time.Time) float64 { return at.Sub(s.timeline.begin).Seconds() }
	begun := pod.Status.ContainerStatuses[0].State.Running.StartedAt
	s.t.Logf("TIMES %-24s replaced %5.1f  started %5.1f  leads %5.1f", s.t.Name(), after(pod.CreationTimestamp.Time), after(begun.Time), after(lease.Spec.AcquireTime.Time))
	return begun.Sub(pod.CreationTimestamp.Time)
}

// awaitRepair waits for all steps of a remediation, which may start late because of the controller.
func (s *story) awaitRepair(node *Node, late time.Duration) {
	s.t.Helper()
	unknown := s.await("node " + node.Name + " Ready=Unknown")
	created := s.await("remediation " + node.Name + " created")
	s.await("remediation " + node.Name + " deleted")
	s.settle()
	s.t.Logf("TIMES %-32s noticed %5.1f  remediation %5.1f", s.t.Name(), unknown.Seconds(), created.Seconds())
	s.requireWithin(created-unknown, decided+late)
}
