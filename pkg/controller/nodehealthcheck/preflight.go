// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
)

// preflight reads live what a plan rests on, right before an action that cannot be undone: the
// plan was made from caches, which may be behind. Its methods may be called from any goroutine.
type preflight struct {
	*Controller
	snapshot *snapshot
}

// AcquireControlPlane reserves the control plane slot for a node or a Machine, and asks the API server whether it may
// have it, unless the answer has just been no. It returns why the slot is refused, or a function that gives the
// reservation back. Its argument unknown means that the remediation may have begun. Once ctx is done, nothing is
// asked, and the slot is refused. AcquireControlPlane may be called from any goroutine, also by other controllers.
func (c *Controller) AcquireControlPlane(ctx context.Context, member slot.Member) (v1alpha1.DecisionReason, func(unknown bool)) {
	refused, changes := c.refusals.Get(member, c.Clock.Now())
	if refused != "" {
		return refused, nil
	}
	if ctx.Err() != nil || !c.slot.TryAcquire(member, c.Clock.Now()) {
		return v1alpha1.DecidedControlPlaneBusy, nil
	}
	release := func(unknown bool) { c.slot.Release(unknown, c.Clock.Now()) } // Who was refused meanwhile looks again soon: lostRace.
	refuse := func(reason v1alpha1.DecisionReason, err error) (v1alpha1.DecisionReason, func(bool)) {
		if err == nil { // Without an answer, it is asked again soon.
			c.refusals.Remember(member, reason, changes, c.Clock.Now())
		}
		release(false)
		return reason, nil
	}
	logger := klog.FromContext(ctx)
	if allowed, err := c.etcdAllows(ctx, member.Node); err != nil || !allowed {
		if err != nil {
			logger.Error(err, "Refusing a control plane node, because the state of etcd is not known", "node", member.Node, "machine", member.Machine)
		}
		return refuse(v1alpha1.DecidedEtcdQuorum, err)
	}
	// Last: it lists all CRs.
	if others, err := c.listOthers(ctx, member); err != nil || len(others) > 0 {
		if err != nil {
			logger.Error(err, "Refusing a control plane node, because it is not known whether another one is under remediation", "node", member.Node, "machine", member.Machine)
		}
		return refuse(v1alpha1.DecidedControlPlaneBusy, err)
	}
	return "", release
}

// confirm reads a Node and judges it by the rules of the NodeHealthCheck. Then it judges the Node of the cache,
// because the watch may have reported a recovery after the read. It returns why a plan that writes a CR must not go
// on, empty if it may.
//
// For a node that has recovered or is gone, it returns whether a plan that deletes its CRs may go on: a watch that
// has just broken may not have shown the next failure (spec 16.7).
func (p *preflight) confirm(ctx context.Context, planned *remediation.Node) (execute.Confirmation, error) {
	live, err := p.Kube.CoreV1().Nodes().Get(ctx, planned.Name, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return execute.Confirmation{}, fmt.Errorf("reading node: %w", err)
	}
	now := p.Clock.Now()
	switch {
	case planned.Constraints.NodeDeleted:
		return execute.Confirmation{Relapsed: !gone}, nil
	case planned.Verdict.State == health.Healthy:
		return execute.Confirmation{Relapsed: gone || live.UID != planned.UID || p.snapshot.judge(live, now) != health.Healthy}, nil
	case gone:
		return execute.Confirmation{Refusal: v1alpha1.DecidedRecovering}, nil
	}
	if reason := cmp.Or(p.snapshot.refusal(planned, live, now), controlPlaneRefusal(planned, live)); reason != "" {
		return execute.Confirmation{Refusal: reason}, nil
	}
	return execute.Confirmation{Refusal: p.snapshot.refusal(planned, p.NodeCache.Get(planned.Name), now)}, nil
}

// controlPlaneRefusal returns why no remediation of a node that was read live may begin: it is a control plane
// node, and has no slot, because the cache did not show it as one (spec 12.2).
func controlPlaneRefusal(planned *remediation.Node, live *corev1.Node) v1alpha1.DecisionReason {
	if len(planned.Own) > 0 || planned.ControlPlane || !remediation.IsControlPlane(live.Labels) {
		return ""
	}
	return v1alpha1.DecidedControlPlaneBusy
}

// refusal returns why the present Node forbids the plan: it is constrained, or no longer unhealthy.
// A Node that is gone, or was replaced by another one, is not unhealthy.
func (s *snapshot) refusal(planned *remediation.Node, node *corev1.Node, now time.Time) v1alpha1.DecisionReason {
	if node == nil || node.UID != planned.UID {
		return v1alpha1.DecidedRecovering
	}
	facts := evaluation.FactsOf(node)
	constraints := remediation.Constraints{NodeConstraints: evaluation.ConstraintsOf(node, &facts, s.selects(node), s.claim(node.Name))}
	constraints.UpdateEnds = remediation.UpdateEnds(node.Annotations, planned.Verdict.Deadline, now)
	if reason := constraints.Refusal(len(planned.Own) == 0); reason != "" {
		return reason
	}
	if s.judge(node, now) != health.Unhealthy {
		return v1alpha1.DecidedRecovering
	}
	return ""
}

// judge returns the state of a Node as it is now.
func (s *snapshot) judge(node *corev1.Node, now time.Time) health.State {
	return evaluation.Judge(&s.nhc.Spec, s.platform.evaluated(), node, s.sightingsOf(node), now).State
}

// sightingsOf returns what was seen of the conditions of a Node before.
func (s *snapshot) sightingsOf(node *corev1.Node) []health.Sighting {
	if s.seen == nil {
		return nil
	}
	return s.seen(node)
}
