// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

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
