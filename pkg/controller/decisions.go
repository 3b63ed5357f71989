// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"k8s.io/klog/v2"
)

// logDecisions tells of the decisions that have changed since the last report.
func (r *round) logDecisions(ctx context.Context, memory *memory) {
	logger := klog.FromContext(ctx)
	current := decisionsIn(r.entries)
	for i := range r.entries {
		decision := r.entries[i].Decision
		if decision == nil {
			continue
		}
		before := memory.decisions[r.entries[i].Name]
		if before.Type == decision.Type && before.Reason == decision.Reason {
			continue
		}
		logger.V(2).Info("Decision changed", "node", r.entries[i].Name, "decision", string(decision.Type), "reason", string(decision.Reason),
			"before", string(before.Reason), "message", decision.Message)
	}
	for node, before := range memory.decisions {
		if _, decided := current[node]; !decided {
			logger.V(2).Info("Decision ended", "node", node, "before", string(before.Reason))
		}
	}
}
