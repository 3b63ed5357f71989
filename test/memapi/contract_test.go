// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/contract"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// TestContract: the API server in memory answers as the real one does, see TestContract in test/integration.
func TestContract(t *testing.T) {
	t.Parallel()
	server := New(
		Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), Kind: "Node", Unconditional: true},
		Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Kind: "Lease", Namespaced: true, NoStatus: true},
	)
	server.Install("admin", Resource{GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), Kind: v1alpha1.Kind})
	server.Install("admin", Resource{GroupVersionResource: remediator.Resource, Kind: "PowerCycleRemediation", Namespaced: true})
	contract.Run(t, server.NewClient("test", nil).Config())
}
