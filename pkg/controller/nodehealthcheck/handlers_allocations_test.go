// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/nodeindex"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/sightings"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// checksOf returns a controller that knows a node, and so many NodeHealthChecks, each for
// a pool of its own.
func checksOf(n int, node *corev1.Node) *Controller {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	_ = nodes.Add(node)
	c := &Controller{
		sightings:           sightings.New(func() time.Time { return epoch }, func() int64 { return 1 }),
		budgets:             budget.None{},
		machineHealthChecks: noMachineHealthChecks{},
		queue:               workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		index:               nodeindex.New(nodeCache{nodes}),
		remediations:        &kinds.Kinds{Set: watches.NewSet[schema.GroupKind](watches.Config{})},
	}
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
	c := checksOf(50, after)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.nodeChanged(before, after) }))
	require.Zero(t, c.queue.Len())
}
