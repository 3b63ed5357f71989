// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sightings

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// version returns a version of a Node with conditions of these statuses, which have lasted since so many
// seconds after epoch.
func version(resourceVersion int, status corev1.ConditionStatus, since int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", ResourceVersion: strconv.Itoa(resourceVersion)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(at(since))},
			{Type: corev1.NodeMemoryPressure, Status: status, LastTransitionTime: metav1.NewTime(at(since))},
		}},
	}
}

// process is what records versions, at instants of its clock.
type process struct {
	*Sightings
	now   int
	lists int64
}

func newProcess() *process {
	p := &process{}
	p.Sightings = New(func() time.Time { return at(p.now) }, func() int64 { return p.lists })
	p.Concern("check", []corev1.NodeConditionType{corev1.NodeReady})
	return p
}

func (p *process) list() { p.lists++ }

// begun returns since when condition Ready of a version holds.
func (p *process) begun(t *testing.T, node *corev1.Node) time.Time {
	t.Helper()
	seen := p.Of(node)
	require.Len(t, seen, 1, "only of the conditions that a check names")
	return seen[0].Begun
}

func TestSightings(t *testing.T) {
	t.Parallel()
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	t.Run("7.2 each version was seen", func(t *testing.T) {
		t.Parallel()
		p := newProcess()
		p.list()
		p.Observe(nil, version(1, yes, 0))
		p.now = 10
		p.Observe(version(1, yes, 0), version(2, no, 10))
		p.now = 13
		p.Observe(version(2, no, 10), version(3, no, 13))
		require.Equal(t, at(10), p.begun(t, version(3, no, 13)))
		// Another controller shares it, and its handler is behind.
		p.Observe(version(1, yes, 0), version(2, no, 10))
		require.Equal(t, at(10), p.begun(t, version(3, no, 13)))
	})
	t.Run("7.2 no check names the condition any more", func(t *testing.T) {
		t.Parallel()
		p := newProcess()
		p.Concern("other", []corev1.NodeConditionType{corev1.NodeMemoryPressure})
		p.Observe(nil, version(1, no, 0))
		require.Len(t, p.Of(version(1, no, 0)), 2)
		p.Concern("other", nil)
		require.Len(t, p.Of(version(1, no, 0)), 1)
		p.Observe(version(1, no, 0), version(2, yes, 10))
		evidence := health.EvidenceOf(version(2, yes, 10), p.Of(version(2, yes, 10)))
		require.True(t, evidence.UpToDate(), "a sync would wait for ever (seed 880195)")
		require.Len(t, evidence.Seen, 1)
	})
	t.Run("P11 the Nodes were listed anew", func(t *testing.T) {
		t.Parallel()
		p := newProcess()
		p.list()
		p.now = 10
		p.Observe(nil, version(2, no, 10))
		p.now = 13
		p.Observe(version(2, no, 10), version(3, no, 13))
		require.Equal(t, at(10), p.begun(t, version(3, no, 13)), "a watch that goes on misses nothing")
		p.list()
		p.now = 16
		p.Observe(version(3, no, 13), version(5, no, 16))
		require.Equal(t, at(16), p.begun(t, version(5, no, 16)))
		p.list()
		p.now = 19
		p.Observe(version(5, no, 16), version(7, no, 19))
		require.Equal(t, at(19), p.begun(t, version(7, no, 19)))
	})
	t.Run("7.2 a check that is new", func(t *testing.T) {
		t.Parallel()
		p := newProcess()
		p.Concern("check", nil)
		p.Observe(nil, version(1, yes, 8))
		require.Empty(t, p.Of(version(1, yes, 8)))
		p.Concern("other", []corev1.NodeConditionType{corev1.NodeReady})
		p.now = 10
		p.Observe(version(1, yes, 8), version(2, no, -1200))
		require.Equal(t, at(10), p.begun(t, version(2, no, -1200)), "the clock has gone back")
	})
	t.Run("7.2 a clock that was ahead before", func(t *testing.T) {
		t.Parallel()
		p := newProcess()
		p.Concern("check", nil)
		p.Observe(nil, version(1, no, 3600))
		p.Concern("check", []corev1.NodeConditionType{corev1.NodeReady})
		p.now = 10
		require.Equal(t, at(10), p.begun(t, version(1, no, 3600)))
		p.now = 20
		require.Equal(t, at(10), p.begun(t, version(1, no, 3600)), "it is kept from the first look")
	})
	t.Run("7.2 it is gone with the Node", func(t *testing.T) {
		t.Parallel()
		p := newProcess()
		p.now = 10
		p.Observe(nil, version(1, no, 3600))
		p.Forget("n", true)
		require.Equal(t, at(10), p.begun(t, version(1, no, 3600)), "there is another one")
		another := version(5, no, 3600)
		another.UID = types.UID("another")
		require.Nil(t, p.Of(another), "it is not that of a Node of the same name")
		p.Forget("n", false)
		require.Nil(t, p.Of(version(1, no, 3600)))
		p.now = 20
		p.Observe(nil, another)
		require.Equal(t, at(20), p.begun(t, another))
	})
}

// TestHeartbeatsCostNoAllocation: they come by the thousand.
func TestHeartbeatsCostNoAllocation(t *testing.T) {
	p := newProcess()
	old, node := version(1, corev1.ConditionTrue, 0), version(2, corev1.ConditionTrue, 0)
	p.Observe(nil, old)
	versions := make([]string, 20)
	for i := range versions {
		versions[i] = strconv.Itoa(100 + i)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		node.ResourceVersion, versions = versions[0], versions[1:]
		p.Observe(old, node)
	}))
}
