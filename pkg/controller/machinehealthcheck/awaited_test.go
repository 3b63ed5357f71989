// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// TestAwaitedChanges: who waits for the control plane slot is woken when a replacement is waited for, and no longer,
// also if the wait was never seen by a sync (spec M13.4).
func TestAwaitedChanges(t *testing.T) {
	t.Parallel()
	check := cache.ObjectName{Namespace: "ns", Name: "check"}
	history := []v1beta1.Remediation{{Machine: "m", ControlPlane: true, Owner: "owner", RemediationType: v1beta1.RemediationMachineDeletion, Started: new(metav1.Now()), Detected: metav1.Now()}}
	require.True(t, machinehealth.MayAwaitReplacement(&history[0]))
	var a awaited
	require.True(t, a.set(check, history, nil), "the Machine is being deleted")
	require.False(t, a.set(check, history, nil))
	require.True(t, a.set(check, history, []string{"m"}), "it is gone")
	require.False(t, a.set(check, history, []string{"m"}))
	require.True(t, a.set(check, nil, nil), "the replacement has joined")
	require.False(t, a.set(check, nil, nil))
	a.set(check, history, nil)
	require.True(t, a.set(check, nil, nil), "gone and replaced while another controller led")
	require.Empty(t, a.entries())
}
