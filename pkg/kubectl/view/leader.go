// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Leader reports whether a controller is at work, as the lease of the leader says.
type Leader struct {
	// Namespace is that of the lease, empty if there is no lease.
	Namespace string `json:"namespace,omitempty"`
	// Holder is empty if the last one has released the lease.
	Holder  string       `json:"holder,omitempty"`
	Renewed *metav1.Time `json:"renewed,omitempty"`
	// Until is when the lease ends unless it is renewed.
	Until *metav1.Time `json:"until,omitempty"`
}

// LeaderLease is the name of the lease of the leader.
const LeaderLease = "nhc-controller"

// NewLeader returns the leader by these leases. If there are several, an earlier installation has left
// one: the lease that was renewed last counts.
func NewLeader(leases []*coordinationv1.Lease) *Leader {
	leader := &Leader{}
	for _, lease := range leases {
		spec := &lease.Spec
		if lease.Name != LeaderLease || spec.RenewTime == nil || (leader.Renewed != nil && !spec.RenewTime.After(leader.Renewed.Time)) {
			continue
		}
		*leader = Leader{Namespace: lease.Namespace, Renewed: instant(spec.RenewTime.Time), Until: instant(spec.RenewTime.Add(time.Duration(value(spec.LeaseDurationSeconds)) * time.Second))}
		if spec.HolderIdentity != nil {
			leader.Holder = *spec.HolderIdentity
		}
	}
	return leader
}

// Problem says that no controller is at work, and what to do about it. It is empty if one is, or if
// that is not known.
func (l *Leader) Problem(now time.Time) string {
	switch {
	case l == nil:
		return ""
	case l.Namespace == "":
		return "No controller is at work: there is no lease " + LeaderLease + ". Install it, or look for its pods: kubectl get pods -A -l app.kubernetes.io/name=nhc-controller"
	case l.Holder == "":
		return fmt.Sprintf("No controller is at work: the last one has stopped %s ago. Look for its pods: kubectl -n %s get pods", l.age(now), l.Namespace)
	case !now.Before(l.Until.Time):
		return fmt.Sprintf("No controller is at work: %s last renewed its lease %s ago. Look for its pods: kubectl -n %s get pods", l.Holder, l.age(now), l.Namespace)
	default:
		return ""
	}
}

func (l *Leader) age(now time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(l.Renewed.Time)))
}
