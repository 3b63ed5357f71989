// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestLeftovers: what hangs on a finalizer after its Node has gone is named until it is
// gone, although it counts for nothing else (spec 17.4).
func TestLeftovers(t *testing.T) {
	t.Parallel()
	s := begun(t)
	show := func(crs int) {
		parts := []part{well("exists", own(testCR("exists", "1", crDeleting))), sick("replaced", nodeDeleted, own(testCR("replaced", "2")))}
		for i := range crs {
			name := fmt.Sprint("n", i)
			parts = append(parts, sick(name, nodeDeleted, own(testCR(name, name, crDeleting))))
		}
		s.sync(parts...)
	}
	condition := func() string {
		if found := meta.FindStatusCondition(s.nhc.Status.Conditions, v1alpha1.ConditionLeftoverRemediations); found != nil {
			return string(found.Status) + ": " + found.Message
		}
		return ""
	}
	show(0)
	require.Empty(t, condition())
	show(1)
	require.Equal(t, "True: Remediation objects whose Nodes are gone are still being deleted (1 in all): RebootRemediation remediators/n0", condition())
	require.EqualValues(t, 2, *s.nhc.Status.RemediatingNodes, "17.4: it counts for nothing")
	show(7)
	require.Contains(t, condition(), "(7 in all)")
	require.Contains(t, condition(), "remediators/n4 and 2 more", "at most five are named")
	require.NotContains(t, condition(), "n5")
	show(0)
	require.Empty(t, condition(), "P4: it goes with its cause")
}
