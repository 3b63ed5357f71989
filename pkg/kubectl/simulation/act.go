// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// act carries out the plans in the order of the controller: plans that begin nothing come first.
// Every write succeeds.
func (c *check) act(policy *remediation.Policy, plans []remediation.NodePlan, now time.Time) []remediation.NodeResult {
	results := make([]remediation.NodeResult, len(plans))
	for _, creates := range []bool{false, true} {
		for i := range plans {
			plan := &plans[i]
			if plan.Creates() != creates || results[i].Plan != nil {
				continue
			}
			results[i] = remediation.NodeResult{Plan: plan, Outcome: &remediation.Outcome{}}
			if plan.Candidate && plan.Node.ControlPlane { // One of this sync may have the slot by now.
				controlPlane := c.controlPlane()
				controlPlane.Limit(policy, plans[i:i+1], now)
			}
			for _, action := range plan.Actions {
				c.carryOut(plan.Node.Name, action, results[i].Outcome, now)
			}
		}
	}
	return results
}

// carryOut does one thing.
func (c *check) carryOut(node string, action remediation.Action, outcome *remediation.Outcome, now time.Time) {
	switch action := action.(type) {
	case remediation.Create:
		outcome.Result, outcome.CR, outcome.CreatedAt = remediation.Created, c.create(action.Object, now), now
	case remediation.Delete:
		c.remove(action.CR)
		outcome.Deleted = append(outcome.Deleted, action.CR)
	case remediation.MarkTimedOut:
		c.markTimedOut(action.CR, action.At)
		if action.EndsStep {
			if outcome.TimedOut == nil {
				outcome.TimedOut = map[types.UID]time.Time{}
			}
			outcome.TimedOut[action.CR.UID] = action.At
		}
	case remediation.WriteLease:
		c.leases[node] = action.Lease
	case remediation.ReleaseLease:
		delete(c.leases, node)
	case remediation.RemoveConfirmation:
		confirmed := c.nodes[node].DeepCopy()
		delete(confirmed.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy)
		c.set(node, confirmed)
	default: // To look again finds the same, and Machines are not simulated.
	}
}

// resume adds the CRs and leases of the status of a check. Facts that status does not have, such as
// the conditions of a CR, are as after its creation.
func (w *world) resume(c *check, now time.Time) {
	owner := object.OwnerOf(c.nhc)
	for i := range c.nhc.Status.UnhealthyNodes {
		entry := &c.nhc.Status.UnhealthyNodes[i]
		for j := range entry.Remediations {
			cr := recalled(entry.Name, owner, &entry.Remediations[j])
			w.add(cr, now)
			for _, step := range c.templates.Steps {
				if step.Owns(cr) {
					w.recallLease(owner, entry.Name, step.Duration(), cr)
				}
			}
		}
		if len(entry.Remediations) > 0 {
			w.journal.add(Line{Check: c.nhc.Name, Nodes: []string{entry.Name}, What: StillRunning, Why: "as its status says"}, now)
		}
	}
}

// recallLease adds the lease as it was when a CR was created, or renews it.
func (w *world) recallLease(owner object.Owner, node string, duration time.Duration, cr *object.CR) {
	leased := remediation.LeasedNode{Name: node}
	if lease, free := remediation.AcquireLease(owner, leased, w.leases[node], duration, w.leases[node] == nil, cr.CreationTimestamp.Time); free && lease != nil {
		w.leases[node] = lease
	}
}

// recalled returns a CR as status has it.
func recalled(node string, owner object.Owner, entry *v1alpha1.Remediation) *object.CR {
	cr := &object.CR{
		TypeMeta: metav1.TypeMeta{APIVersion: entry.Resource.APIVersion, Kind: entry.Resource.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: entry.Resource.Namespace, Name: entry.Resource.Name, UID: entry.Resource.UID, CreationTimestamp: entry.Started,
			Annotations:     map[string]string{v1alpha1.AnnotationNodeName: node},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}},
		},
	}
	if entry.TemplateName != "" {
		cr.Annotations[v1alpha1.AnnotationTemplateName] = entry.TemplateName
	}
	if entry.TimedOut != nil {
		cr.Annotations[v1alpha1.AnnotationTimedOut] = entry.TimedOut.UTC().Format(time.RFC3339)
	}
	return cr
}
