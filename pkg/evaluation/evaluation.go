// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evaluation decides what the state of nodes, templates and platform means for a
// NodeHealthCheck: how healthy the nodes are, whether gate and storm let anything begin, and what
// constrains the plans. It is pure: it knows no client and no clock.
package evaluation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Input is what was observed of a NodeHealthCheck.
type Input struct {
	NHC *v1alpha1.NodeHealthCheck
	// Storm is the state before: that of the status, or what is known beyond it.
	Storm health.Storm
	// Observed is the number of selected nodes.
	Observed int
	// Nodes are those that may not be healthy, or have CRs. All others are healthy. Evaluate
	// adds the verdict and the constraints of all nodes to them.
	Nodes []remediation.Node
	// Objects are the Nodes behind Nodes, at the same indexes; nil for a deleted one.
	Objects []*corev1.Node
	// Seen returns what was seen of the conditions of a Node before, nil if nothing is remembered.
	Seen      func(*corev1.Node) []health.Sighting
	Platform  Platform
	Templates Templates
	// SpecProblem is the rule of admission that the stored spec breaks, if any.
	SpecProblem string
	// Stop names the budget that stops everything, if any does.
	Stop string
	// ClockUntrusted means that nothing may begin by the clock.
	ClockUntrusted bool
	// DryRun means that the process only reports, whatever the mode of the spec is.
	DryRun bool
}

// Platform is what was observed of the platform.
type Platform struct {
	// Conflict means that MachineHealthChecks look after the same machines. Unknown means that
	// this was never found out.
	Conflict, Unknown bool
	// MachineHealthChecks reports whether there is any.
	MachineHealthChecks bool
	// Upgrading means that a ClusterVersion says so.
	Upgrading bool
}

// Evaluated is the evaluation of an Input.
type Evaluated struct {
	Summary health.Summary
	Gate    health.Gate
	Storm   health.Storm
	// Upgrading means that the cluster is being upgraded (spec 10.2).
	Upgrading bool
	Policy    remediation.Policy
	// Recheck is the next instant at which time alone changes a verdict.
	Recheck time.Time
}

// Evaluate judges the nodes at the instant now, and by their numbers gate and storm. It changes
// the nodes of the input, and depends on nothing else.
func Evaluate(in *Input, now time.Time) *Evaluated {
	r := &Evaluated{Summary: health.NewSummary(in.Observed), Upgrading: in.Platform.Upgrading}
	for i := range in.Nodes {
		r.judge(in, &in.Nodes[i], in.Objects[i], now)
	}
	spec := &in.NHC.Spec
	r.Gate = health.EvaluateGate(spec.MinHealthy, spec.MaxUnhealthy, r.Summary.Observed, r.Summary.Healthy)
	r.Storm = in.Storm.Next(health.StormRulesOf(spec), r.stormInput(0), now)
	r.SetPolicy(in)
	r.Recheck = health.Earliest(r.Recheck, r.Summary.Recheck)
	for i := range in.Nodes {
		constraints := &in.Nodes[i].Constraints
		own := constraints.NodeConstraints
		*constraints = r.Policy.Context.Constraints
		constraints.NodeConstraints = own
	}
	return r
}

// judge sets the verdict on a node and counts it. The object is nil if it is deleted.
func (r *Evaluated) judge(in *Input, node *remediation.Node, obj *corev1.Node, now time.Time) {
	if obj == nil {
		return
	}
	remediated := len(node.Own) > 0 || len(node.Unreadable) > 0
	var seen []health.Sighting
	if in.Seen != nil {
		seen = in.Seen(obj)
	}
	node.Verdict = Judge(&in.NHC.Spec, in.Platform, obj, seen, now)
	if len(in.NHC.Spec.UnhealthyConditions) == 0 && remediated {
		// The spec has nothing to judge it by. A healthy verdict would delete its CRs (spec 4.2).
		node.Verdict = health.Verdict{State: health.SoonUnhealthy}
	}
	if node.Verdict.State == health.Unhealthy {
		node.Constraints.UpdateEnds = remediation.UpdateEnds(obj.Annotations, node.Verdict.Deadline, now)
	}
	if !node.Constraints.Unselected {
		r.Summary.Add(node.Verdict, remediated)
	} else if remediated && node.Verdict.State == health.SoonUnhealthy {
		r.Recheck = health.Earliest(r.Recheck, node.Verdict.Deadline)
	}
}

// Judge judges a Node by the rules of a NodeHealthCheck and by earlier sightings of its conditions. If
// MachineHealthChecks replace terminating nodes, it leaves these to them (spec 7.7).
func Judge(spec *v1alpha1.NodeHealthCheckSpec, platform Platform, node *corev1.Node, seen []health.Sighting, now time.Time) health.Verdict {
	if platform.MachineHealthChecks && remediation.Terminating(node.Status.Conditions) {
		return health.Verdict{}
	}
	return health.JudgeNode(spec.UnhealthyConditions, health.EvidenceOf(node, seen), now)
}

// stormInput returns the input of a storm. created is the number of nodes that have got
// their first CR since the nodes were counted.
func (r *Evaluated) stormInput(created int) health.StormInput {
	return health.StormInput{Gate: r.Gate, Unhealthy: r.Summary.Unhealthy, Remediated: r.Summary.Remediated + created}
}

// SetPolicy sets the policy of the NodeHealthCheck, with the constraints of all nodes and their
// explanation, from the gate, storm and upgrade of the result.
func (r *Evaluated) SetPolicy(in *Input) {
	r.Policy = newPolicy(in)
	r.constrain(in)
}

// newPolicy returns the policy of a NodeHealthCheck.
func newPolicy(in *Input) remediation.Policy {
	policy := remediation.Policy{Owner: object.OwnerOf(in.NHC), Steps: in.Templates.Steps, Templates: in.Templates.Templates}
	policy.DryRun = in.DryRun || in.NHC.Spec.Mode == v1alpha1.ModeDryRun
	if delay := in.NHC.Spec.HealthyDelay; delay != nil {
		policy.HealthyDelay = delay.Duration
	}
	return policy
}

// constrain sets the constraints that hold for all nodes, and their explanation.
func (r *Evaluated) constrain(in *Input) {
	context := &r.Policy.Context
	context.Gate, context.SpecProblem, context.Unread, context.PauseRequests = r.Gate, in.SpecProblem, in.Templates.Unread, in.NHC.Spec.PauseRequests
	context.Stop = in.Stop
	if in.Templates.Problem != nil {
		context.TemplateProblem = in.Templates.Problem.Message
	}
	context.Constraints = remediation.Constraints{
		InvalidSpec:       in.SpecProblem != "",
		Terminating:       in.NHC.DeletionTimestamp != nil,
		Conflict:          in.Platform.Conflict,
		Upgrading:         r.Upgrading,
		TemplatesUnusable: in.Platform.Unknown || in.Templates.Problem != nil || in.Templates.Unknown || in.Templates.Unread != "",
		ClockUntrusted:    in.ClockUntrusted,
		Paused:            len(in.NHC.Spec.PauseRequests) > 0,
		GateClosed:        !r.Gate.Open,
	}
	r.setStorm(&in.NHC.Spec, r.Storm)
}

// setStorm sets the storm and its consequences.
func (r *Evaluated) setStorm(spec *v1alpha1.NodeHealthCheckSpec, storm health.Storm) {
	context := &r.Policy.Context
	r.Storm, context.Storm, context.Constraints.Storm = storm, storm, storm.Active
	context.StormEnd = storm.End(health.StormRulesOf(spec))
}

// SettleStorm updates the storm after the creations. A storm begins as soon as its limit
// is reached (spec 9.2).
func (r *Evaluated) SettleStorm(spec *v1alpha1.NodeHealthCheckSpec, results []remediation.NodeResult, now time.Time) {
	created := 0
	for _, result := range results {
		if result.Outcome.NewCR() != nil && len(result.Plan.Node.Own) == 0 {
			created++
		}
	}
	r.setStorm(spec, r.Storm.Next(health.StormRulesOf(spec), r.stormInput(created), now))
}
