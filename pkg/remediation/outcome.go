// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Result is the result of a plan. The first result counts. Every result except a failed
// deletion ends the plan.
type Result string

const (
	// Created: this call created the CR.
	Created Result = "Created"
	// Adopted: an earlier call created the CR, and its answer was lost.
	Adopted Result = "Adopted"
	// Blocked: a CR that does not belong to this step has the needed name.
	Blocked Result = "Blocked"
	// StillDeleting: the CR with the needed name is being deleted.
	StillDeleting Result = "StillDeleting"
	// LeaseLost: another client has written the lease since it was observed.
	LeaseLost Result = "LeaseLost"
	// Requested: the deletion of a Machine, or its external remediation, was accepted.
	Requested Result = "Requested"
	// Recovered: a live read found the node no longer unhealthy.
	Recovered Result = "Recovered"
	// Relapsed: a live read found the node not healthy, or not gone, although a cache shows it so.
	Relapsed Result = "Relapsed"
	// Refused: a live read found a constraint of the node that the plan did not know. Reason
	// names the constraint.
	Refused Result = "Refused"
	// Deferred: the plan is left to the next batch (spec 8.4).
	Deferred Result = "Deferred"
	// Failed: a write that the node waits for has failed. Reason says which one.
	Failed Result = "Failed"
	// Unknown: the creation has failed, but the CR may exist.
	Unknown Result = "Unknown"
)

// Outcome is the outcome of a NodePlan. The zero value is the outcome of a plan that begins and
// ends nothing.
type Outcome struct {
	Result Result
	// Reason is the reason of the decision if Result is Recovered, Refused, Failed or
	// Unknown.
	Reason v1alpha1.DecisionReason
	// CR is the CR that was created or adopted, or that blocks the plan.
	CR *object.CR
	// CreatedAt is when it was known that the CR exists.
	CreatedAt time.Time
	// Deleted are the CRs whose deletion was requested by this call.
	Deleted []*object.CR
	// Gone are CRs that no longer exist.
	Gone []*object.CR
	// TimedOut holds the CRs whose step has ended by this call, and when.
	TimedOut map[types.UID]time.Time
	// LeaseWritten means that the node has the lease of the plan. LeaseBefore is its lease when the plan
	// was made, nil if there was none.
	LeaseWritten bool
	LeaseBefore  *coordinationv1.Lease
	// ReleaseFailed means that the lease was not deleted. Either it has changed since it was
	// observed, which is no failure, or Err says why.
	ReleaseFailed bool
	// Err joins all failures, also those that the node does not wait for. The other fields
	// show what was done.
	Err error
}

// NewCR returns the CR that exists for the node since the plan was made, nil if there is none.
func (o *Outcome) NewCR() *object.CR {
	if o.Result == Created || o.Result == Adopted {
		return o.CR
	}
	return nil
}

// Begun reports whether a remediation has begun since the plan was made.
func (o *Outcome) Begun() bool { return o.Result == Requested || o.NewCR() != nil }

// Blocker returns the CR that has the name that was needed, nil if there is none.
func (o *Outcome) Blocker() *object.CR {
	if o.Result == Blocked {
		return o.CR
	}
	return nil
}

// NodeResult is a plan with its outcome.
type NodeResult struct {
	Plan    *NodePlan
	Outcome *Outcome
}
