// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Observation is what one sync saw of one node, and the state after its actions. If a
// sync does not observe a node that [Ledger.Nodes] names, the NodeHealthCheck no longer
// looks after it.
type Observation struct {
	// Node is its name.
	Node string
	// Created is the creationTimestamp of the Node object, zero if it does not exist or is
	// not known. Then nothing shows that it was replaced.
	Created time.Time
	// State is that of the verdict. It says nothing if the Node was deleted.
	State health.State
	// HealthySince is since when a healthy node has been healthy, zero if this is the first
	// sync that sees it healthy.
	HealthySince time.Time
	// NodeDeleted reports that the Node does not exist.
	NodeDeleted bool
	// Selected reports that the selector matches the Node.
	Selected bool
	// Trigger is the condition that the verdict names, empty if it names none.
	Trigger v1alpha1.Trigger
	// Since is when that condition took its status, zero if that is not known.
	Since time.Time
	// WouldBegin reports that only a dry run keeps a remediation from beginning.
	WouldBegin bool
	// CRs are the own CRs.
	CRs []CR
}

// CR is an own CR after a sync.
type CR struct {
	// Remediation is as status shows it, or would show it.
	v1alpha1.Remediation
	// Gone reports that it does not count any more: it has gone since the last sync, or has
	// replaced its Node for good. The other fields are its last known state.
	Gone bool
	// Requested reports that the controller itself has requested its deletion.
	Requested bool
	// Failed reports Succeeded=False.
	Failed bool
	// Replaced reports that its remediator has replaced the node for good.
	Replaced bool
	// Fenced is the first instant at which it says that the node is down for certain, zero if
	// it does not say so.
	Fenced time.Time
}

// begins reports whether an episode begins for a node that has none. Only an unhealthy
// node begins one. A CR for a healthy node is left from an ended episode.
func (o *Observation) begins() bool {
	if o.NodeDeleted || o.State != health.Unhealthy {
		return false
	}
	for i := range o.CRs {
		if o.belongs(&o.CRs[i]) {
			return true
		}
	}
	return o.Selected
}

// belongs reports whether a CR that is in no episode yet can be for this Node.
func (o *Observation) belongs(cr *CR) bool {
	return !cr.Gone && !cr.Started.IsZero() && !cr.Started.Time.Before(o.created())
}

// healthy reports whether the Node exists and is healthy.
func (o *Observation) healthy() bool { return !o.NodeDeleted && o.State == health.Healthy }

// created returns Created in whole seconds, like the times that it is compared with.
func (o *Observation) created() time.Time { return o.Created.Truncate(time.Second) }
