// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Grounds are the numbers and texts behind the circumstances that hold for all
// nodes. No plan depends on them: they explain it.
type Grounds struct {
	// Circumstances are those that hold for all nodes alike. Gate and Storm say the same
	// of theirs, and count.
	Circumstances Circumstances
	Gate          health.Gate
	// Storm is the state of storm recovery, and StormEnd when it ends if it stays calm,
	// zero if time alone does not end it.
	Storm    health.Storm
	StormEnd time.Time
	// SpecProblem is the rule of admission that the stored spec breaks, if any.
	SpecProblem string
	// ClockUntrusted means that the clock is too far ahead of that of the API server.
	ClockUntrusted bool
	// TemplateProblem is the message of condition Disabled, empty if it is not known
	// whether there is a problem.
	TemplateProblem string
	// Unread says of which step template or remediation objects cannot be read.
	Unread string
}

// messageClockUntrusted has no numbers: it is the same as long as the reason is.
const messageClockUntrusted = "The clock of the controller is too far ahead of that of the API server, so it is not known for how long anything has lasted"

// Allowance says in one sentence whether a node may get its first CR, as far as that
// is the same for all nodes, and why not (spec 18.5).
func (s *Script) Allowance() (allowed bool, reason, message string) {
	circumstances := s.Grounds.Circumstances
	circumstances.GateClosed, circumstances.Storm = !s.Grounds.Gate.Open, s.Grounds.Storm.Active
	refusal := circumstances.Refusal(true)
	if refusal == "" {
		return true, v1alpha1.ReasonGateOpen, s.Grounds.explainGate()
	}
	return false, string(refusal), s.explainHold(v1alpha1.DecisionReason(refusal))
}

func (g *Grounds) explainGate() string {
	return fmt.Sprintf("%d of %d nodes are healthy, at least %d have to be", g.Gate.Healthy, g.Gate.Observed, max(0, g.Gate.Required))
}

func (g *Grounds) explainStorm() string {
	if g.StormEnd.IsZero() {
		return fmt.Sprintf("Storm recovery is active while %d of %d nodes are not healthy", g.Gate.Observed-g.Gate.Healthy, g.Gate.Observed)
	}
	return "Storm recovery is active until " + g.StormEnd.UTC().Format(time.RFC3339) + ", if it stays calm"
}

// Decision says what was decided about a node, once its plan has been carried out,
// and why. It is nil for a node that there is nothing to be said about. Its since is
// not set. The same plan and outcome give the same decision, so that it can be told
// from the one before.
func (s *Script) Decision(plan *NodePlan, outcome *Outcome) *v1alpha1.Decision {
	reason, until := plan.Reason, plan.Until
	if reason == "" {
		return nil
	}
	message := ""
	switch {
	case outcome.Created != nil:
		reason, message = v1alpha1.DecidedStepRunning, s.atWork(outcome.Created)
		until = s.createdStepEnd(plan, outcome.Created)
	case outcome.Failed != "":
		reason, until, message = outcome.Failed, time.Time{}, failureMessage(outcome.Err.Error())
	case outcome.Blocker != nil:
		reason, until, message = v1alpha1.DecidedForeignRemediation, time.Time{}, inTheWay(outcome.Blocker)
	case outcome.Recovered:
		reason, until = v1alpha1.DecidedRecovering, time.Time{}
	case outcome.LeaseLost && (plan.creates() || plan.Exhausted):
		reason, until = v1alpha1.DecidedLeaseTaken, time.Time{}
		message = fmt.Sprintf("Lease %s was written by another client just now", LeaseName(plan.Node.Name))
	case outcome.StillDeleting:
		reason, until = v1alpha1.DecidedAwaitingDeletion, time.Time{}
	}
	decision := &v1alpha1.Decision{Type: reason.Type(), Reason: reason}
	if outcome.Created != nil || plan.works(outcome) {
		decision.Type = v1alpha1.DecisionRemediating
	}
	if !s.heldForAll(reason) { // Or else the condition has the message (spec 23b.5).
		if message == "" {
			message = s.explain(plan, reason)
		}
		decision.Message = shorten(message)
	}
	decision.NextCheckTime = storable(until)
	return decision
}

// storable returns an instant in whole seconds, and not before it is due, or nil if it is
// never or cannot be stored: the API has years of four digits, and times are computed from
// what others have written. One such node must not keep a whole status from being written.
func storable(until time.Time) *metav1.Time {
	at := until.Add(time.Second - 1).Truncate(time.Second)
	if year := at.UTC().Year(); until.IsZero() || year < 1 || year > 9999 {
		return nil
	}
	return new(metav1.NewTime(at))
}

// holdsForAll has the reasons that hold for all nodes of a NodeHealthCheck.
var holdsForAll = map[v1alpha1.DecisionReason]bool{
	v1alpha1.DecidedDisabled: true, v1alpha1.DecidedInvalidSpec: true, v1alpha1.DecidedTerminating: true, v1alpha1.DecidedClusterUpgrading: true,
	v1alpha1.DecidedPaused: true, v1alpha1.DecidedGateClosed: true, v1alpha1.DecidedStormActive: true, v1alpha1.DecidedClockUntrusted: true,
}

// heldForAll reports whether a reason holds for all nodes. A template that cannot be read
// concerns those of which the step is next.
func (s *Script) heldForAll(reason v1alpha1.DecisionReason) bool {
	if reason == v1alpha1.DecidedDisabled && s.Grounds.Unread != "" {
		return s.Grounds.Circumstances.TemplatesUnusable || s.Grounds.Circumstances.Conflict
	}
	return holdsForAll[reason]
}

// works reports whether the remediator of the current step is still at work once the
// plan has been carried out, whatever else the node waits for.
func (p *NodePlan) works(outcome *Outcome) bool {
	if p.Running == nil || p.Running.Succeeded == corev1.ConditionFalse || p.Node.Circumstances.NodeDeleted || p.Node.Verdict.State == health.Healthy {
		return false
	}
	_, ended := outcome.TimedOut[p.Running.UID]
	return !ended && !p.ExhaustedBy(outcome)
}

// waits reports whether the node waits for something in the plan: for the others a
// decision does not depend on what becomes of them.
func (p *NodePlan) waits() bool {
	return slices.ContainsFunc(p.Actions, func(action Action) bool { return p.failedAs(action) != "" })
}

// failedAs returns as what it counts if an action of the plan fails. It is empty for
// what the node does not wait for.
func (p *NodePlan) failedAs(action Action) v1alpha1.DecisionReason {
	switch action := action.(type) {
	case Create:
		return v1alpha1.DecidedCreateFailed
	case Delete:
		return v1alpha1.DecidedDeleteFailed
	case MarkTimedOut:
		if action.EndsStep {
			return v1alpha1.DecidedUpdateFailed
		}
	case WriteLease:
		if p.creates() || p.Exhausted {
			return v1alpha1.DecidedUpdateFailed
		}
	case Confirm:
		if p.creates() {
			return v1alpha1.DecidedCreateFailed
		}
		return v1alpha1.DecidedUpdateFailed
	}
	return ""
}

// creates reports whether a CR is created by the plan.
func (p *NodePlan) creates() bool {
	return slices.ContainsFunc(p.Actions, func(action Action) bool {
		_, create := action.(Create)
		return create
	})
}

// explain says what a reason means for a node, with what it was found by.
func (s *Script) explain(plan *NodePlan, reason v1alpha1.DecisionReason) string {
	node := &plan.Node
	switch reason {
	case v1alpha1.DecidedStepRunning, v1alpha1.DecidedStepSucceeded:
		return s.explainStep(plan, reason)
	case v1alpha1.DecidedAwaitingReplacement:
		return "The Node is gone; its remediator is to bring another one"
	case v1alpha1.DecidedControlPlaneBusy:
		return "Another control plane node is under remediation, or this cannot be told"
	case v1alpha1.DecidedEtcdQuorum:
		return "etcd could lose its quorum without this node, or this cannot be told"
	case v1alpha1.DecidedForeignRemediation:
		return inTheWay(plan.Blocker)
	case v1alpha1.DecidedMachineUnreadable:
		return "The Machine that would own the remediation object cannot be read for now"
	case v1alpha1.DecidedLeaseTaken:
		return fmt.Sprintf("Lease %s is held by %q", LeaseName(node.Name), leaseHolder(node.Lease))
	case v1alpha1.DecidedAwaitingDeletion:
		return awaitedDeletions(node)
	case v1alpha1.DecidedSoonUnhealthy:
		if node.Verdict.Deadline.IsZero() {
			return fmt.Sprintf("Condition %s=%s has no lastTransitionTime, so its duration is not known to be over", node.Verdict.Type, node.Verdict.Status)
		}
		return fmt.Sprintf("Condition %s=%s has not lasted for its duration yet", node.Verdict.Type, node.Verdict.Status)
	case v1alpha1.DecidedRecovering:
		return "The Node itself is no longer unhealthy, the watch is about to tell"
	case v1alpha1.DecidedUnreadable:
		return "Remediation objects that status names cannot be read, so they may be at work"
	case v1alpha1.DecidedCreateFailed, v1alpha1.DecidedDeleteFailed, v1alpha1.DecidedUpdateFailed:
		return failureMessage(node.LastFailure)
	case v1alpha1.DecidedHealthyDelay:
		return s.explainDelay(node)
	case v1alpha1.DecidedStepFailed:
		return plan.Failed.Failure()
	case v1alpha1.DecidedNoTemplateLeft:
		return fmt.Sprintf("All %d steps are over and the node is still unhealthy", len(s.Steps))
	default:
		return s.explainHold(reason)
	}
}

// explainStep tells of a step that is under way.
func (s *Script) explainStep(plan *NodePlan, reason v1alpha1.DecisionReason) string {
	switch {
	case plan.Running == nil:
		return "A remediation object that belongs to no step is at work"
	case reason == v1alpha1.DecidedStepSucceeded:
		return s.name(plan.Running) + " reports success, the node is not healthy yet"
	default:
		return s.atWork(plan.Running)
	}
}

func (s *Script) explainDelay(node *Node) string {
	if s.NHC.Spec.HealthyDelay != nil && s.NHC.Spec.HealthyDelay.Duration > 0 {
		return "The node has to stay healthy for " + s.NHC.Spec.HealthyDelay.Duration.String()
	}
	return fmt.Sprintf("The node has to be confirmed healthy: kubectl annotate node %s %s=", node.Name, v1alpha1.AnnotationManuallyConfirmedHealthy)
}

// explainHold tells what holds a node for all nodes' sake, or by somebody's wish.
func (s *Script) explainHold(reason v1alpha1.DecisionReason) string {
	switch reason {
	case v1alpha1.DecidedInvalidSpec:
		return s.Grounds.SpecProblem
	case v1alpha1.DecidedTerminating:
		return "The NodeHealthCheck is being deleted"
	case v1alpha1.DecidedDisabled:
		return cmp.Or(s.Grounds.TemplateProblem, s.Grounds.Unread, "The templates could not be read yet")
	case v1alpha1.DecidedClockUntrusted:
		return messageClockUntrusted
	case v1alpha1.DecidedClusterUpgrading:
		return "The cluster is being upgraded"
	case v1alpha1.DecidedPaused:
		return "Paused: " + strings.Join(s.NHC.Spec.PauseRequests, ",")
	case v1alpha1.DecidedGateClosed:
		return s.Grounds.explainGate()
	case v1alpha1.DecidedStormActive:
		return s.Grounds.explainStorm()
	case v1alpha1.DecidedExcluded:
		return "The node carries label " + v1alpha1.LabelExclude
	case v1alpha1.DecidedUnselected:
		return "The node is no longer selected"
	default:
		return string(reason)
	}
}

// name returns how a CR is called, with its place among the steps if there are
// several.
func (s *Script) name(cr *CR) string {
	name := fmt.Sprintf("%s %s", cr.Kind, cr.Name)
	for i, step := range s.Steps {
		if len(s.Steps) > 1 && step.owns(cr) {
			return fmt.Sprintf("%s (step %d of %d)", name, i+1, len(s.Steps))
		}
	}
	return name
}

func (s *Script) atWork(cr *CR) string { return s.name(cr) + " is at work" }

// createdStepEnd returns when the step of a CR that was just created ends, in the way
// in which the next plan will find it out.
func (s *Script) createdStepEnd(plan *NodePlan, cr *CR) time.Time {
	for _, step := range s.Steps {
		if step.Escalating() && step.owns(cr) {
			return cr.CreationTimestamp.Add(step.Timeout)
		}
	}
	for _, action := range plan.Actions {
		if write, ok := action.(WriteLease); ok {
			end, _ := overdue(write.Lease)
			return end
		}
	}
	return time.Time{}
}

// inTheWay names a CR of somebody else.
func inTheWay(cr *CR) string {
	if cr == nil {
		return "A remediation object of somebody else is in the way"
	}
	owners := strings.Join(cr.Owners(), ", ")
	if owners == "" {
		owners = "no NodeHealthCheck"
	}
	return fmt.Sprintf("%s %s, which belongs to %s, is in the way", cr.Kind, cr.Name, owners)
}

// awaitedDeletions names the CRs that are on their way, and what keeps them. As long as
// the node is unhealthy, those of earlier steps stay.
func awaitedDeletions(node *Node) string {
	all := node.Circumstances.NodeDeleted || node.Verdict.State == health.Healthy
	var names []string
	for _, cr := range node.Own {
		if all || node.deleting(cr) {
			names = append(names, cr.Kind+" "+cr.Name)
		}
	}
	if len(names) == 0 {
		names = []string{"the previous remediation object"}
	}
	return "Waiting until " + strings.Join(names, ", ") + " is gone, which its remediator may hold by a finalizer"
}

// localPort is the port of the one who asks, in errors of connections: it is another one
// with every attempt.
var localPort = regexp.MustCompile(`:[0-9]+->`)

// failureMessage returns what has failed in words that are the same for the same
// failure, so that attempts in vain are told of once.
func failureMessage(err string) string { return localPort.ReplaceAllString(err, "->") }

// maxMessage is how many bytes of a message are kept: there may be thousands of them
// in one object.
const maxMessage = 512

// shorten cuts a message.
func shorten(message string) string { return cut(message, maxMessage) }

// cut returns no more than so many bytes of a text, and does not cut a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
