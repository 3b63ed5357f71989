// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestLease: what a remediation needs a lease for, from its beginning to its end (spec
// 14.1, 14.2, 14.9, P3).
func TestLease(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a")
	s.createNHC()
	require.Nil(t, s.nodeLease("a"))
	s.fail("a")
	s.eventuallyCR("a")
	lease := s.nodeLease("a")
	require.NotNil(t, lease, "14.2")
	s.requireLease(lease, "a", 660*time.Second, 0)
	require.Equal(t, lease.Spec.AcquireTime, lease.Spec.RenewTime, "14.1")
	require.False(t, s.leaseRequests("create", "a")[0].Time.After(s.crRequests("create", "a")[0].Time), "14.2: first the lease")
	s.report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
	s.catchUp()
	s.requireNotRenewedEarly("a", lease)
	s.heal("a")
	s.eventuallyNoNodeLease("a")
	s.eventuallyCounts(1, 1)
	require.Nil(t, s.cr("a"), "14.9: when the node has no own CR any more")
	require.Len(t, s.leaseRequests("create", "a"), 1)
	for i, renewal := range s.leaseRequests("update", "a") {
		require.False(t, renewal.Time.Before(lease.Spec.RenewTime.Add(time.Duration(i+1)*time.Minute)), "P3: not before its time")
	}
	require.Empty(t, s.leaseRequests("patch", "a"), "P3")
	require.NotEmpty(t, s.leaseRequests("delete", "a"))

	// Another episode has another lease.
	s.fail("a")
	s.eventuallyCR("a")
	again := s.nodeLease("a")
	s.requireLease(again, "a", 660*time.Second, 0)
	require.NotEqual(t, lease.UID, again.UID)
}

// requireNotRenewedEarly requires that a lease is as it was, or that the controller has renewed it when that was due: a minute
// later (spec 14.5), which a busy machine may take for a few steps of a test.
func (s *scenario) requireNotRenewedEarly(name string, was *coordinationv1.Lease) {
	s.t.Helper()
	if lease := s.nodeLease(name); lease.ResourceVersion != was.ResourceVersion {
		require.GreaterOrEqual(s.t, lease.Spec.RenewTime.Sub(was.Spec.RenewTime.Time), time.Minute, "P3: not before its time")
	}
}

// TestLeaseLeftOver: leases of the time before (spec 14.2, 14.4). TestLeaseForFirstCR has the other ones.
func TestLeaseLeftOver(t *testing.T) {
	t.Parallel()
	longAgo := microTime(time.Now().Add(-2 * time.Hour))
	tests := map[string]struct {
		change      func(s *scenario, spec *coordinationv1.LeaseSpec)
		transitions int32
	}{
		"14.4-expired": {
			change:      func(_ *scenario, spec *coordinationv1.LeaseSpec) { spec.RenewTime = &longAgo },
			transitions: 4,
		},
		"14.2-own": {
			change: func(s *scenario, spec *coordinationv1.LeaseSpec) {
				spec.HolderIdentity, spec.AcquireTime = new("NodeHealthCheck-"+s.name), &longAgo
			},
			transitions: 3,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a")
			s.fail("a")
			s.awaitUnhealthy(1)
			old := s.createNodeLease("a", func(spec *coordinationv1.LeaseSpec) { tc.change(s, spec) })
			s.createNHC()
			cr := s.eventuallyCR("a")
			lease := s.nodeLease("a")
			require.Equal(t, old.UID, lease.UID)
			s.requireLease(lease, "a", 660*time.Second, tc.transitions)
			require.Equal(t, lease.Spec.AcquireTime, lease.Spec.RenewTime, "14.2, 14.4: it starts anew")
			require.False(t, cr.GetCreationTimestamp().Time.Before(lease.Spec.AcquireTime.Time), "14.2")
			require.False(t, lease.Spec.AcquireTime.Time.Before(old.CreationTimestamp.Time), "14.2, 14.4: it starts anew")
			require.Empty(t, s.events("RemediationSkipped"))
			s.heal("a")
			s.eventuallyNoNodeLease("a")
		})
	}
}

// awaitUnhealthy waits until the controller knows a number of unhealthy nodes, before the
// NodeHealthCheck is created: it would release an own lease that no unhealthy node needs.
func (s *scenario) awaitUnhealthy(n int32) {
	s.t.Helper()
	witness := s.spec()
	witness.Name += "-witness"
	witness.Spec.PauseRequests = []string{"it only looks"}
	nhcs := s.nhc.RemediationV1alpha1().NodeHealthChecks()
	_, err := nhcs.Create(s.t.Context(), witness, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.eventually("unhealthy nodes", func() bool {
		nhc, err := nhcs.Get(s.t.Context(), witness.Name, metav1.GetOptions{})
		require.NoError(s.t, err)
		return nhc.Status.UnhealthyNodeCount != nil && *nhc.Status.UnhealthyNodeCount == n
	})
	require.NoError(s.t, nhcs.Delete(s.t.Context(), witness.Name, metav1.DeleteOptions{}))
}

// TestLeaseWithoutCR: the creation of the CR fails (spec 14.2, 14.9).
func TestLeaseWithoutCR(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 1)
	l.createNodes("a", "b")
	l.createNHC(l.escalation())
	allow := l.deny(t, "creation-"+l.name, denial{
		group: l.kind.remediations.Group, resource: l.kind.remediations.Resource, operation: admissionregistrationv1.Create,
		unless: fmt.Sprintf("request.namespace != '%s'", l.name), try: l.tryCR,
	})
	l.fail("a")
	l.fail("b")
	for _, name := range []string{"a", "b"} {
		l.eventually("two denied attempts for node "+name, func() bool {
			return len(slices.DeleteFunc(l.creationAttempts(), func(r localkube.Request) bool { return r.Code == 201 })) >= 4
		})
	}
	a, b := l.nodeLease("a"), l.nodeLease("b")
	require.NotNil(t, a, "14.2: it stays for the next attempt")
	require.NotNil(t, b, "14.2: it stays for the next attempt")
	l.heal("b")
	l.eventuallyNoNodeLease("b")
	require.NotNil(t, l.nodeLease("a"))
	allow()
	l.eventuallyStep("a", 0)
	lease := l.nodeLease("a")
	l.requireLease(lease, "a", time.Hour+time.Minute, 0)
	require.Equal(t, a.UID, lease.UID, "14.2")
	require.Empty(t, l.leaseRequests("delete", "a"))
}
