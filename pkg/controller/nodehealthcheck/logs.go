// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// What is logged at which level (spec 23c): 0 what happened to nodes and NodeHealthChecks,
// the life of the process, and errors; 2 every decision that changed; 4 each sync with its
// inputs; 5 each plan.

// logSync logs what a sync saw and wants.
func logSync(ctx context.Context, s *snapshot, e *evaluation.Evaluated, plans []remediation.NodePlan) {
	logger := klog.FromContext(ctx)
	logger.V(4).Info("Syncing", "observed", e.Summary.Observed, "healthy", e.Summary.Healthy, "soonUnhealthy", e.Summary.SoonUnhealthy,
		"unhealthy", e.Summary.Unhealthy, "remediated", e.Summary.Remediated, "gateOpen", e.Gate.Open, "required", e.Gate.Required,
		"storm", e.Storm.Active, "upgrading", e.Upgrading, "disabled", s.templates.Problem != nil)
	if logger = logger.V(5); !logger.Enabled() {
		return
	}
	for i := range plans {
		logPlan(logger, &plans[i])
	}
}

// logPlan logs a plan for a node, and what it was made from.
func logPlan(logger klog.Logger, plan *remediation.NodePlan) {
	node := plan.Node
	logger.Info("Planned", "node", node.Name, "state", node.Verdict.State.String(), "condition", conditionOf(node.Verdict), "since", timeOrNever(node.Verdict.Since),
		"remediations", len(node.Own), "foreign", len(node.Foreign), "reason", string(plan.Reason), "actions", remediation.ActionNames(plan.Actions), "recheck", timeOrNever(plan.Recheck))
}

func conditionOf(verdict health.Verdict) string {
	if verdict.Type == "" || verdict.NeverReported() {
		return string(verdict.Type)
	}
	return fmt.Sprintf("%s=%s", verdict.Type, verdict.Status)
}

func timeOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// logDecisions logs the decisions that have changed since the last report.
func (r *syncResult) logDecisions(ctx context.Context) {
	logger := klog.FromContext(ctx)
	if !logger.V(2).Enabled() {
		return
	}
	entriesBefore, entries := status.Finder{Entries: r.state.entries}, status.Finder{Entries: r.Entries}
	for _, result := range r.results {
		node := result.Plan.Node.Name
		reconcile.LogDecision(logger, entriesBefore.Decision(node), entries.Decision(node), "node", node)
	}
}

// logTransitions logs what has changed for a NodeHealthCheck as a whole, and which nodes
// were detected or have recovered. What is done for a node is logged where it is done.
func (r *syncResult) logTransitions(ctx context.Context, transitions []status.Event) {
	logger := klog.FromContext(ctx)
	if closed := !r.Gate.Open; closed != r.state.gateClosed {
		message := "Gate opened"
		if closed {
			message = "Gate closed"
		}
		logger.Info(message, "observed", r.Gate.Observed, "healthy", r.Gate.Healthy, "required", r.Gate.Required)
	}
	logEvents(ctx, transitions)
	for i := range r.Ended {
		episode := &r.Ended[i]
		message := "Episode ended"
		if episode.Outcome == v1alpha1.OutcomeRecovered || episode.Outcome == v1alpha1.OutcomeRecoveredWithoutRemediation {
			message = "Node recovered"
		}
		logger.Info(message, "node", episode.Node, "outcome", string(episode.Outcome), "detected", timeOrNever(episode.Detected.Time), "remediations", len(episode.Steps))
	}
}

// logEvents logs the events that nothing else in the log stands for.
func logEvents(ctx context.Context, events []status.Event) {
	logger := klog.FromContext(ctx)
	for i := range events {
		switch e := &events[i]; {
		case e.Node == nil:
			logger.Info("NodeHealthCheck changed", "reason", e.Reason, "note", e.Note)
		case e.Reason == status.ReasonDetectedUnhealthy:
			logger.Info("Detected unhealthy node", "node", e.Node.Name, "note", e.Note)
		}
	}
}
