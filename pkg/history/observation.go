// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Observation is what one round saw of one node, and what it left behind. A node
// that has an open episode and is not observed is taken for one that is no longer
// looked after.
type Observation struct {
	// Node is its name.
	Node string
	// Created is the creationTimestamp of the Node object, zero if it does not exist
	// or if that is not known: then no namesake is ever found out.
	Created time.Time
	// State is that of the verdict. It says nothing if the Node was deleted.
	State health.State
	// NodeDeleted tells that the Node does not exist.
	NodeDeleted bool
	// Selected tells that the selector matches the Node.
	Selected bool
	// Trigger is the condition that the verdict names, nil if it names none.
	Trigger *v1alpha1.Trigger
	// Deadline is the instant at which that condition had lasted its duration.
	Deadline time.Time
	// Remediations are the own CRs as status shows them after the round.
	Remediations []v1alpha1.Remediation
	// Failed holds those of them that say Succeeded=False.
	Failed sets.Set[types.UID]
	// Fenced is the earliest instant at which an own CR, also one that went in this
	// round, says that the node was safely down. It is zero if none says so.
	Fenced time.Time
}

// begins tells whether an episode begins for a node that has none. Only a node that
// is unhealthy begins one: a CR that shows up for a healthy one is the rest of an
// episode that has ended.
func (o *Observation) begins() bool {
	if o.NodeDeleted || o.State != health.Unhealthy {
		return false
	}
	for i := range o.Remediations {
		if o.belongs(&o.Remediations[i]) {
			return true
		}
	}
	return o.Selected
}

// belongs tells whether a CR that is in no episode yet can be for this Node.
func (o *Observation) belongs(cr *v1alpha1.Remediation) bool {
	return !cr.Started.IsZero() && !cr.Started.Time.Before(o.created())
}

// created returns Created with the precision of what it is compared to.
func (o *Observation) created() time.Time { return o.Created.Truncate(time.Second) }
