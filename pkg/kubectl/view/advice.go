// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// shownNames is how many names a sentence has at most.
const shownNames = 10

// controllerLogs is the command that shows the log of the controller.
const controllerLogs = "kubectl -n nhc-system logs -l app.kubernetes.io/name=nhc-controller --prefix"

// advices say what changes a decision, and what to do about it, by its reason, where its message does not. {node},
// {check}, {namespace} and {machine} stand for names.
var advices = map[v1alpha1.DecisionReason]string{
	v1alpha1.DecidedStepRunning:         "the remediator works on it: kubectl nhc explain node {node} shows its object",
	v1alpha1.DecidedStepSucceeded:       "the remediator is done, and the node has to become healthy: kubectl describe node {node}",
	v1alpha1.DecidedAwaitingReplacement: "the remediator replaces the Node: kubectl nhc explain node {node} shows its object",
	v1alpha1.DecidedControlPlaneBusy:    "it begins when the other one is healthy again: kubectl nhc status shows it",
	v1alpha1.DecidedEtcdQuorum:          "it begins when etcd can do without the node: repair the other members first",
	v1alpha1.DecidedForeignRemediation:  "it begins when that object is gone: ask its owner",
	v1alpha1.DecidedMachineUnreadable:   "it begins within 30 seconds, without the Machine as owner",
	v1alpha1.DecidedLeaseTaken:          "it begins when the holder gives the lease of the node up, or does not renew it",
	v1alpha1.DecidedAwaitingDeletion:    "it goes on when the remediation object is gone: if it stays, its remediator has not removed the finalizer",
	v1alpha1.DecidedSoonUnhealthy:       "nothing, until the condition has lasted for its duration, or is gone",
	v1alpha1.DecidedVanished:            "find out who deletes the remediation objects: kubectl nhc history has the times",
	v1alpha1.DecidedRecovering:          "nothing, as long as the node stays healthy",
	v1alpha1.DecidedUnreadable:          "it goes on when the objects can be read: " + controllerLogs,
	v1alpha1.DecidedCreateFailed:        "it is tried again at least every minute: look at quotas, webhooks and permissions",
	v1alpha1.DecidedDeleteFailed:        "it is tried again at least every minute: look at webhooks and permissions",
	v1alpha1.DecidedUpdateFailed:        "it is tried again at least every minute: look at webhooks and permissions",
	v1alpha1.DecidedInvalidSpec:         "correct the spec: kubectl nhc lint {check}",
	v1alpha1.DecidedClockUntrusted:      "correct the clock of the node on which the controller runs",
	v1alpha1.DecidedPaused:              "it goes on with kubectl nhc resume {check}",
	v1alpha1.DecidedExcluded:            "it goes on with kubectl nhc resume node/{node}",
	v1alpha1.DecidedMachineHealthCheck:  "the MachineHealthCheck decides: kubectl nhc status shows its Machines",
	v1alpha1.DecidedBudgetExhausted:     "it begins when the budget permits it: kubectl nhc status -o wide shows its numbers",
	v1alpha1.DecidedDryRun:              "nothing begins in a dry run: spec.mode of {check} ends it",
	v1alpha1.DecidedHealthyDelay:        "the remediation object is deleted, or at once with kubectl nhc confirm-healthy {node}",
	v1alpha1.DecidedStepFailed:          "repair the node by hand, or its remediator: no step follows",
	v1alpha1.DecidedNoTemplateLeft:      "repair the node by hand: no step is left",

	machinev1beta1.DecidedMachineDeleting:      "its provider drains and deletes it; if that does not end, look at its finalizers and at the log of the provider",
	machinev1beta1.DecidedExternalRemediation:  "the other controller remediates the Machine: look at its annotations",
	machinev1beta1.DecidedRemediationOverdue:   "look why the remediation does not end: kubectl describe machine -n {namespace} {machine}",
	machinev1beta1.DecidedNotStarted:           "it has to get a Node before nodeStartupTimeout ends",
	machinev1beta1.DecidedBackOff:              "it begins; Machines of this owner fail one after the other: look at the log of the provider",
	machinev1beta1.DecidedMachinePaused:        "it goes on without the annotation that the message names: kubectl describe machine -n {namespace} {machine}",
	machinev1beta1.DecidedClusterPaused:        "it goes on when spec.paused of its Cluster is false",
	machinev1beta1.DecidedAmbiguousNode:        "delete the Machine that does not stand for the node any more: kubectl get machines -n {namespace} -o wide",
	machinev1beta1.DecidedOtherHealthCheck:     "the other health check decides: kubectl nhc status shows it",
	machinev1beta1.DecidedNoController:         "replace the Machine by hand: no controller would",
	machinev1beta1.DecidedControlPlaneProvider: "only its provider replaces it: look at the KubeadmControlPlane, or its like",
	machinev1beta1.DecidedTemplateUnavailable:  "correct the reference, or create the template: kubectl nhc lint {check}",
}

// advice says what changes a decision, and what to do about it. It is empty if the message says it, and for a reason of
// a newer controller. Further names are pairs of a placeholder and what it stands for.
func advice(reason v1alpha1.DecisionReason, check, node string, names ...string) string {
	return strings.NewReplacer(append(names, "{check}", check, "{node}", node)...).Replace(advices[reason])
}

func machineAdvice(reason v1alpha1.DecisionReason, check string, e *MachineExplanation) string {
	if reason == v1alpha1.DecidedStepRunning {
		return "the remediator works on it: look at its remediation object, which has the name of the Machine"
	}
	return advice(reason, e.Namespace+"/"+check, cmp.Or(e.Node, "NODE"), "{namespace}", e.Namespace, "{machine}", e.Machine)
}

// opening says which nodes keep a gate closed, and how many of them have to recover.
func opening(gate *Gate, nodes []string) string {
	switch {
	case gate == nil || gate.Open || gate.NoNodes:
		return ""
	case gate.MaxNotHealthy < 0:
		return "the limit asks for more healthy nodes than there are nodes: lower minHealthy"
	case len(nodes) < gate.NotHealthy: // Some cannot be read: naming the others would mislead.
		return ""
	}
	return fmt.Sprintf("it takes %d of these to be healthy: %s", gate.NotHealthy-gate.MaxNotHealthy, Some(nodes, shownNames))
}

// Some names the first of many, and says how many there are.
func Some(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// WhatNext says what happens without an action of the user, or which action is needed. It is empty if the message of
// the decision says it.
func WhatNext(e *Explanation, check *CheckOfNode, now time.Time) string {
	decision := check.Decision
	switch {
	case e.Leader.Problem(now) != "":
		return "nothing, as long as no controller is at work"
	case decision != nil && decision.Reason == v1alpha1.DecidedStepRunning && decision.NextCheckTime != nil:
		return at(decision, now) + timeout(check)
	case decision != nil && decision.Type == v1alpha1.DecisionRemediating && decision.NextCheckTime != nil:
		return advice(decision.Reason, check.Name, e.Node) + "; " + at(decision, now) + timeout(check)
	case decision != nil && decision.Reason == v1alpha1.DecidedBudgetExhausted && e.Stopped != "":
		return "nothing, until the stop ends"
	case decision != nil && decision.Reason == v1alpha1.DecidedGateClosed && opening(check.Gate, check.NotHealthy) != "":
		return opening(check.Gate, check.NotHealthy)
	case decision != nil:
		return inTime(decision, advice(decision.Reason, check.Name, e.Node), now)
	case check.State == health.SoonUnhealthy.String() && check.Unhealthy != nil:
		return fmt.Sprintf("at %s (in %s) the node is unhealthy, unless the condition changes", Clock(check.Unhealthy, now), In(check.Unhealthy, now))
	}
	if check.State == health.Unhealthy.String() {
		return "the controller has not reported the node yet"
	}
	return "nothing, as long as the node is healthy"
}

// inTime says what changes a decision, and when time alone does. Some advices say what happens at that time, others
// what is needed before.
func inTime(decision *v1alpha1.Decision, advice string, now time.Time) string {
	switch {
	case decision.NextCheckTime == nil:
		return advice
	case advice == "":
		return at(decision, now) + "the decision changes"
	case decision.Reason == v1alpha1.DecidedHealthyDelay, decision.Reason == machinev1beta1.DecidedBackOff:
		return at(decision, now) + advice
	default:
		return fmt.Sprintf("%s; time alone changes the decision at %s (in %s)", advice, Clock(decision.NextCheckTime, now), In(decision.NextCheckTime, now))
	}
}

// at says when time alone changes a decision.
func at(decision *v1alpha1.Decision, now time.Time) string {
	return fmt.Sprintf("at %s (in %s) ", Clock(decision.NextCheckTime, now), In(decision.NextCheckTime, now))
}

// timeout says what happens when the step that runs times out (spec 11.2).
func timeout(check *CheckOfNode) string {
	begun := len(check.Remediations) // Each step has one object.
	switch {
	case len(check.Steps) > 0 && check.Steps[0].Timeout == "":
		return "the lease of the node is given up and the object is marked as timed out; it stays, and nothing else is tried: repair the node by hand then"
	case begun < len(check.Steps):
		next := &check.Steps[begun]
		return fmt.Sprintf("the step times out, and step %d begins: %s %s", begun+1, next.Kind, strings.TrimPrefix(next.Template, "/"))
	default:
		return "the step times out, and no step is left: repair the node by hand then"
	}
}

// isOf reports whether a remediation object is of a step.
func isOf(r *Remediation, step *Step) bool {
	return r.Resource.Kind+v1alpha1.TemplateKindSuffix == step.Kind && (r.TemplateName == "" || strings.HasSuffix(step.Template, "/"+r.TemplateName))
}
