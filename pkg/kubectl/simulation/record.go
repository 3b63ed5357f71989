// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// seen is what was recorded of a node that a check looks after.
type seen struct {
	unhealthy bool
	// reason is the last recorded reason, empty for a node that waits for nothing.
	reason v1alpha1.DecisionReason
	// waits is since when the node is unhealthy without a remediation, zero if it is not.
	waits time.Time
}

// passing are the reasons of decisions that other lines have already.
var passing = []v1alpha1.DecisionReason{
	"", v1alpha1.DecidedStepRunning, v1alpha1.DecidedStepSucceeded, v1alpha1.DecidedSoonUnhealthy, v1alpha1.DecidedAwaitingDeletion, v1alpha1.DecidedRecovering,
}

// record writes down the changes of a sync.
func (c *check) record(evaluated *evaluation.Evaluated, report *status.Report, results []remediation.NodeResult, now time.Time) {
	context := &evaluated.Policy.Context
	listed := make(map[string]seen, len(results))
	for _, result := range results {
		node := result.Plan.Node
		listed[node.Name] = c.recordHealth(node, now)
	}
	stormy := health.StormOf(&c.nhc.Status).Active
	if stormy { // What ends it lets the others begin; what begins may begin it.
		c.recordStorm(context, now)
	}
	for _, result := range results {
		c.recordOutcome(&evaluated.Policy, result, now)
	}
	if !stormy {
		c.recordStorm(context, now)
	}
	decisions := status.Finder{Entries: report.Entries}
	for _, result := range results {
		node := result.Plan.Node
		after := listed[node.Name]
		if done := len(status.RemediationsOf(result)) > 0 || node.Verdict.State == health.Healthy; done && !after.waits.IsZero() {
			c.journal.waited(node.Name, now.Sub(after.waits))
			after.waits = time.Time{}
		}
		after.reason = c.recordDecision(context, node, decisions.Decision(node.Name), c.seen[node.Name].reason, now)
		listed[node.Name] = after
	}
	c.seen = listed
}

// recordHealth writes down that a node has become unhealthy.
func (c *check) recordHealth(node *remediation.Node, now time.Time) seen {
	before, verdict := c.seen[node.Name], &node.Verdict
	after := seen{unhealthy: verdict.State == health.Unhealthy && !node.Constraints.Unselected, waits: before.waits}
	if after.unhealthy && !before.unhealthy {
		c.line(node, Unhealthy, fmt.Sprintf("%s=%s for %s", verdict.Type, verdict.Status, lasted(now.Sub(verdict.Since))), now)
		c.journal.unhealthy.Insert(node.Name)
		if len(node.Own) == 0 {
			after.waits = now
		}
	}
	return after
}

func (c *check) line(node *remediation.Node, what What, why string, now time.Time) {
	c.journal.add(Line{Check: c.nhc.Name, Nodes: []string{node.Name}, What: what, Why: why}, now)
}

// recordOutcome writes down the actions for a node.
func (c *check) recordOutcome(policy *remediation.Policy, result remediation.NodeResult, now time.Time) {
	node, outcome := result.Plan.Node, result.Outcome
	for _, cr := range node.Own {
		if _, ended := outcome.TimedOut[cr.UID]; ended {
			place, _, _ := strings.Cut(stepOf(policy.Steps, cr), ":")
			c.line(node, TimesOut, fmt.Sprintf("%s, after %s", place, lasted(now.Sub(cr.CreationTimestamp.Time))), now)
			c.journal.timedOut++
		}
	}
	if cr := outcome.NewCR(); cr != nil {
		what := NextStep
		if len(node.Own) == 0 {
			what = Begins
			c.journal.began++
		}
		c.line(node, what, stepOf(policy.Steps, cr), now)
		c.journal.remediated.Insert(node.Name)
	}
	if len(outcome.Deleted) > 0 {
		began := slices.MinFunc(outcome.Deleted, func(a, b *object.CR) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		why := "healthy"
		if node.Constraints.NodeDeleted {
			why = "the node is gone"
		}
		c.line(node, Ends, fmt.Sprintf("%s; after %s", why, lasted(now.Sub(began.CreationTimestamp.Time))), now)
	}
}

// lasted returns for how long something has lasted, in days where seconds do not matter.
func lasted(d time.Duration) string {
	if d >= 24*time.Hour {
		return duration.HumanDuration(d)
	}
	return d.Truncate(time.Second).String()
}

// stepOf names the template of a CR, with its place among the steps if there are several.
func stepOf(steps []remediation.Step, cr *object.CR) string {
	for i, step := range steps {
		if !step.Owns(cr) {
			continue
		}
		name := step.Reference.Kind + " " + strings.TrimPrefix(step.Reference.Namespace+"/"+step.Reference.Name, "/")
		if len(steps) > 1 {
			name = fmt.Sprintf("step %d of %d: %s", i+1, len(steps), name)
		}
		return name
	}
	return cr.Kind
}

// recordDecision writes down why a node waits, unless the reason is unchanged. It returns the
// reason.
func (c *check) recordDecision(context *remediation.Context, node *remediation.Node, decision *v1alpha1.Decision, before v1alpha1.DecisionReason, now time.Time) v1alpha1.DecisionReason {
	if decision == nil || slices.Contains(passing, decision.Reason) {
		return ""
	}
	if decision.Reason == before {
		return before
	}
	message := decision.Message
	if _, reason, numbers := context.Allowance(); reason == string(decision.Reason) || reason == v1alpha1.ReasonClosed && decision.Reason == v1alpha1.DecidedGateClosed {
		message = numbers
	}
	what := Waits
	if decision.Type == v1alpha1.DecisionExhausted {
		what = Exhausted
	}
	why := message
	if prefix := string(decision.Reason) + ": "; !strings.HasPrefix(message, prefix) {
		why = prefix + message
	}
	c.line(node, what, why, now)
	return decision.Reason
}

// recordStorm compares the storm before and after a sync. The status is still the one before.
func (c *check) recordStorm(context *remediation.Context, now time.Time) {
	before, after := health.StormOf(&c.nhc.Status), context.Storm
	line := func(what What, why string) { c.journal.add(Line{Check: c.nhc.Name, What: what, Why: why}, now) }
	numbers := fmt.Sprintf("%d of %d nodes are not healthy", context.Gate.Observed-context.Gate.Healthy, context.Gate.Observed)
	switch {
	case !before.Active && after.Active:
		line(StormBegins, numbers)
	case before.Active && !after.Active:
		line(StormEnds, numbers)
	}
	if after.Active && before.CalmSince.IsZero() && !after.CalmSince.IsZero() {
		line(StormCalm, fmt.Sprintf("%s; it ends in %s if it stays calm", numbers, context.StormEnd.Sub(now).Round(time.Second)))
	}
}
