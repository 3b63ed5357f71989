// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLeaseRenewal: a lease is renewed once, when it is time (spec 14.5, P3). The cases are in the table of the same name
// in pkg/remediation, and the simulation judges every write of a lease.
func TestLeaseRenewal(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) metav1.MicroTime { return microTime(time.Now().Add(-d).Truncate(time.Second)) }
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	old := s.patchNodeLeaseSpec("a", map[string]any{"renewTime": ago(90 * time.Second), "acquireTime": ago(5 * time.Minute), "leaseTransitions": 7})
	lease := s.eventuallyNodeLease("a", old)
	s.catchUp()
	s.requireNotRenewedEarly("a", lease)
	s.requireLease(lease, "a", 660*time.Second, 7)
	require.Equal(t, old.Spec.AcquireTime, lease.Spec.AcquireTime, "14.5: acquireTime stays")
	require.False(t, lease.Spec.RenewTime.Before(old.Spec.RenewTime))
	require.Equal(t, cr.GetResourceVersion(), s.cr("a").GetResourceVersion(), "11.2")
}
