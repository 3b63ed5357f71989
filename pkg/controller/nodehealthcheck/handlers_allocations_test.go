// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// poolsOf returns a controller that knows a node, and so many NodeHealthChecks, each for
// a pool of its own.
func poolsOf(n int, node *corev1.Node) *Controller {
	c := queueingController()
	c.Remediations = &kinds.Kinds{Set: watches.NewSet[schema.GroupKind](watches.Config{})}
	_ = c.NodeCache.Add(node)
	for i := range n {
		nhc := selecting(fmt.Sprintf("pool-%d", i), byRole(fmt.Sprintf("pool-%d", i)))
		c.index.SetCheck(checkOf(nhc))
	}
	return c
}

// heartbeatOf returns a node of a pool, and what a heartbeat makes of it.
func heartbeatOf() (before, after *corev1.Node) {
	before = benchNodes(1, noNode)[0]
	metav1.SetMetaDataLabel(&before.ObjectMeta, "role", "pool-1")
	after = before.DeepCopy()
	after.ResourceVersion = "8"
	return before, after
}

// TestHeartbeatsCostNoAllocation: what does not matter is dropped without an allocation,
// and wakes no NodeHealthCheck.
func TestHeartbeatsCostNoAllocation(t *testing.T) {
	before, after := heartbeatOf()
	c := poolsOf(50, after)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.nodeChanged(before, after) }))
	require.Zero(t, c.Queue.Len())
}
