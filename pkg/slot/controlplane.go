// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slot manages the right to begin the remediation of a control plane node or Machine: at most one in the whole
// cluster is under remediation (spec 12.2, M13.1). The controllers of both health checks share it.
package slot

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// ControlPlane is the state of the control plane nodes (spec 12). At most one of them in the
// whole cluster is under remediation.
type ControlPlane struct {
	// Remediated are the names of the nodes, and of the Machines without one, whose
	// remediation takes the slot (spec 12.2).
	Remediated []string
	// SlotHolders are the names of the control plane Machines that take the slot from a node, by the name of
	// that node. A Machine that takes the slot may itself be the one to remediate (spec M13.1).
	SlotHolders map[string][]string
	// Unknown means that these nodes are not known. Told is what status says of those that wait.
	Unknown bool
	Told    map[string]string
	// Members are all control plane nodes, where their conditions report whether etcd has a
	// quorum (spec 12.5). Nil where etcd itself is asked before a remediation begins.
	Members []*corev1.Node
}

// Limit withholds the first CR from the candidates that must not begin at the instant now. It changes the
// plans in place. A refused candidate takes nothing from the others.
func (c *ControlPlane) Limit(policy *remediation.Policy, plans []remediation.NodePlan, now time.Time) {
	for i := range plans {
		if !plans[i].Candidate {
			continue
		}
		if withheld := c.refusal(plans[i].Node); withheld != nil {
			policy.Withhold(&plans[i], withheld, now)
		}
	}
}

// refusal returns why a candidate may not begin, in the order of spec 5.4, and nil if it may.
func (c *ControlPlane) refusal(node *remediation.Node) *remediation.Withholding {
	switch {
	case !node.ControlPlane:
		return nil
	case c.Busy(node.Name):
		return &remediation.Withholding{Reason: v1alpha1.DecidedControlPlaneBusy, Message: c.explain(node.Name)}
	case c.Members != nil && !remediation.QuorumWithout(c.Members, node.Name):
		return &remediation.Withholding{Reason: v1alpha1.DecidedEtcdQuorum}
	default:
		return nil
	}
}

// Busy reports whether another control plane node is under remediation, or may be.
func (c *ControlPlane) Busy(node string) bool { return c.Unknown || len(c.others(node)) > 0 }

// others returns the slot holders, except the node itself.
func (c *ControlPlane) others(node string) []string {
	return slices.DeleteFunc(slices.Concat(c.Remediated, c.SlotHolders[node]), func(other string) bool { return other == node })
}

// explain names the slot holder that a node waits for. It is the first by name, so that the
// message does not depend on the order of caches. If the holder is not known, the message is that of status.
func (c *ControlPlane) explain(node string) string {
	others := c.others(node)
	if len(others) == 0 {
		return c.Told[node]
	}
	return slices.Min(others) + " is under remediation or being replaced, and only one member of the control plane may be at a time"
}
