// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// An Action is one intended write. The set of actions is closed: Create, Delete,
// MarkTimedOut, WriteLease, ReleaseLease and RemoveConfirmation. Actions are plain
// data.
type Action interface{ isAction() }

// Create starts a step.
type Create struct {
	Object *unstructured.Unstructured
}

// Delete requests the deletion of a CR, bound to its uid.
type Delete struct {
	CR *CR
}

// MarkTimedOut tells a remediator to stop, by an annotation on its CR, unless the
// live object shows its success.
type MarkTimedOut struct {
	CR *CR
	At time.Time
	// EndsStep means that the step is over, which is the condition of all later
	// actions: they are left out if it could not be marked, except where the CR says
	// itself that it has failed (spec 13.5). Otherwise the mark is a mere help.
	EndsStep bool
}

// WriteLease creates the lease of the node, or updates it if it has a
// resourceVersion. The actions after it are left out if that fails.
type WriteLease struct {
	Lease *coordinationv1.Lease
}

// ReleaseLease deletes the lease of the node, bound to what was observed.
type ReleaseLease struct {
	Lease *coordinationv1.Lease
}

// RemoveConfirmation removes the manual confirmation from the Node.
type RemoveConfirmation struct {
	Node string
	UID  types.UID
}

func (Create) isAction()             {}
func (Delete) isAction()             {}
func (MarkTimedOut) isAction()       {}
func (WriteLease) isAction()         {}
func (ReleaseLease) isAction()       {}
func (RemoveConfirmation) isAction() {}

// ActionName returns the name of an action in logs.
func ActionName(action Action) string {
	switch action.(type) {
	case Create:
		return "Create"
	case Delete:
		return "Delete"
	case MarkTimedOut:
		return "MarkTimedOut"
	case WriteLease:
		return "WriteLease"
	case ReleaseLease:
		return "ReleaseLease"
	case RemoveConfirmation:
		return "RemoveConfirmation"
	default:
		return "Unknown"
	}
}
