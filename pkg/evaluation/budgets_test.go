// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestBudgets: budgets are asked about the candidates that nothing else refuses, and only those that
// begin take a place (spec B1, B4.3).
func TestBudgets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plan := func(name string, candidate bool, actions ...remediation.Action) remediation.NodePlan {
		node := &remediation.Node{Name: name, Verdict: health.Verdict{State: health.Unhealthy, Deadline: now}}
		return remediation.NodePlan{Node: node, Candidate: candidate, Actions: actions}
	}
	nextStep := plan("next step", false, remediation.Create{})
	nextStep.Continues = true
	plans := []remediation.NodePlan{
		plan("begins", true, remediation.Create{}),
		plan("leased", true),
		nextStep,
		plan("refused", true, remediation.Create{}),
		plan("withheld", true, remediation.Create{}),
	}
	plans[4].Withheld = &remediation.Withholding{Reason: v1alpha1.DecidedControlPlaneBusy}
	require.Equal(t, []budget.Request{{Node: "begins", Since: now, Begins: true}, {Node: "leased", Since: now}, {Node: "next step", Since: now, Begins: true, Continues: true}, {Node: "refused", Since: now, Begins: true}}, Requests(remediation.Pointers(plans)))

	policy := &remediation.Policy{Steps: []remediation.Step{{}}, Templates: []*object.Template{{}}}
	until := now.Add(time.Minute)
	reserved := WithholdRefused(remediation.Pointers(plans), map[string]*budget.Refusal{"refused": {Message: "zones a", Until: until}},
		func(i int, withheld *remediation.Withholding) { policy.Withhold(&plans[i], withheld, now) })
	require.Equal(t, []string{"begins"}, reserved)
	require.True(t, plans[0].Creates())
	require.False(t, plans[3].Creates())
	require.Equal(t, v1alpha1.DecidedBudgetExhausted, plans[3].Refusal())
	require.Equal(t, until, plans[3].Until)
	require.Equal(t, "zones a", plans[3].Withheld.Message)
	require.Equal(t, v1alpha1.DecidedControlPlaneBusy, plans[4].Withheld.Reason)
}

// TestEnds: what an attempt comes to decides whether its place stays taken, also of two Machines that name one Node (spec
// B3.2, P5).
func TestEnds(t *testing.T) {
	t.Parallel()
	created, adopted := remediation.Outcome{Result: remediation.Created, CR: &object.CR{}}, remediation.Outcome{Result: remediation.Adopted, CR: &object.CR{}}
	requested, unknown := remediation.Outcome{Result: remediation.Requested}, remediation.Outcome{Result: remediation.Unknown}
	failed, refused, deferred := remediation.Outcome{Result: remediation.Failed}, remediation.Outcome{Result: remediation.Refused}, remediation.Outcome{Result: remediation.Deferred}
	for name, tc := range map[string]struct {
		outcomes []remediation.Outcome
		want     map[string]budget.Usage
	}{
		"its CR was created":                   {[]remediation.Outcome{created}, map[string]budget.Usage{"node": budget.Begun}},
		"its CR was adopted":                   {[]remediation.Outcome{adopted}, map[string]budget.Usage{"node": budget.Begun}},
		"its request was accepted":             {[]remediation.Outcome{requested}, map[string]budget.Usage{"node": budget.Begun}},
		"it is left to the next batch":         {[]remediation.Outcome{deferred}, map[string]budget.Usage{}},
		"P5 the answer is lost":                {[]remediation.Outcome{unknown}, map[string]budget.Usage{"node": budget.Uncertain}},
		"the lease could not be written":       {[]remediation.Outcome{failed}, map[string]budget.Usage{"node": budget.Rejected}},
		"something else refused it":            {[]remediation.Outcome{refused}, map[string]budget.Usage{"node": budget.Rejected}},
		"one of two has begun":                 {[]remediation.Outcome{requested, unknown}, map[string]budget.Usage{"node": budget.Begun}},
		"the other one of two has begun":       {[]remediation.Outcome{failed, requested}, map[string]budget.Usage{"node": budget.Begun}},
		"one of two may have begun":            {[]remediation.Outcome{unknown, failed}, map[string]budget.Usage{"node": budget.Uncertain}},
		"one of two is left to the next batch": {[]remediation.Outcome{refused, deferred}, map[string]budget.Usage{"node": budget.Rejected}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var results []remediation.NodeResult
			for i := range tc.outcomes {
				results = append(results, remediation.NodeResult{Plan: &remediation.NodePlan{Node: &remediation.Node{Name: "node"}}, Outcome: &tc.outcomes[i]})
			}
			require.Equal(t, tc.want, Usages(results))
		})
	}
}
