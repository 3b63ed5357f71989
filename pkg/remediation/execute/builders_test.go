// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// The objects of the tests.
const (
	testNamespace = objecttest.Namespace
	testKind      = objecttest.Kind

	ours = "NodeHealthCheck-workers"
)

var (
	epoch = objecttest.Epoch

	reboot, named                      = objecttest.Template, objecttest.Named
	cr, failed, timedOut, ofKind, from = objecttest.CR, objecttest.Failed, objecttest.TimedOut, objecttest.OfKind, objecttest.From

	live, ownedBy, annotated, withCondition = objecttest.Live, objecttest.OwnedBy, objecttest.Annotated, objecttest.WithCondition

	ownerNamed = objecttest.Owner
)

// sick returns a node with these own CRs.
func sick(name string, own ...*object.CR) remediation.Node {
	return remediation.Node{Name: name, UID: types.UID(name + "-uid"), Own: own}
}

// rendered is the CR of a node of the NodeHealthCheck of the tests.
func rendered(node remediation.Node, template *object.Template) *unstructured.Unstructured {
	return object.Render(ownerNamed("workers"), object.Target{Node: node.Name}, template)
}

// held returns the lease of node n.
func held(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-n", UID: "lease-uid", ResourceVersion: "5"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, AcquireTime: new(metav1.NewMicroTime(renewed)), RenewTime: new(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: new(int32(660)),
		},
	}
}

// newLease returns the lease of node n as it is created.
func newLease() *coordinationv1.Lease {
	lease := held(ours, epoch)
	lease.ObjectMeta = metav1.ObjectMeta{Name: lease.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n-uid"}}}
	return lease
}

// planToCreate is the plan of a node that is to get its first CR.
func planToCreate() remediation.NodePlan {
	reference := corev1.ObjectReference{APIVersion: objecttest.GroupVersion, Kind: testKind + "Template", Namespace: testNamespace, Name: "reboot"}
	policy := &remediation.Policy{Owner: ownerNamed("workers"), Steps: []remediation.Step{{Reference: reference}}, Templates: []*object.Template{reboot()}}
	node := sick("n")
	node.Verdict = health.Verdict{State: health.Unhealthy, Type: "Ready", Status: "Unknown", Deadline: epoch}
	return remediation.NewPlans(policy, []remediation.Node{node}, epoch)[0]
}
