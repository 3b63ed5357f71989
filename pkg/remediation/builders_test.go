// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// The objects of the tests.
const (
	testGroupVersion = objecttest.GroupVersion
	testNamespace    = objecttest.Namespace
	testKind         = objecttest.Kind
)

var (
	epoch = objecttest.Epoch

	reboot, supportsMultiple, named = objecttest.Template, objecttest.SupportsMultiple, objecttest.Named

	cr, foreign, deleting, succeeded, failed, awaitsDelete, timedOut = objecttest.CR, objecttest.Foreign, objecttest.Deleting, objecttest.Succeeded, objecttest.Failed, objecttest.AwaitsDeletion, objecttest.TimedOut
	ofKind, ofGroup, inNamespace, forNode, from, annotate            = objecttest.OfKind, objecttest.OfGroup, objecttest.InNamespace, objecttest.ForNode, objecttest.From, objecttest.Annotate

	ownerNamed = objecttest.Owner
)

// check returns the NodeHealthCheck of the tests.
func check() *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers-uid"}}
}

// sick returns a node that is unhealthy and exists, restrained by nothing.
func sick(name string, changes ...func(*Node)) Node {
	node := Node{
		Name: name, UID: types.UID(name + "-uid"),
		Verdict: health.Verdict{State: health.Unhealthy, Type: "Ready", Status: "Unknown", Since: epoch, Deadline: epoch.Add(time.Minute)},
	}
	for _, change := range changes {
		change(&node)
	}
	return node
}

func well(n *Node)                       { n.Verdict = health.Verdict{} }
func soon(n *Node)                       { n.Verdict.State = health.SoonUnhealthy }
func gone(n *Node)                       { n.UID, n.Verdict, n.Constraints.NodeDeleted = "", health.Verdict{}, true }
func with(own ...*object.CR) func(*Node) { return func(n *Node) { n.Own = own } }
func near(foreign ...*object.CR) func(*Node) {
	return func(n *Node) { n.Foreign = foreign }
}
func under(restrain func(*Constraints)) func(*Node) {
	return func(n *Node) { restrain(&n.Constraints) }
}
func requested(uids ...types.UID) func(*Node) {
	return func(n *Node) {
		n.DeletionRequested = map[types.UID]bool{}
		for _, uid := range uids {
			n.DeletionRequested[uid] = true
		}
	}
}

// classicPolicy is the policy of a classic NodeHealthCheck with one template.
func classicPolicy(template *object.Template) *Policy {
	return &Policy{Owner: object.OwnerOf(check()), Steps: []Step{rebootStep()}, Templates: []*object.Template{template}}
}

// dryRun makes a policy one that only reports.
func dryRun(policy *Policy) *Policy {
	policy.DryRun = true
	return policy
}

// planFor is the plan of a classic NodeHealthCheck.
func planFor(node Node, now time.Time) NodePlan { return planBy(classicPolicy(reboot()), node, now) }

// planBy is the plan for one node.
func planBy(policy *Policy, node Node, now time.Time) NodePlan {
	return planWithheld(policy, node, "", now)
}

// planWithheld is the plan for one node whose first CR a limit refuses, if there is a reason.
func planWithheld(policy *Policy, node Node, reason v1alpha1.DecisionReason, now time.Time) NodePlan {
	plan := policy.plan(&node, nil, now)
	if plan.Candidate && reason != "" {
		withheld := &Withholding{Reason: reason}
		if reason == v1alpha1.DecidedBudgetExhausted {
			withheld.Message = "zones a: 2 of at most 1 nodes are not healthy"
		}
		policy.Withhold(&plan, withheld, now)
	}
	return plan
}

// describe writes actions down, one a line.
func describe(actions []Action) []string {
	var lines []string
	for _, action := range actions {
		switch action := action.(type) {
		case Confirm:
			lines = append(lines, "confirm")
		case Create:
			lines = append(lines, "create "+action.Object.GetName())
		case Delete:
			lines = append(lines, "delete "+action.CR.Name)
		case MarkTimedOut:
			verb := "mark "
			switch {
			case action.EndsStep:
				verb = "end "
			case action.Anew:
				verb = "remind "
			}
			lines = append(lines, verb+action.CR.Name+" at "+action.At.Format(time.TimeOnly))
		case WriteLease:
			lines = append(lines, "lease "+action.Lease.Name)
		case ReleaseLease:
			lines = append(lines, "release "+action.Lease.Name)
		case RemoveConfirmation:
			lines = append(lines, "unconfirm "+action.Node)
		}
	}
	return lines
}

// rendered is the CR of a node of the NodeHealthCheck of the tests.
func rendered(node Node, template *object.Template) *unstructured.Unstructured {
	return object.Render(object.OwnerOf(check()), node.target(template), template)
}
