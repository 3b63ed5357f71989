// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// What is logged at which level (spec 23c): 0 what happened to nodes and NodeHealthChecks,
// the life of the process, and errors; 2 every decision that changed; 4 each sync with its
// inputs; 5 each plan.

// logSync tells what a sync saw and wants.
func logSync(ctx context.Context, world *world, plans []remediation.NodePlan) {
	logger := klog.FromContext(ctx)
	logger.V(4).Info("Syncing", "observed", world.fleet.Observed, "healthy", world.fleet.Healthy, "soonUnhealthy", world.fleet.SoonUnhealthy,
		"unhealthy", world.fleet.Unhealthy, "remediated", world.fleet.Remediated, "gateOpen", world.gate.Open, "required", world.gate.Required,
		"storm", world.storm.Active, "upgrading", world.upgrading(), "disabled", world.findings.problem != nil)
	if logger = logger.V(5); !logger.Enabled() {
		return
	}
	for i := range plans {
		logPlan(logger, &plans[i])
	}
}

// logPlan tells what a plan for a node was made from, and what it is.
func logPlan(logger klog.Logger, plan *remediation.NodePlan) {
	node := &plan.Node
	actions := make([]string, 0, len(plan.Actions))
	for _, action := range plan.Actions {
		actions = append(actions, remediation.ActionName(action))
	}
	logger.Info("Planned", "node", node.Name, "state", node.Verdict.State.String(), "condition", conditionOf(node.Verdict), "since", timeOrNever(node.Verdict.Since),
		"remediations", len(node.Own), "foreign", len(node.Foreign), "reason", string(plan.Reason), "actions", actions, "recheck", timeOrNever(plan.Recheck))
}

func conditionOf(verdict health.Verdict) string {
	if verdict.Type == "" {
		return ""
	}
	return fmt.Sprintf("%s=%s", verdict.Type, verdict.Status)
}

func timeOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// logDecisions tells of the decisions that have changed since the last report, and by
// which checks.
func (r *round) logDecisions(ctx context.Context, memory *memory) {
	logger := klog.FromContext(ctx)
	for i := range r.plans {
		node := r.plans[i].Node.Name
		before, after := memory.decisions[node], r.decisions[node]
		switch {
		case after.SameReason(&before):
		case after.Reason == "":
			logger.V(2).Info("Decision ended", "node", node, "before", string(before.Reason))
		default:
			logger.V(2).Info("Decision changed", "node", node, "decision", string(after.Type), "reason", string(after.Reason),
				"before", string(before.Reason), "message", after.Message)
			r.logChecks(logger, &r.plans[i])
		}
	}
}

// logChecks tells what a node had to pass to get its CR.
func (r *round) logChecks(logger klog.Logger, plan *remediation.NodePlan) {
	if !logger.V(4).Enabled() || plan.Node.Verdict.State != health.Unhealthy || plan.Node.Circumstances.NodeDeleted {
		return
	}
	passed, refused := []string{}, []string{}
	for _, check := range r.world.script.Checks(plan) {
		if check.Passed {
			passed = append(passed, string(check.Reason))
		} else {
			refused = append(refused, string(check.Reason)+": "+check.Message)
		}
	}
	_, _, allowance := r.world.script.Allowance()
	logger.V(4).Info("Checked", "node", plan.Node.Name, "passed", passed, "refused", refused, "gate", allowance)
}

// logTransitions logs what has changed for a NodeHealthCheck as a whole, and which nodes
// were detected or have recovered. What is done for a node is logged where it is done.
func (r *round) logTransitions(ctx context.Context, transitions []event, memory *memory) {
	logger := klog.FromContext(ctx)
	if closed := !r.world.gate.Open; closed != memory.gateClosed {
		message := "Gate opened"
		if closed {
			message = "Gate closed"
		}
		logger.Info(message, "observed", r.world.gate.Observed, "healthy", r.world.gate.Healthy, "required", r.world.gate.Required)
	}
	for _, e := range transitions {
		switch {
		case e.node == nil:
			logger.Info("NodeHealthCheck changed", "reason", e.reason, "note", e.note)
		case e.reason == reasonDetectedUnhealthy:
			logger.Info("Detected unhealthy node", "node", e.node.Name, "note", e.note)
		}
	}
	for i := range r.ended {
		episode := &r.ended[i]
		message := "Episode ended"
		if episode.Outcome == v1alpha1.OutcomeRecovered || episode.Outcome == v1alpha1.OutcomeRecoveredWithoutRemediation {
			message = "Node recovered"
		}
		logger.Info(message, "node", episode.Node, "outcome", string(episode.Outcome), "detected", timeOrNever(episode.Detected.Time), "remediations", len(episode.Steps))
	}
}
