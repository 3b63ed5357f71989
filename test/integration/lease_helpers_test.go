// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
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
