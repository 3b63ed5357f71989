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
)

const (
	testGroupVersion = "example.com/v1"
	testNamespace    = "remediators"
	testKind         = "RebootRemediation"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// check returns the NodeHealthCheck of the tests.
func check() *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers-uid"}}
}

// reboot returns a template.
func reboot(changes ...func(*Template)) *Template {
	template := &Template{
		TypeMeta:   metav1.TypeMeta{APIVersion: testGroupVersion, Kind: testKind + "Template"},
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "reboot", UID: "template-uid", ResourceVersion: "1"},
		Spec:       map[string]any{"strategy": "reboot"},
	}
	for _, change := range changes {
		change(template)
	}
	return template
}

func supportsMultiple(t *Template) {
	t.Annotations = map[string]string{v1alpha1.AnnotationMultipleTemplates: ""}
}

// cr returns an own CR that is named like its node.
func cr(name string, changes ...func(*CR)) *CR {
	cr := &CR{
		TypeMeta: metav1.TypeMeta{APIVersion: testGroupVersion, Kind: testKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: metav1.NewTime(epoch),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: "workers"}},
		},
	}
	for _, change := range changes {
		change(cr)
	}
	return cr
}

func foreign(c *CR)                  { c.OwnerReferences = nil }
func deleting(c *CR)                 { c.DeletionTimestamp = new(metav1.NewTime(epoch)) }
func succeeded(c *CR)                { c.Succeeded = "True" }
func failed(c *CR)                   { c.Succeeded = "False" }
func awaitsDelete(c *CR)             { c.PermanentNodeDeletionExpected = "True" }
func timedOut(c *CR)                 { annotate(v1alpha1.AnnotationTimedOut, "2026-01-01T00:00:00Z")(c) }
func ofKind(k string) func(*CR)      { return func(c *CR) { c.Kind = k } }
func ofGroup(gv string) func(*CR)    { return func(c *CR) { c.APIVersion = gv } }
func inNamespace(n string) func(*CR) { return func(c *CR) { c.Namespace = n } }
func forNode(n string) func(*CR)     { return annotate(v1alpha1.AnnotationNodeName, n) }
func from(t string) func(*CR)        { return annotate(v1alpha1.AnnotationTemplateName, t) }

func annotate(key, value string) func(*CR) {
	return func(c *CR) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[key] = value
	}
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

func well(n *Node)                { n.Verdict = health.Verdict{} }
func soon(n *Node)                { n.Verdict.State = health.SoonUnhealthy }
func gone(n *Node)                { n.UID, n.Verdict, n.Constraints.NodeDeleted = "", health.Verdict{}, true }
func with(own ...*CR) func(*Node) { return func(n *Node) { n.Own = own } }
func near(foreign ...*CR) func(*Node) {
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

// ownerNamed returns a NodeHealthCheck of this name as owner.
func ownerNamed(name string) Owner {
	return Owner{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: name}
}

// classicPolicy is the policy of a classic NodeHealthCheck with one template.
func classicPolicy(template *Template) *Policy {
	return &Policy{Owner: OwnerOf(check()), Steps: []Step{rebootStep()}, Templates: []*Template{template}}
}

// planFor is the plan of a classic NodeHealthCheck.
func planFor(node Node, now time.Time) NodePlan { return planBy(classicPolicy(reboot()), node, now) }

// planBy is the plan for one node.
func planBy(policy *Policy, node Node, now time.Time) NodePlan {
	return planWithheld(policy, node, "", now)
}

// planWithheld is the plan for one node whose first CR a limit refuses, if there is a reason.
func planWithheld(policy *Policy, node Node, reason v1alpha1.DecisionReason, now time.Time) NodePlan {
	plan := policy.plan(&node, "", now)
	if plan.Candidate && reason != "" {
		policy.Withhold(&plan, reason, now)
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

// object returns an object of the API of the kind of the tests.
func object(name string, uid types.UID, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(testGroupVersion)
	u.SetKind(testKind)
	u.SetNamespace(testNamespace)
	u.SetName(name)
	u.SetUID(uid)
	u.SetResourceVersion("7")
	for _, change := range changes {
		change(u)
	}
	return u
}

func ownedBy(nhc string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc, UID: "another-uid"}})
	}
}

func annotated(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		u.SetAnnotations(annotations)
	}
}

func withCondition(typ, status string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		list = append(list, map[string]any{"type": typ, "status": status})
		_ = unstructured.SetNestedSlice(u.Object, list, "status", "conditions")
	}
}

// rendered is the CR of a node of the NodeHealthCheck of the tests.
func rendered(node Node, template *Template) *unstructured.Unstructured {
	return Render(OwnerOf(check()), &node, template)
}
