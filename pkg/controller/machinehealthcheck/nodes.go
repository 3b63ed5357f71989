// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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
	case c.missing.has(machine.Node):
		return nil, machinehealth.NodeMissing
	case reads.left == 0:
		return nil, machinehealth.NodeUnknown
	}
	reads.left--
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	_, err := c.Kube.CoreV1().Nodes().Get(ctx, machine.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.nodeMissing(machine.Node, nil)
		return nil, machinehealth.NodeMissing
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
	c.missing.add(name)
	if now := c.NodeCache.Get(name); now != nil && (before == nil || before.UID != now.UID) {
		c.missing.remove(name)
	}
	c.forgetMissing(name)
}

// forgetMissing forgets a missing Node that no Machine names any more: it may never come back.
func (c *Controller) forgetMissing(name string) {
	if name != "" && c.missing.has(name) && len(c.machinesOf(name)) == 0 {
		c.missing.remove(name)
	}
}

// missingNodes are Nodes that a Machine names, that a live read did not find, and that the watch has not reported
// since. The zero value is ready to use, from any goroutine.
type missingNodes struct {
	mu    sync.Mutex
	names sets.Set[string]
}

func (m *missingNodes) has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names.Has(name)
}

func (m *missingNodes) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = sets.New[string]()
	}
	m.names.Insert(name)
}

// remove forgets a Node, and reports whether it was one of them.
func (m *missingNodes) remove(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.names.Has(name)
	m.names.Delete(name)
	return found
}
