// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failure is a way to fail, after which the pod with the volume has to run elsewhere.
type failure struct {
	how, symptom string
	fail         func(*Node) error
	mend         func(*Node) error // Nil if a power cycle does it.
}

// TestFailedNode: when a whole node fails, it is noticed and fenced, and its pod runs elsewhere.
func TestFailedNode(t *testing.T) {
	t.Parallel()
	testFailures(t,
		failure{"a power cut", "Ready=Unknown", (*Node).PowerOff, nil},
		failure{"a pulled cable", "Ready=Unknown", (*Node).Cut, (*Node).Join},
		failure{"a hang", "Ready=Unknown", (*Node).Freeze, nil},
	)
}

// TestFailedService: so it is when containers run on, but nothing manages them.
func TestFailedService(t *testing.T) {
	t.Parallel()
	testFailures(t,
		failure{"a dead kubelet", "Ready=Unknown", (*Node).KillKubelet, nil},
		failure{"a dead runtime", "Ready=False", (*Node).KillRuntime, nil},
		failure{"a hung runtime", "Ready=False", (*Node).StopRuntime, nil},
	)
}

func testFailures(t *testing.T, failures ...failure) {
	t.Helper()
	s := newStory(t, Options{}, true)
	for _, f := range failures {
		mended := t.Run(f.how, func(t *testing.T) {
			s := s.in(t)
			node := s.nodeOfDatabase()
			s.fail(node, f.how, f.fail)
			s.remediated(node, f.how, f.symptom, f.mend)
		})
		if !mended {
			return // The next failure would find another cluster than it expects.
		}
	}
}

// TestFullDisk: DiskPressure is a condition like any other.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	s.configure(`{"unhealthyConditions":[{"type":"DiskPressure","status":"True","duration":"5s"}]}`)
	node := s.nodeOfDatabase()
	s.fail(node, "a full disk", (*Node).FillDisk)
	s.await("node " + node.Name + " DiskPressure=True")
	s.await("remediation " + node.Name + " created")
	s.await("BMC of " + node.Name + " has its power back")
	require.NoError(t, node.EmptyDisk())
	s.await("remediation " + node.Name + " deleted")
	s.settle()
}

// TestShortFailures: a failure that is shorter than the duration is not remediated.
func TestShortFailures(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	s.configure(`{"unhealthyConditions":[{"type":"Ready","status":"Unknown","duration":"60s"},{"type":"Ready","status":"False","duration":"60s"}]}`)

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
