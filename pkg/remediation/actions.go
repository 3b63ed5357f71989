// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"reflect"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// An Action is one thing that a plan does. The set of actions is closed: Confirm, Create, Delete,
// MarkTimedOut, WriteLease, ReleaseLease, RemoveConfirmation, and for MachineHealthChecks
// DeleteMachine, RequestExternal and EndExternal. All except Confirm write. Actions are plain data.
type Action interface{ isAction() }

// Confirm reads the Node live and judges it again. The later actions are left out if the
// Node is no longer unhealthy, or if a constraint now forbids them, because they cannot be
// undone (spec 13.3). In a plan for a recovered or deleted Node, they are left out if the
// live read contradicts that (spec 16.7).
type Confirm struct{}

// Create starts a step. If an object has the name already, it is adopted if it is our own
// and the plan did not know it: then an answer was lost, or a cache lags.
type Create struct {
	Object *unstructured.Unstructured
}

// Delete requests the deletion of a CR, bound to its uid.
type Delete struct {
	CR *object.CR
}

// MarkTimedOut tells a remediator to stop, by an annotation on its CR, unless the
// live object shows its success.
type MarkTimedOut struct {
	CR *object.CR
	At time.Time
	// EndsStep means that the mark ends the step. Then the later actions are left out if the
	// mark fails, unless admission denies it (spec 13.5). Without EndsStep they do not depend
	// on the mark.
	EndsStep bool
	// Anew replaces an earlier mark: the remediator has not noticed it (spec 13.8).
	Anew bool
}

// WriteLease creates the lease of the node, or updates it if it has a
// resourceVersion. The actions after it are left out if that fails.
type WriteLease struct {
	Lease *coordinationv1.Lease
}

// ReleaseLease deletes the lease of the node, bound to the version that was observed, or
// written by the same plan.
type ReleaseLease struct {
	Lease *coordinationv1.Lease
}

// RemoveConfirmation removes the manual confirmation from the Node.
type RemoveConfirmation struct {
	Node string
	UID  types.UID
}

// MachineReference identifies a Machine.
type MachineReference struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
}

// DeleteMachine requests the deletion of a Machine, bound to its uid and to the resourceVersion
// that Confirm has seen (spec M10.2).
type DeleteMachine struct {
	Machine MachineReference
}

// RequestExternal asks another controller to remediate a Machine, by annotations (spec M11.1).
type RequestExternal struct {
	Machine MachineReference
}

// EndExternal removes what is left of the request once that controller is done (spec M11.2).
type EndExternal struct {
	Machine MachineReference
}

func (Confirm) isAction()            {}
func (Create) isAction()             {}
func (Delete) isAction()             {}
func (MarkTimedOut) isAction()       {}
func (WriteLease) isAction()         {}
func (ReleaseLease) isAction()       {}
func (RemoveConfirmation) isAction() {}
func (DeleteMachine) isAction()      {}
func (RequestExternal) isAction()    {}
func (EndExternal) isAction()        {}

// ActionName returns the name of an action in logs: that of its type.
func ActionName(action Action) string { return reflect.TypeOf(action).Name() }

// ActionNames returns the names of actions.
func ActionNames(actions []Action) []string {
	names := make([]string, 0, len(actions))
	for _, action := range actions {
		names = append(names, ActionName(action))
	}
	return names
}

// Creates reports whether the plan creates a CR, for the first or a later step. The deletion of a
// Machine and the request to another controller count, too.
func (p *NodePlan) Creates() bool {
	return slices.ContainsFunc(p.Actions, func(action Action) bool {
		switch action.(type) {
		case Create, DeleteMachine, RequestExternal:
			return true
		default:
			return false
		}
	})
}

// waits reports whether the node waits for an action of the plan. If it does not, the
// decision does not depend on the outcome.
func (p *NodePlan) waits() bool {
	return slices.ContainsFunc(p.Actions, func(action Action) bool { return p.FailureReason(action) != "" })
}

// FailureReason returns the reason for the decision if this action of the plan fails. It is
// empty if the node does not wait for the action.
func (p *NodePlan) FailureReason(action Action) v1alpha1.DecisionReason {
	switch action := action.(type) {
	case Create:
		return v1alpha1.DecidedCreateFailed
	case Delete, DeleteMachine:
		return v1alpha1.DecidedDeleteFailed
	case RequestExternal:
		return v1alpha1.DecidedUpdateFailed
	case MarkTimedOut:
		if action.EndsStep {
			return v1alpha1.DecidedUpdateFailed
		}
	case WriteLease:
		if p.Creates() || p.Exhausted {
			return v1alpha1.DecidedUpdateFailed
		}
	case Confirm:
		return p.confirmFailed()
	}
	return ""
}

// confirmFailed returns the reason if the live read fails: the reason of the action that it
// precedes.
func (p *NodePlan) confirmFailed() v1alpha1.DecisionReason {
	for _, action := range p.Actions {
		switch action.(type) {
		case Create:
			return v1alpha1.DecidedCreateFailed
		case Delete, DeleteMachine:
			return v1alpha1.DecidedDeleteFailed
		}
	}
	return v1alpha1.DecidedUpdateFailed
}
