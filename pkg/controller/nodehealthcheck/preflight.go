// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// preflight reads live, right before something that cannot be undone, what a plan rests on: it
// was made from caches, which may be behind. Its methods may be called from any goroutine.
type preflight struct {
	*Controller
	snapshot *snapshot
}

// controlPlaneTimeout bounds what is asked before a control plane node begins.
const controlPlaneTimeout = 30 * time.Second

// acquireControlPlane reserves the control plane slot for a node, and asks the API server
// whether the node may have it. It returns why not, or what gives the reservation back.
func (p *preflight) acquireControlPlane(ctx context.Context, node string) (v1alpha1.DecisionReason, func(unknown bool)) {
	if !p.slot.tryAcquire(node, p.clock.Now()) {
		return v1alpha1.DecidedControlPlaneBusy, nil
	}
	release := func(unknown bool) {
		p.slot.release(unknown, p.clock.Now())
		p.enqueueAfter(p.waiters.of(controlPlaneTopic), raceRetry)
	}
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, controlPlaneTimeout)
	defer cancel()
	if allowed, err := p.etcdAllows(ctx, node); err != nil || !allowed {
		if err != nil {
			logger.Error(err, "Refusing a control plane node, because the state of etcd is not known", "node", node)
		}
		release(false)
		return v1alpha1.DecidedEtcdQuorum, nil
	}
	// Last: it lists all CRs.
	if remediated, err := p.listControlPlaneRemediations(ctx); err != nil || remediated.Busy(node) {
		if err != nil {
			logger.Error(err, "Refusing a control plane node, because it is not known whether another one is under remediation", "node", node)
		}
		release(false)
		return v1alpha1.DecidedControlPlaneBusy, nil
	}
	return "", release
}

// stillUnhealthy reads a Node and judges it by the rules of the NodeHealthCheck, and then
// what the cache has of it: while the answer was on its way, the watch may have reported a
// recovery after it. A Node that is gone, or was replaced by a namesake, is not unhealthy.
func (p *preflight) stillUnhealthy(ctx context.Context, name string) (bool, error) {
	live, err := p.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading node: %w", err)
	}
	cached, now := p.nodes.Get(name), p.clock.Now()
	return cached != nil && p.snapshot.mayStillBegin(live, now) && p.snapshot.mayStillBegin(cached, now), nil
}

// mayStillBegin reports whether a Node is the one that was planned for, is unhealthy, and nothing
// constrains it alone.
func (s *snapshot) mayStillBegin(node *corev1.Node, now time.Time) bool {
	known := s.nodeObject(node.Name)
	constraints := remediation.Constraints{NodeConstraints: s.constraintsOf(node)}
	return known != nil && known.UID == node.UID && constraints.Refusal(true) == "" && s.verdict(node, now).State == health.Unhealthy
}
