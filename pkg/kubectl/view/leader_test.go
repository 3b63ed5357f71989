// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func leaderLease(namespace, holder string, renewed time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaderLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(-renewed)))},
	}
}

func TestLeader(t *testing.T) {
	t.Parallel()
	foreign := leaderLease("kube-system", "other", 0)
	foreign.Name = "kube-scheduler"
	never := leaderLease("nhc-system", "pod-1", 0)
	never.Spec.RenewTime = nil
	for name, tc := range map[string]struct {
		leases []*coordinationv1.Lease
		want   string
	}{
		"at work":      {[]*coordinationv1.Lease{leaderLease("nhc-system", "pod-1", 14*time.Second)}, ""},
		"over":         {[]*coordinationv1.Lease{leaderLease("nhc-system", "pod-1", 15*time.Second)}, "No controller is at work: pod-1 last renewed its lease 15s ago. Look for its pods: kubectl -n nhc-system get pods"},
		"given up":     {[]*coordinationv1.Lease{leaderLease("nhc-system", "", time.Second)}, "No controller is at work: the last one has stopped 1s ago. Look for its pods: kubectl -n nhc-system get pods"},
		"left over":    {[]*coordinationv1.Lease{leaderLease("a", "pod-0", time.Hour), leaderLease("b", "pod-1", time.Second), leaderLease("c", "pod-0", time.Minute)}, ""},
		"a clock":      {[]*coordinationv1.Lease{leaderLease("nhc-system", "pod-1", -time.Minute)}, ""},
		"no lease":     {nil, "No controller is at work: there is no lease nhc-controller."},
		"of others":    {[]*coordinationv1.Lease{foreign}, "No controller is at work: there is no lease nhc-controller."},
		"never at all": {[]*coordinationv1.Lease{never}, "No controller is at work: there is no lease nhc-controller."},
	} {
		problem := NewLeader(tc.leases).Problem(now)
		if tc.want == "" {
			require.Empty(t, problem, name)
		}
		require.Contains(t, problem, tc.want, name)
	}
	require.Empty(t, (*Leader)(nil).Problem(now), "it could not be read")
}
