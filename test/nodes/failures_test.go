// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFailures: whatever fails, the node is noticed and fenced, and then the pod with the volume runs elsewhere.
func TestFailures(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	for _, tc := range []struct {
		how, symptom string
		fail         func(*Node) error
		mend         func(*Node) error // Nil if a power cycle does it.
	}{
		{"a power cut", "Ready=Unknown", (*Node).PowerOff, nil},
		{"a pulled cable", "Ready=Unknown", (*Node).Cut, (*Node).Join},
		{"a hang", "Ready=Unknown", (*Node).Freeze, nil},
		{"a dead kubelet", "Ready=Unknown", (*Node).KillKubelet, nil},
		{"a dead runtime", "Ready=False", (*Node).KillRuntime, nil},
		{"a hung runtime", "Ready=False", (*Node).StopRuntime, nil},
	} {
		t.Run(tc.how, func(t *testing.T) {
			s := s.in(t)
			node := s.nodeOfDatabase()
			s.fail(node, tc.how, tc.fail)
			s.remediated(node, tc.how, tc.symptom, tc.mend)
		})
	}
}

// TestFullDisk: DiskPressure is a condition like any other.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	patch := []byte(`{"spec":{"unhealthyConditions":[{"type":"DiskPressure","status":"True","duration":"5s"}]}}`)
	_, err := s.NHC.RemediationV1alpha1().NodeHealthChecks().Patch(t.Context(), "workers", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	node := s.nodeOfDatabase()
	s.fail(node, "a full disk", (*Node).FillDisk)
	s.await("node " + node.Name + " DiskPressure=True")
	s.await("remediation " + node.Name + " created")
	s.await("BMC of " + node.Name + " has its power back")
	require.NoError(t, node.EmptyDisk())
	s.await("remediation " + node.Name + " deleted")
	s.settle()
}

// TestShortFailures: what is over before the duration is not remediated.
func TestShortFailures(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	patch := []byte(`{"spec":{"unhealthyConditions":[{"type":"Ready","status":"Unknown","duration":"60s"},{"type":"Ready","status":"False","duration":"60s"}]}}`)
	_, err := s.NHC.RemediationV1alpha1().NodeHealthChecks().Patch(t.Context(), "workers", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)

	t.Run("a reboot", func(t *testing.T) {
		s := s.in(t)
		node := s.nodeOfDatabase()
		s.fail(node, "a reboot", (*Node).PowerOff)
		time.Sleep(3 * time.Second)
		require.NoError(t, node.PowerOn())
		s.awaitPodBack()
		s.requireNoRemediation(node)
	})
	t.Run("a node that comes back by itself", func(t *testing.T) {
		s := s.in(t)
		node := s.nodeOfDatabase()
		s.fail(node, "a pulled cable", (*Node).Cut)
		s.await("node " + node.Name + " Ready=Unknown")
		time.Sleep(20 * time.Second)
		s.timeline.Say("test", "the cable is back")
		require.NoError(t, node.Join())
		s.await("node " + node.Name + " Ready=True")
		s.requireNoRemediation(node)
	})
}

// awaitPodBack returns when the database has written after it was off.
func (s *story) awaitPodBack() {
	s.t.Helper()
	written := len(s.lines())
	require.Eventually(s.t, func() bool { return len(s.lines()) > written+2 }, patience, time.Second)
}

// requireNoRemediation checks that there was none since the failure.
func (s *story) requireNoRemediation(node *Node) {
	s.t.Helper()
	s.settle()
	_, _, created, _ := s.timeline.find("remediation "+node.Name, "\x00")
	require.False(s.t, created)
	s.requireOneWriter()
}
