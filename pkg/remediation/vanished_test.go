// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestVanished: the next CR of a step whose CRs vanish waits longer each time, and the time of the step runs from the first
// one (spec 11.6, 13.3).
func TestVanished(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	// lost has CRs vanish a minute after their creation, the i-th one at the i-th minute.
	lost := func(kind, template string, at ...time.Duration) func(*Node) {
		return func(n *Node) {
			for _, at := range at {
				n.Vanished = append(n.Vanished, v1alpha1.EpisodeStep{Kind: kind, TemplateName: template, Started: metav1.NewTime(epoch.Add(at)), Ended: new(metav1.NewTime(epoch.Add(at + m))), Result: v1alpha1.StepVanished})
			}
		}
	}
	soft := func(at ...time.Duration) func(*Node) { return lost(testKind, "soft", at...) }
	listed := func(n *Node) {
		n.Recorded = []v1alpha1.Remediation{{Resource: stepCR("soft", testKind, nil).Reference(), TemplateName: "soft", Started: metav1.NewTime(epoch)}}
	}
	running := with(stepCR("soft", testKind, nil))
	tests := map[string]struct {
		node      Node
		classic   bool
		now       time.Duration
		want      string // The template of the CR that is created.
		until     time.Duration
		exhausted bool
	}{
		"the first one is replaced at once":              {node: sick("n", soft(0)), now: m, want: "soft"},
		"also when status still names it":                {node: sick("n", listed), now: m, want: "soft"},
		"the second one after 5 min":                     {node: sick("n", soft(0, m)), classic: true, now: 7*m - 1, until: 7 * m},
		"then it is":                                     {node: sick("n", soft(0, m)), classic: true, now: 7 * m, want: "soft"},
		"one of them has just vanished":                  {node: sick("n", soft(0), listed), classic: true, now: 3 * m, until: 8 * m},
		"the controller has deleted it":                  {node: sick("n", soft(0), listed, requested("soft-uid")), classic: true, now: 3 * m, want: "soft"},
		"the third one after 10 min":                     {node: sick("n", soft(0, m, 7*m)), classic: true, now: 18*m - 1, until: 18 * m},
		"30 min at most":                                 {node: sick("n", soft(0, 1, 2, 3, 4, 5, 6, 7)), classic: true, now: 31 * m, until: 31*m + 7},
		"the next step comes first":                      {node: sick("n", soft(0, m)), now: 3 * m, until: 5 * m},
		"its time runs from the first one":               {node: sick("n", soft(0, m)), now: 5 * m, want: "fence"},
		"also of one that runs":                          {node: sick("n", soft(-m), running, leased(held(ours, epoch, lasting(36000)))), now: 4 * m, want: "fence"},
		"each step has its own":                          {node: sick("n", soft(0, m), lost("FenceRemediation", "fence", 5*m)), now: 6 * m, want: "fence"},
		"and waits":                                      {node: sick("n", soft(0, m), lost("FenceRemediation", "fence", 5*m, 6*m)), now: 7 * m, until: 12 * m},
		"nothing follows the last one":                   {node: sick("n", soft(0), lost("FenceRemediation", "fence", 5*m), lost(testKind, "hard", 15*m)), now: 35 * m, exhausted: true},
		"5.3 no step ends while the next one may not be": {node: sick("n", soft(0, m), under(func(c *Constraints) { c.Paused = true })), now: 50 * m},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := escalation()
			if tc.classic {
				policy = classicPolicy(reboot(named(testNamespace, "soft")))
				policy.Steps[0].Reference.Name = "soft"
			}
			plan := planBy(policy, tc.node, epoch.Add(tc.now))
			created := ""
			for _, action := range plan.Actions {
				if create, ok := action.(Create); ok {
					created = create.Object.GetAnnotations()[v1alpha1.AnnotationTemplateName]
				}
			}
			require.Equal(t, tc.want, created)
			require.Equal(t, tc.exhausted, plan.Exhausted)
			if tc.until == 0 {
				require.NotEqual(t, v1alpha1.DecidedVanished, plan.Reason)
				return
			}
			require.Equal(t, v1alpha1.DecidedVanished, plan.Refusal())
			require.Equal(t, epoch.Add(tc.until), plan.Until)
			require.Equal(t, plan.Until, plan.Recheck)
			require.False(t, plan.Candidate, "it asks for nothing")
			require.Contains(t, policy.Decision(&plan, &Outcome{}).Message, "were deleted while the node was not healthy")
		})
	}
}
