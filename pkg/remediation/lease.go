// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// LeaseEnd returns until when the lease holds, and false if a part of it is missing.
func LeaseEnd(lease *coordinationv1.Lease) (time.Time, bool) {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return time.Time{}, false
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second), true
}

// leaseTolerance is how far the clock of another holder may be ahead. A lease that was
// renewed just now must not look like one from the future, which anybody may take.
const leaseTolerance = time.Minute

// LeaseValid reports whether a lease of another holder must be respected (spec 14.3).
func LeaseValid(lease *coordinationv1.Lease, now time.Time) bool {
	end, complete := LeaseEnd(lease)
	return complete && !end.Before(now) && !lease.Spec.RenewTime.After(now.Add(leaseTolerance))
}

// LeaseHolder returns the holder of a lease, empty if there is no lease.
func LeaseHolder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// LeaseTakenOver returns the text of the event after an owner has taken over the expired lease of another holder
// (spec 14.4). It is empty if there was no other holder.
func LeaseTakenOver(node string, lease *coordinationv1.Lease, owner object.Owner) string {
	holder, until := LeaseHolder(lease), "which did not say until when it held it"
	if holder == "" || holder == owner.LeaseHolder() {
		return ""
	}
	if end, complete := LeaseEnd(lease); complete {
		until = "which held it until " + end.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("Took over the lease of node %s from %s, %s", node, holder, until)
}

// holds reports whether the owner holds the lease of the node.
func (n *Node) holds(owner object.Owner) bool {
	return n.Lease != nil && LeaseHolder(n.Lease) == owner.LeaseHolder()
}

// leaseDuration returns the duration of a lease for a step, in seconds: a buffer
// longer than the step, as far as a lease can say so.
func leaseDuration(t time.Duration) *int32 {
	t = min(t, math.MaxInt32*time.Second-v1alpha1.LeaseBuffer)
	return new(int32((t + v1alpha1.LeaseBuffer + time.Second - 1) / time.Second))
}

// acquire returns the lease to write before a CR is created, and false if it is taken.
// fresh means the first step: the lease starts anew. A nil lease needs no write.
func (p *planner) acquire(step Step, fresh bool) (lease *coordinationv1.Lease, free bool) {
	node := LeasedNode{Name: p.Node.Name, UID: p.Node.UID}
	return AcquireLease(p.Owner, node, p.Node.Lease, step.Duration(), fresh, p.now)
}

// LeasedNode is the Node that a lease is for.
type LeasedNode struct {
	Name string
	UID  types.UID
}

// AcquireLease returns the lease of a node to write before the owner begins a remediation of this
// duration, and false if another holder has it (spec 14.1 to 14.4). old is the present lease, nil if
// there is none. fresh means that nothing is under way for the node yet: the lease starts anew. A
// nil lease needs no write.
func AcquireLease(owner object.Owner, node LeasedNode, old *coordinationv1.Lease, duration time.Duration, fresh bool, now time.Time) (lease *coordinationv1.Lease, free bool) {
	held := LeaseHolder(old) == owner.LeaseHolder()
	switch {
	case old == nil:
		return newLease(owner, node, duration, now), true
	case held && !fresh:
		return RenewLease(old, duration, now), true
	case held:
		lease = old.DeepCopy()
		lease.OwnerReferences = node.reference() // It may be of a Node that had the same name.
		if lease.Spec.LeaseTransitions == nil {
			lease.Spec.LeaseTransitions = new(int32(0))
		}
	case LeaseValid(old, now):
		return nil, false
	default:
		lease = old.DeepCopy()
		lease.Spec.HolderIdentity = new(owner.LeaseHolder())
		lease.Spec.LeaseTransitions = nextTransition(old)
		lease.OwnerReferences = node.reference()
	}
	lease.Spec.AcquireTime = new(micro(now))
	lease.Spec.RenewTime = new(micro(now))
	lease.Spec.LeaseDurationSeconds = leaseDuration(duration)
	return lease, true
}

func newLease(owner object.Owner, node LeasedNode, duration time.Duration, now time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: object.LeaseName(node.Name), OwnerReferences: node.reference()},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       new(owner.LeaseHolder()),
			AcquireTime:          new(micro(now)),
			RenewTime:            new(micro(now)),
			LeaseDurationSeconds: leaseDuration(duration),
			LeaseTransitions:     new(int32(0)),
		},
	}
}

// RenewLease returns the lease renewed for t, or nil if it holds long enough. Its end
// never moves to an earlier time (spec 14.5).
func RenewLease(old *coordinationv1.Lease, t time.Duration, now time.Time) *coordinationv1.Lease {
	end, complete := LeaseEnd(old)
	if complete && old.Spec.AcquireTime != nil && !end.Before(now.Add(t)) {
		return nil
	}
	lease := old.DeepCopy()
	if !complete || old.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = new(micro(now))
		lease.Spec.LeaseTransitions = nextTransition(old)
	}
	if !complete || end.Before(now.Add(t)) {
		lease.Spec.RenewTime = new(micro(now))
		lease.Spec.LeaseDurationSeconds = leaseDuration(t)
	}
	return lease
}

// RenewalDue returns when a held lease has to be renewed: a buffer before it ends.
func RenewalDue(lease *coordinationv1.Lease) time.Time {
	end, complete := LeaseEnd(lease)
	if !complete {
		return time.Time{}
	}
	return end.Add(-v1alpha1.LeaseBuffer)
}

// overdue returns when the lease of a classic remediation is overdue (spec 14.7).
func overdue(lease *coordinationv1.Lease) (time.Time, bool) {
	if lease == nil || lease.Spec.AcquireTime == nil {
		return time.Time{}, false
	}
	return lease.Spec.AcquireTime.Add(v1alpha1.ClassicLeaseOverdue), true
}

func transitions(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

// nextTransition returns the number of transitions plus one, up to the largest number.
func nextTransition(lease *coordinationv1.Lease) *int32 {
	return new(min(transitions(lease), math.MaxInt32-1) + 1)
}

func (n LeasedNode) reference() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
}

// micro returns an instant as a lease holds it. Whole seconds, as all times here.
func micro(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t.Truncate(time.Second)) }
