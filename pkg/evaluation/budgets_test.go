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
	require.Equal(t, []budget.Request{{Node: "begins", Since: now, Begins: true}, {Node: "leased", Since: now}, {Node: "next step", Since: now, Begins: true, Continues: true}, {Node: "refused", Since: now, Begins: true}}, Requests(plans))

	policy := &remediation.Policy{Steps: []remediation.Step{{}}, Templates: []*object.Template{{}}}
	until := now.Add(time.Minute)
	reserved := WithholdRefused(policy, plans, map[string]*budget.Refusal{"refused": {Message: "zones a", Until: until}}, now)
	require.Equal(t, []string{"begins"}, reserved)
	require.True(t, plans[0].Creates())
	require.False(t, plans[3].Creates())
	require.Equal(t, v1alpha1.DecidedBudgetExhausted, plans[3].Refusal())
	require.Equal(t, until, plans[3].Until)
	require.Equal(t, "zones a", plans[3].Withheld.Message)
	require.Equal(t, v1alpha1.DecidedControlPlaneBusy, plans[4].Withheld.Reason)
}

// TestEnds: what an attempt comes to decides whether its place stays taken (spec B3.2).
func TestEnds(t *testing.T) {
	t.Parallel()
	var results []remediation.NodeResult
	for _, result := range []remediation.Result{remediation.Created, remediation.Adopted, remediation.Unknown, remediation.Deferred, remediation.Blocked} {
		outcome := &remediation.Outcome{Result: result}
		if result == remediation.Created || result == remediation.Adopted {
			outcome.CR = &object.CR{}
		}
		results = append(results, remediation.NodeResult{Plan: &remediation.NodePlan{Node: &remediation.Node{Name: string(result)}}, Outcome: outcome})
	}
	require.Equal(t, map[string]budget.Usage{"Created": budget.Begun, "Adopted": budget.Begun, "Unknown": budget.Uncertain, "Blocked": budget.Rejected}, Usages(results))
}
