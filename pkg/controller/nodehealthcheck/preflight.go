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
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
)

// preflight is all that is looked at live right before something that cannot be undone: a
// plan rests on caches, which may be behind. Its methods may be called from any goroutine.
type preflight struct {
	*Controller
	snapshot *snapshot
	policy   *remediation.Policy
}

// carryOut carries out a plan, unless it was made by a spec that is no longer the present one.
// A control plane node keeps all other control plane nodes from beginning until the outcome of
// its creation is known.
func (p *preflight) carryOut(ctx context.Context, executor *execute.Executor, plan *remediation.NodePlan) remediation.Outcome {
	if p.outdated() {
		return remediation.Outcome{Result: remediation.Deferred}
	}
	if !takesSlot(plan) {
		return executor.Execute(ctx, p.policy.Owner, plan)
	}
	reason, release := p.acquireControlPlane(ctx, plan.Node.Name)
	if reason != "" {
		p.policy.Withhold(plan, reason, p.clock.Now())
		return executor.Execute(ctx, p.policy.Owner, plan)
	}
	outcome := executor.Execute(ctx, p.policy.Owner, plan)
	release(outcome.Result == remediation.Unknown)
	return outcome
}

// outdated reports whether the spec has changed since the snapshot, for example by a pause
// request, the NodeHealthCheck is being deleted or gone, or the clock is no longer trusted.
func (p *preflight) outdated() bool {
	planned := p.snapshot
	nhc, err := p.nhcs.Get(planned.nhc.Name)
	return err != nil || nhc.UID != planned.nhc.UID || nhc.Generation != planned.nhc.Generation ||
		(nhc.DeletionTimestamp != nil) != (planned.nhc.DeletionTimestamp != nil) || p.clockUntrusted() != planned.clockUntrusted
}

// takesSlot reports whether a plan begins the remediation of a control plane node.
func takesSlot(plan *remediation.NodePlan) bool {
	return plan.Candidate && plan.Node.ControlPlane && plan.Begins()
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
