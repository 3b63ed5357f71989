// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// evaluation is what a snapshot means: how healthy the nodes are, and what may be done.
type evaluation struct {
	summary health.Summary
	gate    health.Gate
	storm   health.Storm
	// upgrading means that the cluster, or an unhealthy node, is being upgraded (spec 10.2).
	upgrading bool
	policy    remediation.Policy
	// recheck is the next instant at which time alone changes a verdict or ends a storm.
	recheck time.Time
}

// evaluate judges the nodes of a snapshot at the instant now, and by their numbers gate and
// storm. It completes each node of the snapshot by its verdict, the constraints of
// all nodes and the next attempt, and depends on nothing else.
func evaluate(s *snapshot, now time.Time) *evaluation {
	e := &evaluation{summary: health.NewSummary(s.observed), upgrading: s.platform.progressing}
	for i := range s.nodes {
		e.judge(s, &s.nodes[i], s.objects[i], now)
	}
	spec := &s.nhc.Spec
	rules := health.StormRulesOf(spec)
	e.gate = health.EvaluateGate(spec.MinHealthy, spec.MaxUnhealthy, e.summary.Observed, e.summary.Healthy)
	e.storm = health.StormOf(&s.nhc.Status).Next(rules, e.stormInput(0), now)
	e.policy = newPolicy(s)
	e.constrain(s)
	e.recheck = health.Earliest(e.recheck, e.summary.Recheck)
	for i := range s.nodes {
		node := &s.nodes[i]
		own := node.Constraints.NodeConstraints
		node.Constraints = e.policy.Context.Constraints
		node.Constraints.NodeConstraints = own
		attempt := s.state.attempts.of(node)
		node.RetryAt, node.LastFailure, node.LastFailed = attempt.Due, attempt.Failure, attempt.Reason
	}
	return e
}

// judge sets the verdict on a node and counts it. The object is nil if it is deleted.
func (e *evaluation) judge(s *snapshot, node *remediation.Node, obj *corev1.Node, now time.Time) {
	if obj == nil {
		return
	}
	remediated := len(node.Own) > 0 || len(node.Unreadable) > 0
	node.Verdict = s.verdict(obj, now)
	if len(s.nhc.Spec.UnhealthyConditions) == 0 && remediated {
		// There is nothing to judge it by, and to call it healthy would delete its CRs
		// (spec 4.2).
		node.Verdict = health.Verdict{State: health.SoonUnhealthy}
	}
	if !node.Constraints.Unselected {
		e.summary.Add(node.Verdict, remediated)
		e.upgrading = e.upgrading || (node.Verdict.State == health.Unhealthy && remediation.Reconfiguring(obj.Annotations))
	} else if remediated && node.Verdict.State == health.SoonUnhealthy {
		e.recheck = health.Earliest(e.recheck, node.Verdict.Deadline)
	}
}

// verdict judges a Node by the rules of the NodeHealthCheck. Where MachineHealthChecks
// replace nodes that terminate, these are left to them (spec 7.7).
func (s *snapshot) verdict(node *corev1.Node, now time.Time) health.Verdict {
	if s.platform.machineHealthChecks && remediation.Terminating(node.Status.Conditions) {
		return health.Verdict{}
	}
	return health.Judge(s.nhc.Spec.UnhealthyConditions, node.Status.Conditions, now)
}

// stormInput returns what a storm is judged by. Created is the number of nodes that have
// got their first CR since the nodes were counted.
func (e *evaluation) stormInput(created int) health.StormInput {
	return health.StormInput{Gate: e.gate, Unhealthy: e.summary.Unhealthy, Remediated: e.summary.Remediated + created}
}

// newPolicy returns what a NodeHealthCheck wants done.
func newPolicy(s *snapshot) remediation.Policy {
	policy := remediation.Policy{Owner: object.OwnerOf(s.nhc), Steps: s.templates.steps, Templates: s.templates.templates}
	policy.DryRun = s.dryRun || s.nhc.Spec.Mode == v1alpha1.ModeDryRun
	if delay := s.nhc.Spec.HealthyDelay; delay != nil {
		policy.HealthyDelay = delay.Duration
	}
	return policy
}

// constrain sets the constraints that hold for all nodes, and what explains them.
func (e *evaluation) constrain(s *snapshot) {
	context := &e.policy.Context
	context.Gate, context.SpecProblem, context.Unread, context.PauseRequests = e.gate, s.specProblem, s.templates.unread, s.nhc.Spec.PauseRequests
	if s.templates.problem != nil {
		context.TemplateProblem = s.templates.problem.Message
	}
	context.Constraints = remediation.Constraints{
		InvalidSpec:       s.specProblem != "",
		Terminating:       s.nhc.DeletionTimestamp != nil,
		Conflict:          s.platform.conflict,
		Upgrading:         e.upgrading,
		TemplatesUnusable: s.platform.unknown || s.templates.unusable(s.nhc),
		ClockUntrusted:    s.clockUntrusted,
		Paused:            len(s.nhc.Spec.PauseRequests) > 0,
		GateClosed:        !e.gate.Open,
	}
	e.setStorm(s, e.storm)
}

// setStorm sets the storm and what follows from it.
func (e *evaluation) setStorm(s *snapshot, storm health.Storm) {
	context := &e.policy.Context
	e.storm, context.Storm, context.Constraints.Storm = storm, storm, storm.Active
	context.StormEnd = storm.End(health.StormRulesOf(&s.nhc.Spec))
}

// settleStorm brings the storm up to date with what was created: to reach the limit is
// enough to begin one (spec 9.2).
func (e *evaluation) settleStorm(s *snapshot, results []remediation.NodeResult, now time.Time) {
	created := 0
	for _, result := range results {
		if result.Outcome.NewCR() != nil && len(result.Plan.Node.Own) == 0 {
			created++
		}
	}
	e.setStorm(s, e.storm.Next(health.StormRulesOf(&s.nhc.Spec), e.stormInput(created), now))
}
