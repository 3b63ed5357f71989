// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Node is all that a decision about one node depends on.
type Node struct {
	Name string
	// UID is that of the Node object, empty if it does not exist.
	UID types.UID
	// ControlPlane tells whether the node carries a control plane label (spec 12.1).
	ControlPlane bool
	// Verdict is that of the node's conditions, also where it is not selected.
	Verdict health.Verdict
	// Circumstances restrain what may be done.
	Circumstances Circumstances
	// Own are the CRs that the NodeHealthCheck owns for the node.
	Own []*CR
	// DeletionRequested holds the uids of those whose deletion was requested,
	// though the caches may not show it yet.
	DeletionRequested map[types.UID]bool
	// Unreadable are the CRs that status names and that cannot be read: they count
	// as existing (spec 6.8).
	Unreadable []v1alpha1.Remediation
	// Foreign are CRs of others, for the node or with its name.
	Foreign []*CR
	// RetryAt is when the next attempt is due after a failed one; zero after none.
	RetryAt time.Time
}

// An Action is one intended write. The set of actions is closed: Create, Delete
// and MarkTimedOut. Actions are plain data.
type Action interface{ isAction() }

// Create starts a remediation.
type Create struct {
	Object *unstructured.Unstructured
}

// Delete requests the deletion of a CR, bound to its uid.
type Delete struct {
	CR *CR
}

// MarkTimedOut tells a remediator to stop, by an annotation on its CR. It is a
// help to the remediator: if it fails, the actions after it go on.
type MarkTimedOut struct {
	CR *CR
	At time.Time
}

func (Create) isAction()       {}
func (Delete) isAction()       {}
func (MarkTimedOut) isAction() {}

// NodePlan is what is to be done about one node, and why no more than that.
type NodePlan struct {
	Node Node
	// Actions are carried out in this order.
	Actions []Action
	// Refusal says why an unhealthy node without CR gets none. It is empty for all
	// other nodes.
	Refusal Refusal
	// Blocker is the foreign CR that stands in the way, if that is the refusal.
	Blocker *CR
}

// Plan decides about one node of nhc at the instant now. template is that of the
// single step; it may be nil only where Circumstances.TemplatesUnusable is set.
//
// A plan whose actions have been carried out is followed by an empty one.
func Plan(nhc *v1alpha1.NodeHealthCheck, node Node, template *Template, now time.Time) NodePlan {
	plan := NodePlan{Node: node}
	switch {
	case node.Circumstances.NodeDeleted:
		plan.Actions = cleanUp(node, now)
	case node.Verdict.State == health.Healthy:
		plan.Actions = recovery(node)
	case node.Verdict.State == health.SoonUnhealthy:
		// It may be healthy again in a moment, or not: nothing begins and nothing
		// ends (spec 7.5).
	case len(node.Own) > 0 || len(node.Unreadable) > 0:
		plan.Actions = release(node, now)
	default:
		plan.start(nhc, template)
	}
	if len(plan.Actions) > 0 && now.Before(node.RetryAt) {
		if _, create := plan.Actions[0].(Create); create {
			plan.Refusal = RefusedRetryLater
		}
		plan.Actions = nil
	}
	return plan
}

// deleting tells whether the deletion of cr is on its way.
func (n *Node) deleting(cr *CR) bool { return cr.Deleting() || n.DeletionRequested[cr.UID] }

// start plans the first CR of an unhealthy node, unless something refuses it.
func (p *NodePlan) start(nhc *v1alpha1.NodeHealthCheck, template *Template) {
	p.Refusal = p.Node.Circumstances.Refusal()
	if p.Refusal != "" {
		return
	}
	object := Render(nhc, p.Node, template)
	if p.Blocker = blocker(p.Node, template, object); p.Blocker != nil {
		p.Refusal = RefusedForeignRemediation
		return
	}
	p.Actions = []Action{Create{Object: object}}
}

// blocker returns the foreign CR that stands for the same node and template, or
// has the name that is needed (spec 11.4).
func blocker(node Node, template *Template, object *unstructured.Unstructured) *CR {
	for _, cr := range node.Foreign {
		if cr.Kind != object.GetKind() || cr.GroupVersionKind().Group != object.GroupVersionKind().Group || cr.Namespace != object.GetNamespace() {
			continue
		}
		if cr.Name == object.GetName() {
			return cr
		}
		if cr.Node() == node.Name && cr.createdFrom(template) {
			return cr
		}
	}
	return nil
}

// createdFrom tells whether the CR belongs to this template of its kind and
// namespace (spec 1.4).
func (c *CR) createdFrom(template *Template) bool {
	if name, known := c.Template(); known {
		return name == template.Name
	}
	return c.Name == c.Node()
}

// recovery plans the deletion of all CRs of a healthy node (spec 16.1).
func recovery(node Node) []Action {
	if !node.Circumstances.Permissions().DeleteRecovered {
		return nil
	}
	var actions []Action
	for _, cr := range node.Own {
		if !node.deleting(cr) {
			actions = append(actions, Delete{CR: cr})
		}
	}
	return actions
}

// release helps CRs that somebody else deletes to go, although their node is
// unhealthy, so that the remediation can begin anew (spec 13.8).
func release(node Node, now time.Time) []Action {
	var actions []Action
	for _, cr := range node.Own {
		if node.deleting(cr) && cr.mayTimeOut() {
			actions = append(actions, MarkTimedOut{CR: cr, At: now})
		}
	}
	return actions
}

// cleanUp plans what follows the deletion of the Node (spec 17.2, 17.3).
func cleanUp(node Node, now time.Time) []Action {
	if !node.Circumstances.Permissions().CleanUp {
		return nil
	}
	var actions []Action
	for _, cr := range node.Own {
		if cr.AwaitsReplacement() && !node.deleting(cr) {
			continue
		}
		if cr.mayTimeOut() {
			actions = append(actions, MarkTimedOut{CR: cr, At: now})
		}
		if !node.deleting(cr) {
			actions = append(actions, Delete{CR: cr})
		}
	}
	return actions
}

// AwaitsReplacement tells whether the remediator still works although the Node is
// gone, because it replaces the node for good (spec 17.3).
func (c *CR) AwaitsReplacement() bool {
	return c.PermanentNodeDeletionExpected == corev1.ConditionTrue && c.Succeeded != corev1.ConditionTrue
}

// mayTimeOut tells whether the CR may be told to stop: once, and never after it
// has succeeded (spec 13.8).
func (c *CR) mayTimeOut() bool { return !c.TimedOut() && c.Succeeded != corev1.ConditionTrue }
