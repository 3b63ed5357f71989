// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// askBudgets withholds the first CR of candidates that a RemediationBudget refuses (spec B1). It
// returns the nodes of the other candidates. They have a reservation until endReservations.
func (c *Controller) askBudgets(s *snapshot, policy *remediation.Policy, plans []remediation.NodePlan, now time.Time) (reserved []string) {
	refusals, revision := c.Budgets.Admit(c.Asker(s.nhc.Name), evaluation.Requests(plans))
	s.budgetRevision = revision
	return evaluation.WithholdRefused(policy, plans, refusals, now)
}

// endReservations tells the budgets the outcomes of the admitted nodes.
func (c *Controller) endReservations(s *snapshot, reserved []string, results []remediation.NodeResult) {
	if len(reserved) == 0 {
		return
	}
	usages := evaluation.Usages(results)
	for _, node := range reserved {
		c.Budgets.End(c.Asker(s.nhc.Name), node, usages[node])
	}
}

// Observe returns what the NodeHealthChecks know of a node, as RemediationBudgets count it (spec
// B3): whether a condition matches, for however long, and since when it has a CR.
func (c *Controller) Observe(node string) budget.Observation {
	observed := budget.Observation{Unhealthy: c.index.NeedsLook(node)}
	for _, indexer := range c.Remediations.Caches() {
		begun := map[string]time.Time{} // By owner: the next step is no beginning.
		for _, cr := range watches.Indexed[*object.CR](indexer, byNode, node) {
			for _, owner := range cr.Owners() {
				begun[owner] = health.Earliest(begun[owner], cr.CreationTimestamp.Time)
			}
		}
		for _, started := range begun {
			observed.Merge(budget.Observation{Remediating: true, Started: started})
		}
	}
	return observed
}

// Remediating returns the names of all nodes that have a CR.
func (c *Controller) Remediating() (names []string) {
	for _, indexer := range c.Remediations.Caches() {
		names = append(names, indexer.ListIndexFuncValues(byNode)...)
	}
	return names
}

// Names returns the names of the NodeHealthChecks.
func (c *Controller) Names() []string { return c.index.Names() }
