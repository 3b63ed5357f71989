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

// An Action is one thing that a plan does. The set of actions is closed: Confirm, Create,
// Delete, MarkTimedOut, WriteLease, ReleaseLease, RemoveConfirmation, and of MachineHealthChecks
// DeleteMachine, RequestExternal and EndExternal. All but Confirm write. Actions are plain data.
type Action interface{ isAction() }

// Confirm reads the Node live and judges it again. The later actions are left out if it
// is no longer unhealthy, or if what permitted them is no longer so: they cannot be
// undone (spec 13.3). Of a node that has recovered or is gone they are left out if that
// is not so (spec 16.7).
type Confirm struct{}

// Create starts a step. An object that has the name already is adopted if it is our own
// and was not known when the plan was made: then an answer was lost, or a cache lags.
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
	// EndsStep means that the step is over, which is the condition of all later
	// actions: they are left out if it could not be marked, unless admission denies the
	// mark (spec 13.5). Otherwise the mark is a mere help.
	EndsStep bool
	// Anew replaces an earlier mark: the remediator has not noticed it (spec 13.8).
	Anew bool
}

// WriteLease creates the lease of the node, or updates it if it has a
// resourceVersion. The actions after it are left out if that fails.
type WriteLease struct {
	Lease *coordinationv1.Lease
}

// ReleaseLease deletes the lease of the node, bound to what was observed or, in the same
// plan, written.
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

// Creates reports whether the plan creates a CR: the first one of the node, or that of a later
// step. Of a Machine, its deletion and the request to another controller are as good.
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

// waits reports whether the node waits for something in the plan: for the others a
// decision does not depend on what becomes of them.
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

// confirmFailed returns the reason if the live read fails: that of what it comes before.
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
