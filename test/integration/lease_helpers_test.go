// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

const nodeLeaseNamespace = "medik8s-leases"

func (s *scenario) nodeLeases() coordinationclient.LeaseInterface {
	return s.kube.CoordinationV1().Leases(nodeLeaseNamespace)
}

func (s *scenario) nodeLeaseName(name string) string { return "node-" + s.node(name) }

// nodeLease returns the lease of a node, nil if there is none.
func (s *scenario) nodeLease(name string) *coordinationv1.Lease {
	s.t.Helper()
	lease, err := s.nodeLeases().Get(s.t.Context(), s.nodeLeaseName(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return lease
}

func (s *scenario) eventuallyNoNodeLease(name string) {
	s.t.Helper()
	s.eventually("no lease of node "+name, func() bool { return s.nodeLease(name) == nil })
}

// eventuallyNodeLease waits until the lease of a node was written after another one.
func (s *scenario) eventuallyNodeLease(name string, after *coordinationv1.Lease) *coordinationv1.Lease {
	s.t.Helper()
	var lease *coordinationv1.Lease
	s.eventually("a new write of the lease of node "+name, func() bool {
		lease = s.nodeLease(name)
		return lease != nil && lease.ResourceVersion != after.ResourceVersion
	})
	return lease
}

// patchNodeLease changes the lease of a node, as somebody else, and returns it.
func (s *scenario) patchNodeLease(name string, patch map[string]any) *coordinationv1.Lease {
	s.t.Helper()
	encoded, err := json.Marshal(patch)
	require.NoError(s.t, err)
	lease, err := s.nodeLeases().Patch(s.t.Context(), s.nodeLeaseName(name), types.MergePatchType, encoded, metav1.PatchOptions{})
	require.NoError(s.t, err)
	return lease
}

func (s *scenario) patchNodeLeaseSpec(name string, spec map[string]any) *coordinationv1.Lease {
	s.t.Helper()
	return s.patchNodeLease(name, map[string]any{"spec": spec})
}

func microTime(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t) }

// createNodeLease creates a lease that somebody else has held for a minute, and holds
// for an hour; change changes it. It has another owner than the Node.
func (s *scenario) createNodeLease(name string, change ...func(*coordinationv1.LeaseSpec)) *coordinationv1.Lease {
	s.t.Helper()
	namespace, err := s.kube.CoreV1().Namespaces().Get(s.t.Context(), s.name, metav1.GetOptions{})
	require.NoError(s.t, err)
	since := microTime(time.Now().Add(-time.Minute))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            s.nodeLeaseName(name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("node-maintenance"), LeaseDurationSeconds: new(int32(3660)), AcquireTime: &since, RenewTime: &since, LeaseTransitions: new(int32(3)),
		},
	}
	for _, c := range change {
		c(&lease.Spec)
	}
	lease, err = s.nodeLeases().Create(s.t.Context(), lease, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		_ = s.nodeLeases().Delete(context.WithoutCancel(s.t.Context()), lease.Name, metav1.DeleteOptions{})
	})
	return lease
}

// leaseRequests returns the controller's requests of a verb for the lease of a node,
// with whatever result.
func (s *scenario) leaseRequests(verb, name string) []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == verb && r.Resource == "leases" && r.Namespace == nodeLeaseNamespace && r.Name == s.nodeLeaseName(name)
	})
}

// requireLease requires the content of a lease that this NodeHealthCheck holds.
func (s *scenario) requireLease(lease *coordinationv1.Lease, name string, duration time.Duration, transitions int32) {
	s.t.Helper()
	node, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), s.node(name), metav1.GetOptions{})
	require.NoError(s.t, err)
	require.Equal(s.t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}, lease.OwnerReferences, "14.1")
	require.Equal(s.t, coordinationv1.LeaseSpec{
		HolderIdentity:       new("NodeHealthCheck-" + s.name),
		AcquireTime:          lease.Spec.AcquireTime,
		RenewTime:            lease.Spec.RenewTime,
		LeaseDurationSeconds: new(int32(duration / time.Second)),
		LeaseTransitions:     &transitions,
	}, lease.Spec, "14.1")
	for _, at := range []*metav1.MicroTime{lease.Spec.AcquireTime, lease.Spec.RenewTime} {
		require.NotNil(s.t, at)
		require.Equal(s.t, at.Truncate(time.Second).UTC(), at.UTC(), "13.8: whole seconds")
	}
}

func (s *scenario) leaseTaken(name string) string {
	return "Skipped remediation of node: " + s.node(name) + ", because node lease is already taken"
}

// requireRefusedByLease requires that a node has no CR and that this was told of once.
func (s *scenario) requireRefusedByLease(name string) {
	s.t.Helper()
	s.eventuallyEvent("RemediationSkipped", s.leaseTaken(name))
	s.eventually("the event about the node", func() bool { return len(s.eventsAbout("Node", s.node(name), "RemediationSkipped")) > 0 })
	s.eventually("node "+name+" is listed", func() bool { return s.entry(name) != nil })
	s.catchUp()
	require.Empty(s.t, s.entry(name).Remediations, "14.3")
	require.Nil(s.t, s.cr(name), "14.3")
	require.Empty(s.t, s.crRequests("create", name), "14.2")
	require.Equal(s.t, []string{s.leaseTaken(name)}, s.events("RemediationSkipped"), "19.1: once")
	require.Equal(s.t, []string{s.leaseTaken(name)}, s.eventsAbout("Node", s.node(name), "RemediationSkipped"), "19.1: once")
}

// denyLeaseDeletion has the API server refuse the deletion of the lease of a node.
func (s *scenario) denyLeaseDeletion(name string) (allow func()) {
	s.t.Helper()
	return s.deny(s.t, "lease-of-"+s.name, denial{
		group: "coordination.k8s.io", resource: "leases", operation: admissionregistrationv1.Delete,
		unless: fmt.Sprintf("request.name != '%s'", s.nodeLeaseName(name)),
		try: func(ctx context.Context, dryRun []string) error {
			err := s.nodeLeases().Delete(ctx, s.nodeLeaseName(name), metav1.DeleteOptions{DryRun: dryRun})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
	})
}

// creationAttempts returns the controller's requests to create a CR of the scenario.
func (s *scenario) creationAttempts() []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == "create" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name
	})
}
