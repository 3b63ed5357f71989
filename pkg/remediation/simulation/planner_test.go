// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object/objecttest"
)

var epoch, supportsMultiple, ownerNamed = objecttest.Epoch, objecttest.SupportsMultiple, objecttest.Owner

// leaseTolerance is how far the clock of another holder may be ahead (spec 14.3).
const leaseTolerance = time.Minute

func leaseHolder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func transitions(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

func micro(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t.Truncate(time.Second)) }

// recordedTimeout returns when status says that the step of a CR ended.
func recordedTimeout(node *remediation.Node, cr *object.CR) *metav1.Time {
	for i := range node.Recorded {
		if node.Recorded[i].Resource.UID == cr.UID {
			return node.Recorded[i].TimedOut
		}
	}
	return nil
}

// onItsWay reports whether the deletion of a CR was requested.
func onItsWay(node *remediation.Node, cr *object.CR) bool {
	return cr.Deleting() || node.DeletionRequested[cr.UID]
}

func begins(plan remediation.NodePlan) bool { return plan.Begins() }

// waits reports whether a node waits for something in its plan.
func waits(plan *remediation.NodePlan) bool {
	return slices.ContainsFunc(plan.Actions, func(action remediation.Action) bool { return plan.FailureReason(action) != "" })
}

// heldForAll has the reasons whose message is that of condition RemediationAllowed (spec 23b.5).
var heldForAll = map[v1alpha1.DecisionReason]bool{
	v1alpha1.DecidedDisabled: true, v1alpha1.DecidedInvalidSpec: true, v1alpha1.DecidedTerminating: true, v1alpha1.DecidedClusterUpgrading: true,
	v1alpha1.DecidedPaused: true, v1alpha1.DecidedGateClosed: true, v1alpha1.DecidedStormActive: true, v1alpha1.DecidedClockUntrusted: true,
}
