// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestPlanWithUnreadCRs: where a CR may be there unseen, nothing is given up that it
// may need (P5).
func TestPlanWithUnreadCRs(t *testing.T) {
	t.Parallel()
	incomplete := func(n *Node) { n.Incomplete = true }
	recorded := func(n *Node) { n.Recorded = []v1alpha1.Remediation{{}} }
	ours := leased(held("NodeHealthCheck-workers", epoch))
	disabled := under(func(c *Constraints) { c.TemplatesUnusable = true })
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
		"16.1 what can be read is deleted all the same":     {node: sick("n", well, incomplete, with(cr("n"))), want: []string{"confirm", "delete n"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, describe(planFor(tc.node, epoch.Add(time.Minute)).Actions))
		})
	}
}

// TestPlanWithoutATemplate: a step whose template or kind cannot be read does not begin,
// nor does the step before it end for it; the other steps go on (spec 5.3, P1).
func TestPlanWithoutATemplate(t *testing.T) {
	t.Parallel()
	ours := leased(held("NodeHealthCheck-workers", epoch))
	fenced := fence(func(c *object.CR) { c.CreationTimestamp = metav1.NewTime(epoch.Add(5 * time.Minute)) })
	tests := map[string]struct {
		unread  int
		node    Node
		after   time.Duration
		want    []string
		refusal v1alpha1.DecisionReason
		reason  v1alpha1.DecisionReason
	}{
		"6.5 the first step":               {unread: 0, node: sick("n"), refusal: v1alpha1.DecidedDisabled, reason: v1alpha1.DecidedDisabled},
		"P1 the first one of two":          {unread: 1, node: sick("n"), want: []string{"lease node-n", "confirm", "create n-e6e2af72"}, reason: v1alpha1.DecidedStepRunning},
		"5.3 a step goes on":               {unread: 1, node: sick("n", with(soft()), ours), after: 5 * time.Minute, refusal: v1alpha1.DecidedDisabled, reason: v1alpha1.DecidedDisabled},
		"P1 and ends if its successor may": {unread: 0, node: sick("n", with(soft(), fenced), ours), after: 15 * time.Minute, want: []string{"lease node-n", "confirm", "end fence at 00:15:00", "create n-77f06baa"}, reason: v1alpha1.DecidedStepRunning},
		"16.1 what has recovered is ended": {unread: 0, node: sick("n", well, with(soft()), ours), want: []string{"confirm", "delete soft"}, reason: v1alpha1.DecidedAwaitingDeletion},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := escalation()
			script.Templates[tc.unread] = nil
			script.Context.Unread = "x cannot be read at the moment"
			plan := planBy(script, tc.node, epoch.Add(tc.after))
			require.Equal(t, tc.want, describe(plan.Actions))
			require.Equal(t, tc.refusal, plan.Refusal())
			require.Equal(t, tc.reason, plan.Reason)
			if tc.refusal != "" {
				decision := script.Decision(&plan, &Outcome{})
				require.Equal(t, script.Context.Unread, decision.Message)
			}
		})
	}
}
