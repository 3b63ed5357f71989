// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// TestDeployment: what happens to the Deployment in the life of a cluster (spec 22.1).
func TestDeployment(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, false)
	t.Run("drain of the node of the leader", func(t *testing.T) {
		s := s.in(t)
		leader, _ := s.controllers()
		s.timeline.Restart()
		s.kubectl("drain", leader.Name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
		s.awaitLeader(leader)
		s.kubectl("uncordon", leader.Name)
		s.settle()
		s.requireApart()
	})
	t.Run("none for a while", func(t *testing.T) {
		s := s.in(t)
		s.kubectl("--namespace", deploy.Namespace, "scale", "deployment/"+deploy.ServiceAccount, "--replicas=0")
		node := s.nodeOfDatabase()
		s.fail(node, "a power cut", (*Node).PowerOff)
		s.await("node " + node.Name + " Ready=Unknown")
		time.Sleep(decided)
		_, _, created, _ := s.timeline.find("remediation", "\x00")
		require.False(t, created)
		scaled := time.Since(s.timeline.begin)
		s.kubectl("--namespace", deploy.Namespace, "scale", "deployment/"+deploy.ServiceAccount, "--replicas=2")
		require.Less(t, s.await("remediation "+node.Name+" created")-scaled, 30*time.Second)
	})
	t.Run("an update while a node is down", func(t *testing.T) {
		s := s.in(t) // The node is still down: no remediator runs.
		s.kubectl("--namespace", deploy.Namespace, "set", "env", "deployment/"+deploy.ServiceAccount, "UPDATE=1")
		s.kubectl("--namespace", deploy.Namespace, "rollout", "status", "deployment/"+deploy.ServiceAccount, "--timeout=120s")
		s.awaitLeader(nil)
		s.remediator()
		require.Eventually(t, func() bool {
			_, _, gone, _ := s.timeline.find("remediation", "\x00")
			return gone
		}, patience, time.Second)
		s.settle()
		s.requireApart()
	})
}

// requireApart: no failure of one node takes both replicas.
func (s *story) requireApart() {
	s.t.Helper()
	leader, others := s.controllers()
	require.Len(s.t, others, 1)
	require.NotEqual(s.t, leader.Name, others[0].Name)
}

// awaitLeader returns when a replica leads, on another node than this.
func (s *story) awaitLeader(not *Node) {
	s.t.Helper()
	ctx := s.t.Context()
	require.Eventually(s.t, func() bool {
		lease, err := s.Kube.CoordinationV1().Leases(deploy.Namespace).Get(ctx, deploy.LeaderLease, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		pods, err := s.Kube.CoreV1().Pods(deploy.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if leads(pod, lease) && pod.DeletionTimestamp == nil {
				return not == nil || pod.Spec.NodeName != not.Name
			}
		}
		return false
	}, patience, 500*time.Millisecond, "a replica leads")
}
