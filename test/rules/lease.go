// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// nodeOfLease returns the node that a lease is for: its owner says, or its name.
func nodeOfLease(lease *coordinationv1.Lease) string {
	for _, owner := range lease.OwnerReferences {
		if owner.Kind == "Node" {
			return owner.Name
		}
	}
	return strings.TrimPrefix(lease.Name, "node-")
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// holderPrefix begins the holder of a lease that a NodeHealthCheck holds (spec 3).
const holderPrefix = "NodeHealthCheck-"

// holderAhead is how far the clock of a holder may be ahead of ours: a lease that is from
// the future by less may have been renewed just now.
const holderAhead = time.Minute

// LeaseValid reports whether a lease of another holder has to be respected (spec 14.3).
func LeaseValid(lease *coordinationv1.Lease, now time.Time) bool {
	end, known := leaseEnd(lease)
	return known && !lease.Spec.RenewTime.After(now.Add(holderAhead)) && !end.Before(now)
}

// leaseEnd returns until when a lease lasts, and false if it does not say so.
func leaseEnd(lease *coordinationv1.Lease) (time.Time, bool) {
	if lease == nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return time.Time{}, false
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second), true
}
