// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Decision returns the decision about a node and its reason, after its plan was carried out.
// The reason is empty for a node without a decision. Since is not set. The same plan and
// outcome give the same decision, so that a change is visible.
func (p *Policy) Decision(plan *NodePlan, outcome *Outcome) v1alpha1.Decision {
	if plan.Reason == "" {
		return v1alpha1.Decision{}
	}
	reason, until, message := plan.Decided(outcome)
	switch outcome.Result {
	case Created, Adopted:
		reason, message = v1alpha1.DecidedStepRunning, p.atWork(outcome.CR)
		until = p.createdStepEnd(plan, outcome.CR)
	case Blocked:
		message = explainBlocker(outcome.CR)
	default: // Decided knows them.
	}
	decision := v1alpha1.Decision{Type: reason.Type(), Reason: reason}
	if outcome.NewCR() != nil || plan.works(outcome) {
		decision.Type = v1alpha1.DecisionRemediating
	}
	if message == "" {
		message = p.explain(plan, reason)
	}
	decision.Message = shorten(message)
	decision.NextCheckTime = Storable(until)
	return decision
}

// Decided returns the reason of the decision after a plan was carried out, and until when it holds. It also returns the
// message if the outcome has more to say than the reason. All is that of the plan if the outcome changes nothing. It
// does not know what a CR that was created, or that is in the way, means.
func (p *NodePlan) Decided(outcome *Outcome) (reason v1alpha1.DecisionReason, until time.Time, message string) {
	switch outcome.Result {
	case Failed, Unknown:
		return outcome.Reason, time.Time{}, FailureMessage(outcome.Err.Error())
	case Blocked:
		return v1alpha1.DecidedForeignRemediation, time.Time{}, ""
	case Relapsed:
		return p.Reason, time.Time{}, "A live read does not show the recovery that the cache shows, so nothing is deleted"
	case Recovered, Refused:
		return outcome.Reason, time.Time{}, ""
	case StillDeleting:
		return v1alpha1.DecidedAwaitingDeletion, time.Time{}, ""
	case LeaseLost:
		if p.Creates() || p.Exhausted {
			return v1alpha1.DecidedLeaseTaken, time.Time{}, fmt.Sprintf("Lease %s was written by another client just now", object.LeaseName(p.Node.Name))
		}
	case Deferred:
		if p.Creates() || p.Exhausted {
			return v1alpha1.DecidedNextBatch, time.Time{}, ""
		}
	default: // The plan was carried out.
	}
	return p.Reason, p.Until, ""
}

// Upgrading and Updating are the messages of decisions while the cluster, or the machine configuration of a node, is
// updated.
const (
	Upgrading = "The cluster is being upgraded: see kubectl get clusterversion. It goes on when the upgrade is over"
	Updating  = "The machine configuration of the node is being updated: see kubectl get machineconfigpools. It goes on when the update is over"
)

// Storable returns an instant rounded up to whole seconds. It returns nil for the zero time,
// and for an instant that the API cannot store: its years have four digits, and instants are
// computed from texts of others. One such node must not block the write of a whole status.
func Storable(until time.Time) *metav1.Time {
	at := until.Add(time.Second - 1).Truncate(time.Second)
	if year := at.UTC().Year(); until.IsZero() || year < 1 || year > 9999 {
		return nil
	}
	return new(metav1.NewTime(at))
}

// works reports whether the remediator of the current step is still at work once the plan
// has been carried out.
func (p *NodePlan) works(outcome *Outcome) bool {
	if p.Running == nil || p.Running.Succeeded == corev1.ConditionFalse || p.Node.Constraints.NodeDeleted || p.Node.Verdict.State == health.Healthy {
		return false
	}
	_, ended := outcome.TimedOut[p.Running.UID]
	return !ended && !p.ExhaustedBy(outcome)
}

// explain returns the message of a reason for a node, with the facts behind it.
func (p *Policy) explain(plan *NodePlan, reason v1alpha1.DecisionReason) string {
	node := plan.Node
	if plan.note != "" && reason == plan.Reason {
		return plan.note
	}
	if withheld := plan.Withheld; withheld != nil && withheld.Reason == reason && withheld.Message != "" {
		return withheld.Message
	}
	if reason == v1alpha1.DecidedClusterUpgrading && !node.Constraints.Upgrading {
		return Updating
	}
	switch reason {
	case v1alpha1.DecidedStepRunning, v1alpha1.DecidedStepSucceeded:
		return p.explainStep(plan, reason)
	case v1alpha1.DecidedAwaitingReplacement:
		return "The Node is gone, and its remediator is expected to replace it"
	case v1alpha1.DecidedForeignRemediation:
		return explainBlocker(plan.Blocker)
	case v1alpha1.DecidedDisabled:
		if p.Context.TemplateProblem != "" {
			return p.Context.TemplateProblem + ". kubectl nhc lint " + p.Owner.Name + " says what to correct"
		}
		return p.Context.explainDisabled()
	case v1alpha1.DecidedGateClosed: // No numbers: there may be thousands of nodes (spec 23b.5).
		return "Too few nodes are healthy: it begins when enough of them are healthy again"
	case v1alpha1.DecidedStormActive:
		return "Storm recovery is active: it begins when most nodes have been healthy for a while"
	case v1alpha1.DecidedMachineHealthCheck:
		return node.Constraints.MachineClaim
	case v1alpha1.DecidedMachineUnreadable:
		return "The Machine that would own the remediation object cannot be read at the moment"
	case v1alpha1.DecidedDryRun:
		return plan.explainDryRun()
	case v1alpha1.DecidedAwaitingDeletion:
		return awaitedDeletions(node)
	case v1alpha1.DecidedUnreadable:
		return "Remediation objects that status lists cannot be read, and their remediators may still be working"
	case v1alpha1.DecidedHealthyDelay:
		return p.explainDelay(node)
	case v1alpha1.DecidedStepFailed:
		return plan.Failed.Failure()
	case v1alpha1.DecidedNoTemplateLeft:
		return fmt.Sprintf("All %d steps are over and the node is still unhealthy", len(p.Steps))
	default:
		if rule := ruleOf(reason); rule != nil {
			return rule.message(&p.Context)
		}
		return node.Explain(reason)
	}
}

// Explain returns the message of a reason that means the same for nodes and Machines.
func (n *Node) Explain(reason v1alpha1.DecisionReason) string {
	switch reason {
	case v1alpha1.DecidedControlPlaneBusy:
		return "Another control plane node or Machine is under remediation, or it is unknown whether one is"
	case v1alpha1.DecidedEtcdQuorum:
		return "etcd could lose its quorum without this node, or its state is unknown. A node without etcd needs label " + v1alpha1.LabelEtcd + "=false"
	case v1alpha1.DecidedLeaseTaken:
		return fmt.Sprintf("Lease %s is held by %q", object.LeaseName(n.Name), LeaseHolder(n.Lease))
	case v1alpha1.DecidedSoonUnhealthy:
		return explainSoon(&n.Verdict)
	case v1alpha1.DecidedNextBatch:
		return "The next sync begins it and follows immediately: many remediations begin at the same time, or the plan was outdated"
	case v1alpha1.DecidedRecovering:
		return "A live read shows that it is no longer unhealthy, and the watch has not reported it yet"
	case v1alpha1.DecidedCreateFailed, v1alpha1.DecidedDeleteFailed, v1alpha1.DecidedUpdateFailed:
		return FailureMessage(n.LastFailure)
	default:
		return string(reason)
	}
}

func explainSoon(v *health.Verdict) string {
	if v.NeverReported() {
		return "The node has never reported: it has no condition Ready"
	}
	if v.Deadline.IsZero() {
		return fmt.Sprintf("Condition %s=%s has no lastTransitionTime, so the controller cannot know how long it has lasted", v.Type, v.Status)
	}
	message := fmt.Sprintf("Condition %s=%s has not lasted for its duration yet", v.Type, v.Status)
	if v.Doubt != "" {
		message += ": " + v.Doubt
	}
	return message
}

// explainStep describes a step that is under way.
func (p *Policy) explainStep(plan *NodePlan, reason v1alpha1.DecisionReason) string {
	switch {
	case plan.Running == nil:
		return "A remediation object that belongs to no step is still running"
	case reason == v1alpha1.DecidedStepSucceeded:
		return p.name(plan.Running) + " reports success, but the node is not healthy yet"
	default:
		return p.atWork(plan.Running)
	}
}

func (p *Policy) explainDelay(node *Node) string {
	if p.HealthyDelay > 0 {
		return "The node must stay healthy for " + p.HealthyDelay.String()
	}
	return fmt.Sprintf("Confirm that the node is healthy: kubectl annotate node %s %s=", node.Name, v1alpha1.AnnotationManuallyConfirmedHealthy)
}

// name returns how a CR is called, with its place among the steps if there are
// several.
func (p *Policy) name(cr *object.CR) string {
	name := fmt.Sprintf("%s %s", cr.Kind, cr.Name)
	for i, step := range p.Steps {
		if len(p.Steps) > 1 && step.Owns(cr) {
			return fmt.Sprintf("%s (step %d of %d)", name, i+1, len(p.Steps))
		}
	}
	return name
}

func (p *Policy) atWork(cr *object.CR) string { return p.name(cr) + " is running" }

// createdStepEnd returns when the step of a new CR ends, as the next plan will compute
// it.
func (p *Policy) createdStepEnd(plan *NodePlan, cr *object.CR) time.Time {
	for _, step := range p.Steps {
		if step.Escalating() && step.Owns(cr) {
			return plan.Node.begun(cr, step).Add(step.Timeout)
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

// explainBlocker names a CR of another owner.
func explainBlocker(cr *object.CR) string {
	if cr == nil {
		return "A remediation object that the NodeHealthCheck does not own is in the way"
	}
	owners := strings.Join(cr.Owners(), ", ")
	if owners == "" {
		owners = "no NodeHealthCheck"
	}
	return fmt.Sprintf("%s %s, which belongs to %s, is in the way", cr.Kind, cr.Name, owners)
}

// explainDryRun says what a dry run leaves out.
func (p *NodePlan) explainDryRun() string {
	if cr := p.WouldCreate; cr != nil {
		return "Would create " + cr.GetKind() + " " + strings.TrimPrefix(cr.GetNamespace()+"/"+cr.GetName(), "/")
	}
	return "Would end the last step"
}

// awaitedDeletions names the CRs that are being deleted, and their finalizers. While the
// node is unhealthy, the CRs of earlier steps stay.
func awaitedDeletions(node *Node) string {
	all := node.Constraints.NodeDeleted || node.Verdict.State == health.Healthy
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

// localPort is the client's port in errors of connections. It changes with every attempt.
var localPort = regexp.MustCompile(`:[0-9]+->`)

// FailureMessage returns the text of an error. Equal failures have equal texts, so that
// repeated attempts do not change the decision.
func FailureMessage(err string) string { return localPort.ReplaceAllString(err, "->") }

// maxMessage is how many bytes of a message are kept: there may be thousands of them
// in one object.
const maxMessage = 512

// shorten cuts a message.
func shorten(message string) string { return object.Truncate(message, maxMessage) }
