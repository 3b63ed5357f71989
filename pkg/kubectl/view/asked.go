// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// asked returns the checks before a remediation object is created (spec 5.4), in the order and the
// words of the controller, from package remediation. The input comes from the spec, from the Node,
// and from status: gate and storm with the numbers of the last sync, and the refusal of the
// controller, which it alone may know.
func asked(nhc *v1alpha1.NodeHealthCheck, node *corev1.Node, entry *v1alpha1.UnhealthyNode, verdict health.Verdict, selected bool, lease *coordinationv1.Lease) []Asked {
	policy := policyOf(nhc)
	subject := remediation.Node{Verdict: verdict, Constraints: policy.Context.Constraints, Lease: lease}
	if lease == nil {
		subject.Lease = &coordinationv1.Lease{} // One that cannot be read.
	}
	subject.Constraints.NodeConstraints = remediation.NodeConstraints{Unselected: !selected, Excluded: node.Labels[v1alpha1.LabelExclude] == "true"}
	subject.Name, subject.ControlPlane = node.Name, remediation.IsControlPlane(node.Labels)
	plan := remediation.NodePlan{Node: &subject}
	refusal, message := decided(entry)
	if refusal != "" {
		plan.Refused, plan.Reason, plan.Withheld = true, refusal, &remediation.Withholding{Reason: refusal, Message: message}
	}
	underway := entry != nil && len(entry.Remediations) > 0
	if underway {
		for range entry.Remediations {
			subject.Own = append(subject.Own, &object.CR{}) // Their number tells the first step from the next ones.
		}
	}
	var answers []Asked
	for _, check := range policy.Checks(&plan) {
		answer := Asked{Reason: check.Reason, Answer: Passed, Message: check.Message}
		switch {
		case !check.Asked, check.AfterConstraints && (entry == nil || underway) && check.Passed:
			answer.Answer, answer.Message = NotAsked, ""
		case !check.Passed:
			answer.Answer = Refused
			if check.Reason == refusal && message != "" {
				answer.Message = message
			}
		}
		answers = append(answers, answer)
	}
	return answers
}

// leaveToController removes the answer that a check is passed: only the controller knows that.
func leaveToController(answers []Asked, reason v1alpha1.DecisionReason) {
	for i := range answers {
		if answers[i].Reason == reason && answers[i].Answer == Passed {
			answers[i].Answer = NotAsked
		}
	}
}

// decided returns the refusal that the controller has decided. It is empty for a node without a
// refusal.
func decided(entry *v1alpha1.UnhealthyNode) (reason v1alpha1.DecisionReason, message string) {
	if entry == nil || entry.Decision == nil {
		return "", ""
	}
	return entry.Decision.Reason, entry.Decision.Message
}

// policyOf returns the policy of a NodeHealthCheck, with the constraints of all its nodes, by its
// spec and its status.
func policyOf(nhc *v1alpha1.NodeHealthCheck) *remediation.Policy {
	spec, status := &nhc.Spec, &nhc.Status
	storm := health.StormOf(status)
	allowed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRemediationAllowed)
	refuses := func(reason v1alpha1.DecisionReason) bool {
		return allowed != nil && allowed.Status == metav1.ConditionFalse && allowed.Reason == string(reason)
	}
	disabled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDisabled)
	policy := &remediation.Policy{Owner: object.OwnerOf(nhc), Steps: remediation.Steps(spec), DryRun: spec.Mode == v1alpha1.ModeDryRun}
	context := &policy.Context
	context.SpecProblem, context.PauseRequests = remediation.SpecProblem(spec), spec.PauseRequests
	context.Gate = health.EvaluateGate(spec.MinHealthy, spec.MaxUnhealthy, value(status.ObservedNodes), value(status.HealthyNodes))
	context.Storm, context.StormEnd = storm, storm.End(health.StormRulesOf(spec))
	context.Constraints = remediation.Constraints{
		InvalidSpec: context.SpecProblem != "", Terminating: nhc.DeletionTimestamp != nil, Paused: len(spec.PauseRequests) > 0,
		TemplatesUnusable: (disabled != nil && disabled.Status == metav1.ConditionTrue) || refuses(v1alpha1.DecidedDisabled),
		Upgrading:         refuses(v1alpha1.DecidedClusterUpgrading), ClockUntrusted: refuses(v1alpha1.DecidedClockUntrusted),
		GateClosed: !context.Gate.Open, Storm: storm.Active,
	}
	switch {
	case disabled != nil && disabled.Status == metav1.ConditionTrue:
		context.TemplateProblem = disabled.Message
	case refuses(v1alpha1.DecidedDisabled):
		context.TemplateProblem = allowed.Message
	}
	return policy
}
