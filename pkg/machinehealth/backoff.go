// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"math"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// The default delays of deletions (spec M2).
const (
	DefaultBackOffBase = 5 * time.Minute
	DefaultBackOffCap  = 20 * time.Minute
)

// BackOff slows down the deletion of Machines that fail one after the other before they have a
// Node. Otherwise an owner whose Machines never start would replace them for ever. The
// autoscaler, which measures the age of each Machine, would never notice (spec M14).
type BackOff struct {
	// Base is the first delay. Each later delay is twice as long, up to Cap.
	Base, Cap time.Duration
}

// BackOffConcerns reports whether deletions for a reason are slowed down (spec M14.1).
func BackOffConcerns(trigger string) bool {
	return trigger == v1beta1.TriggerMachineFailed || trigger == v1beta1.TriggerNodeStartupTimeout
}

// Delay returns how long a Machine has to live after this number of rounds.
func (b BackOff) Delay(rounds int32) time.Duration {
	if rounds <= 0 {
		return 0
	}
	delay := b.Base
	for range rounds - 1 {
		if delay >= b.Cap/2 {
			return b.Cap
		}
		delay *= 2
	}
	return min(delay, b.Cap)
}

// resetAfter is the time after which an owner begins anew, as a multiple of Cap.
const resetAfter = 3

// Rounds are the deletions of Machines of one owner so far. Machines that were created together
// are one round.
type Rounds struct {
	// Count is how many there were.
	Count int32
	// Last is when the last one began.
	Last time.Time
}

// RoundsOf reads the lease of an owner, nil if there is none. A lease that lacks a part counts no
// rounds.
func RoundsOf(lease *coordinationv1.Lease) Rounds {
	if lease == nil || lease.Spec.LeaseTransitions == nil || lease.Spec.RenewTime == nil || *lease.Spec.LeaseTransitions <= 0 {
		return Rounds{}
	}
	return Rounds{Count: *lease.Spec.LeaseTransitions, Last: lease.Spec.RenewTime.Time}
}

// belongs reports whether a Machine was created before the last round began, so that it is part of
// that round.
func (r Rounds) belongs(created time.Time) bool {
	return r.Count > 0 && created.Before(r.Last.Truncate(time.Second))
}

// Due returns when a Machine may be deleted at the earliest (spec M14.2).
func (b BackOff) Due(rounds Rounds, created time.Time) time.Time {
	count := rounds.Count
	if rounds.belongs(created) {
		count-- // It belongs to a round that other Machines of its age have begun.
	}
	return created.Add(b.Delay(count))
}

// Over reports whether the owner begins anew: a Machine that it created after the last round is
// healthy, or the last round was long ago (spec M14.3). newestHealthy is the creation of the
// youngest healthy Machine of the owner, zero if there is none.
func (b BackOff) Over(rounds Rounds, newestHealthy, now time.Time) bool {
	if rounds.Count == 0 {
		return false
	}
	return !now.Before(b.End(rounds)) || (!newestHealthy.IsZero() && !rounds.belongs(newestHealthy))
}

// End returns when the rounds are forgotten.
func (b BackOff) End(rounds Rounds) time.Time { return rounds.Last.Add(resetAfter * b.Cap) }

// backOffPrefix starts the name of the lease that counts the rounds of an owner.
const backOffPrefix = "machine-owner-"

// BackOffLeaseName returns the name of the lease that counts the rounds of an owner.
func BackOffLeaseName(owner types.UID) string { return backOffPrefix + string(owner) }

// annotationOwner names the owner in its lease, for people.
const annotationOwner = "nhc-controller.io/owner"

// begin returns the lease to write before a Machine is deleted, and nil if that deletion begins no
// round (spec M14.3, M14.4). old is the lease of the owner, nil if there is none.
func (b BackOff) begin(old *coordinationv1.Lease, check object.Owner, machine *Machine, now time.Time) *coordinationv1.Lease {
	rounds := RoundsOf(old)
	if rounds.belongs(machine.CreationTimestamp.Time) {
		return nil
	}
	owner := machine.Owner()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: BackOffLeaseName(owner.UID)}}
	if old != nil {
		lease = old.DeepCopy()
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationOwner, describeOwner(owner, machine.Namespace))
	begun := metav1.NewMicroTime(now.Truncate(time.Second))
	if rounds.Count == 0 || lease.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = &begun
	}
	count := min(rounds.Count, math.MaxInt32-1) + 1
	lease.Spec.HolderIdentity = new(check.LeaseHolder())
	lease.Spec.LeaseTransitions = &count
	lease.Spec.RenewTime = &begun
	lease.Spec.LeaseDurationSeconds = new(int32(max(time.Second, min(b.Delay(count), math.MaxInt32*time.Second)) / time.Second))
	return lease
}

// describeOwner returns <kind>.<group>/<namespace>/<name>.
func describeOwner(owner *metav1.OwnerReference, namespace string) string {
	kind := owner.Kind
	if group, _, found := strings.Cut(owner.APIVersion, "/"); found {
		kind += "." + group
	}
	return fmt.Sprintf("%s/%s/%s", kind, namespace, owner.Name)
}

// IsBackOffLease reports whether a lease counts the rounds of an owner, by its name.
func IsBackOffLease(name string) bool { return strings.HasPrefix(name, backOffPrefix) }

// OwnerOfBackOffLease returns the owner whose rounds a lease counts, by its name, and false if it counts
// none.
func OwnerOfBackOffLease(name string) (owner types.UID, counts bool) {
	uid, counts := strings.CutPrefix(name, backOffPrefix)
	return types.UID(uid), counts
}
