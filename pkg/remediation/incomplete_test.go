// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestPlanWithUnreadCRs: where a CR may be there unseen, nothing is given up that it
// may need (P5).
func TestPlanWithUnreadCRs(t *testing.T) {
	t.Parallel()
	incomplete := func(n *Node) { n.Incomplete = true }
	recorded := func(n *Node) { n.Recorded = []v1alpha1.Remediation{{}} }
	ours := leased(held("NodeHealthCheck-workers", epoch))
	disabled := under(func(c *Circumstances) { c.TemplatesUnusable = true })
	tests := map[string]struct {
		node Node
		want []string
	}{
		"14.9 the lease of a recovered node is released":    {node: sick("n", well, ours), want: []string{"release node-n"}},
		"P5 unless the node may have a CR":                  {node: sick("n", well, ours, incomplete)},
		"P5 also if it is unhealthy":                        {node: sick("n", ours, incomplete, disabled)},
		"P5 or gone":                                        {node: sick("n", gone, ours, incomplete)},
		"14.9 the CRs that status named are gone":           {node: sick("n", well, ours, incomplete, recorded), want: []string{"release node-n"}},
		"16.6 a confirmation stays while there may be a CR": {node: sick("n", well, incomplete, func(n *Node) { n.ConfirmedHealthy = true })},
		"16.1 what can be read is deleted all the same":     {node: sick("n", well, incomplete, with(cr("n"))), want: []string{"delete n"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, describe(planFor(tc.node, epoch.Add(time.Minute)).Actions))
		})
	}
}
