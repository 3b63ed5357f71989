// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// countInterval is how often the nodes are counted again while remediations begin.
// With thousands of nodes a count costs milliseconds, and their beginnings take longer
// than what comes in meanwhile may be ignored.
const countInterval = 100 * time.Millisecond

// lastLook is what stands between a plan and the beginning of a remediation. When
// thousands of nodes have failed, the last beginning of a sync is many seconds later
// than the look that all of them were planned by. In that time nodes recover, which a
// live read tells; somebody pauses the NodeHealthCheck; or the rest of the cluster
// fails too, so that nothing may begin any more. Its methods may be called from any
// goroutine.
type lastLook struct {
	c     *Controller
	nhc   *v1alpha1.NodeHealthCheck
	world *world

	mu       sync.Mutex
	counted  time.Time
	outdated bool
}

// beforehand tells whether what the plans were made by does not hold any more. Then
// nothing more begins in this sync: the next one decides again.
func (l *lastLook) beforehand() bool {
	now := l.c.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.outdated:
	case l.changed():
		l.outdated = true
	case now.Sub(l.counted) >= countInterval:
		l.counted = now
		l.outdated = l.forbidden(now)
	}
	return l.outdated
}

// changed tells whether the NodeHealthCheck is not the one that was planned for: it has
// another spec, is being deleted, or is gone.
func (l *lastLook) changed() bool {
	nhc, err := l.c.nhcs.Get(l.nhc.Name)
	return err != nil || nhc.UID != l.nhc.UID || nhc.Generation != l.nhc.Generation || nhc.DeletionTimestamp != nil
}

// forbidden reports whether gate, storm or clock forbid now what they permitted.
func (l *lastLook) forbidden(now time.Time) bool {
	present := &world{surroundings: l.world.surroundings, remediated: l.world.remediated, withCRs: l.world.withCRs}
	l.c.count(l.nhc, present, now)
	return (l.world.gate.Open && !present.gate.Open) || (present.storm.Active && !l.world.storm.Active) || (l.c.clockUntrusted() && !l.world.clockUntrusted)
}

// stillUnhealthy reads a node and judges it by the rules of the NodeHealthCheck, and then
// what the cache has of it. A Node that is gone, or was replaced by a namesake, is not
// unhealthy. The error is
// remediation.ErrOutdated if the plan does not hold any more.
func (l *lastLook) stillUnhealthy(ctx context.Context, name string) (bool, error) {
	node, err := l.c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading node: %w", err)
	case l.beforehand():
		return false, remediation.ErrOutdated
	}
	// While the answer was on its way, the watch may have told of a recovery after it.
	cached, err := l.c.nodes.Get(name)
	return err == nil && l.remains(node) && l.remains(cached), nil
}

// remains tells whether a node is the one that was planned for, is selected and not
// excluded, and is unhealthy.
func (l *lastLook) remains(node *corev1.Node) bool {
	known := l.world.objects[node.Name]
	return known != nil && known.UID == node.UID && node.Labels[v1alpha1.LabelExclude] != "true" && selectorOf(l.nhc).Matches(labelSet(node)) &&
		l.world.judge(l.nhc, l.c.clock.Now())(node).State == health.Unhealthy
}
