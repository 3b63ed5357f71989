// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// kept is a NodeHealthCheck in one state, and the node that is in it.
type kept struct {
	*scenario
	node   string
	reason v1alpha1.DecisionReason
}

// disturb has all NodeHealthChecks synced every two seconds, by an annotation that means
// nothing, and the foreign leases renewed, for some time.
func disturb(t *testing.T, states map[string]kept, d time.Duration) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for begin := time.Now(); time.Since(begin) < d; <-ticker.C {
		now := time.Now()
		for _, s := range states {
			touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test":%q}}}`, now)
			_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Patch(t.Context(), s.name, types.MergePatchType, touch, metav1.PatchOptions{})
			require.NoError(t, err)
			if s.reason == v1alpha1.DecidedLeaseTaken {
				s.patchNodeLeaseSpec(s.node, map[string]any{"renewTime": microTime(now)})
			}
		}
	}
}
