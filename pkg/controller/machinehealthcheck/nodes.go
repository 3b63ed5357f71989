// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// maxLiveReads is how many Nodes missing in the cache a sync reads live. liveReadTimeout is
// how long it waits for each answer, so that no read blocks a worker for ever.
const (
	maxLiveReads    = 64
	liveReadTimeout = 5 * time.Second
)

// liveReads are the reads of one sync.
type liveReads struct {
	left int
	// failed means that a read got no answer.
	failed bool
}

// observeNode returns the Node of a Machine, nil if there is none, and its state. It reads a Node
// live if the cache does not have it, because the cache may lag behind.
func (c *Controller) observeNode(ctx context.Context, machine *machinehealth.Machine, reads *liveReads) (*corev1.Node, machinehealth.NodeState) {
	if node := c.NodeCache.Get(machine.Node); node != nil {
		return node, machinehealth.NodeExists
	}
	switch {
	case machine.Node == "" || machine.Deleting():
		return nil, machinehealth.NodeUnknown
	case c.isMissing(machine.Node):
		return nil, machinehealth.NodeMissing
	case reads.left == 0:
		return nil, machinehealth.NodeUnknown
	}
	reads.left--
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	_, state, err := c.liveNode(ctx, machine.Node)
	if state == machinehealth.NodeMissing {
		c.nodeMissing(machine.Node, nil)
		return nil, state
	}
	reads.failed = true // Or the read has found it, and the watch will report it.
	if errors.Is(err, context.DeadlineExceeded) {
		reads.left = 0 // The others would not be answered either.
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot find out whether a Node exists", "node", machine.Node, "cause", err.Error())
	}
	return nil, machinehealth.NodeUnknown
}

// nodeMissing records that a live read did not find a Node. before is what the cache had before the read.
// The Node may have come back since then, and no further event would report that.
func (c *Controller) nodeMissing(name string, before *corev1.Node) {
	c.missing.Store(name, true)
	if now := c.NodeCache.Get(name); now != nil && (before == nil || before.UID != now.UID) {
		c.missing.Delete(name)
	}
	c.forgetMissing(name)
}

// forgetMissing forgets a missing Node that no Machine names any more: it may never come back.
func (c *Controller) forgetMissing(name string) {
	if c.isMissing(name) && len(c.machinesOf(name)) == 0 {
		c.missing.Delete(name)
	}
}

// isMissing reports whether a live read did not find a Node, and the watch has not reported it since.
func (c *Controller) isMissing(name string) bool {
	_, missing := c.missing.Load(name)
	return missing
}
