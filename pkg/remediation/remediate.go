// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// remediate plans what an unhealthy node needs next: its first CR, the end of a step
// and the CR of the next one, or time (spec 13).
//
//	          created + timeout, or Succeeded=False        none left
//	step 1 ─────────────────────────────────────► step 2 ─────────────► exhausted
//	   ▲ its CR vanished: a new one, later each time (its CR stays)       (the CRs stay)
func (p *planner) remediate() {
	for _, cr := range p.progress.deleting {
		if cr.MayTimeOut() && !p.Node.Constraints.Conflict {
			// Another client deletes it although the node is unhealthy. The mark lets the
			// remediator give up its finalizer (spec 13.8).
			p.Do(MarkTimedOut{CR: cr, At: p.now})
		}
	}
	p.passVanished()
	switch {
	case len(p.Steps) == 0:
		p.refuse(p.Node.Constraints.Refusal(true)) // A stored spec without any template.
	case len(p.Node.Unreadable) > 0:
		// A remediation object that cannot be read may still be at work.
		p.SetReason(v1alpha1.DecidedUnreadable, time.Time{})
	case p.progress.unknown:
		// So may a CR that belongs to no step.
		p.SetReason(v1alpha1.DecidedStepRunning, time.Time{})
	case p.progress.remaining == 0 && len(p.progress.deleting) > 0:
		// A new remediation waits until all old CRs are gone (P9).
		p.SetReason(v1alpha1.DecidedAwaitingDeletion, time.Time{})
	case p.progress.current == len(p.Steps):
		p.exhaust(p.progress.last)
		p.finish()
	case p.progress.running != nil:
		p.wait()
	case p.progress.deletes(p.progress.current):
		// The CR of this step has to be gone first.
		p.SetReason(v1alpha1.DecidedAwaitingDeletion, time.Time{})
	default:
		p.begin(p.progress.current)
	}
}

// exhaust notes that no step is left after the last one, which has this CR, if any.
func (p *planner) exhaust(last *object.CR) {
	p.Exhausted = true
	p.SetReason(v1alpha1.DecidedNoTemplateLeft, time.Time{})
	if p.failed(last, p.Steps[len(p.Steps)-1]) {
		p.setFailed(last, time.Time{})
	}
}

// setFailed records that the last step has failed, according to its CR.
func (p *planner) setFailed(cr *object.CR, until time.Time) {
	p.Failed = cr
	p.SetReason(v1alpha1.DecidedStepFailed, until)
}

// failed reports whether the remediator of a step has failed before it was told to stop
// (spec 13.7). Many report a failure when they are told to stop.
func (p *planner) failed(cr *object.CR, step Step) bool {
	if cr == nil || cr.Succeeded != corev1.ConditionFalse {
		return false
	}
	due := p.Node.begun(cr, step).Add(step.Timeout).Truncate(time.Second)
	if !step.Escalating() {
		due = p.stepEnd(cr, step)
	}
	ended, over := cr.TimedOutAt()
	if recorded := p.Node.recordedTimeout(cr); recorded != nil {
		ended, over = *recorded, true
	}
	if !over {
		if !cr.TimedOut() && (due.IsZero() || p.now.Before(due)) {
			return true
		}
		ended = p.now.Truncate(time.Second) // It ends by this plan, if at all.
	}
	// An escalating step only ends before its time if it has failed.
	return (step.Escalating() && ended.Before(due)) || (!cr.FailedSince.IsZero() && cr.FailedSince.Before(ended))
}

// wait ends the running step if it is time, and begins the next one.
func (p *planner) wait() {
	cr, step := p.progress.running, p.Steps[p.progress.current]
	due := p.stepEnd(cr, step)
	switch {
	case cr.Succeeded == corev1.ConditionTrue:
		p.SetReason(v1alpha1.DecidedStepSucceeded, due)
	case !step.Escalating() && p.failed(cr, step):
		p.setFailed(cr, due) // Nothing follows, so it is reported (spec 13.7).
	default:
		p.SetReason(v1alpha1.DecidedStepRunning, due)
	}
	if due.IsZero() {
		return
	}
	if p.now.Before(due) {
		p.RecheckAt(due)
		return
	}
	if !p.Node.Constraints.Permissions().EndStep {
		p.hold()
		return
	}
	next := p.progress.current + 1
	if next < len(p.Steps) && p.progress.deletes(next) {
		// The next step had a CR already. That has to be gone first.
		p.SetReason(v1alpha1.DecidedAwaitingDeletion, time.Time{})
		return
	}
	if next == len(p.Steps) {
		p.endLast(cr, step)
		return
	}
	p.begin(next, MarkTimedOut{CR: cr, At: p.now, EndsStep: true})
}

// endLast ends the last step. A classic one releases its lease (spec 14.7).
func (p *planner) endLast(cr *object.CR, step Step) {
	if p.DryRun {
		p.SetReason(v1alpha1.DecidedDryRun, time.Time{})
		return
	}
	if renewed := p.renewal(); renewed != nil && !p.Node.RetryAt.IsZero() {
		// An attempt has failed, and more may fail. The remediator works until one succeeds.
		p.Do(WriteLease{Lease: renewed})
	}
	p.Do(Confirm{}, MarkTimedOut{CR: cr, At: p.now, EndsStep: true})
	if !step.Escalating() {
		p.Do(ReleaseLease{Lease: p.Node.Lease})
	}
	p.exhaust(cr)
}

// stepEnd returns when the step of a CR ends if its node does not recover: now, if it
// has failed, and zero if it may take any time.
func (p *planner) stepEnd(cr *object.CR, step Step) time.Time {
	switch {
	case !step.Escalating():
		end, limited := overdue(p.Node.Lease)
		if !limited || !p.Node.holds(p.Owner) {
			return time.Time{}
		}
		return end
	case cr.Succeeded == corev1.ConditionFalse:
		return p.now
	default:
		return p.Node.begun(cr, step).Add(step.Timeout)
	}
}

// refusalRecheck is the time after which a refusal for a lease, a limit or an upgrade of the cluster
// is checked again, at the latest (spec 21.3). After a failed write, Node.RetryAt counts instead.
const refusalRecheck = time.Minute

// hold notes why a step that is over may not be ended yet.
func (p *planner) hold() {
	p.SetReason(p.Node.Constraints.Refusal(false), time.Time{})
	p.recheckUpgrade()
}

// recheckUpgrade plans the next look at an upgrade, and at the end of what an update may take.
func (p *planner) recheckUpgrade() {
	if p.Reason != v1alpha1.DecidedClusterUpgrading {
		return
	}
	p.RecheckAt(p.now.Add(refusalRecheck))
	if !p.Node.Constraints.Upgrading {
		p.Until = p.Node.Constraints.UpdateEnds
		p.RecheckAt(p.Until)
	}
}

// finish releases the overdue lease of an ended step, if an earlier attempt has failed
// (spec 14.7).
func (p *planner) finish() {
	end, limited := overdue(p.Node.Lease)
	if !limited || p.Steps[0].Escalating() || !p.Node.holds(p.Owner) {
		return
	}
	if p.now.Before(end) {
		p.RecheckAt(end)
		return
	}
	if p.DryRun || !p.Node.Constraints.Permissions().EndStep {
		return
	}
	p.Do(ReleaseLease{Lease: p.Node.Lease})
}

// begin plans the CR of a step, unless a check refuses it. The end of the earlier step
// comes after all checks, and right before the CR (spec 13.3).
func (p *planner) begin(step int, end ...Action) {
	first := len(p.Node.Own) == 0
	permitted := p.Node.Constraints.Permissions()
	if (first && !permitted.CreateFirst) || (!first && !permitted.CreateNext) {
		p.refuse(p.Node.Constraints.Refusal(first))
		p.recheckUpgrade()
		return
	}
	if p.Templates[step] == nil {
		p.refuse(v1alpha1.DecidedDisabled)
		return
	}
	if p.pausesAfter(p.Steps[step]) {
		return
	}
	p.Candidate, p.Continues = first, !first
	if p.Withheld != nil {
		p.refuseAndRecheck(p.Withheld.Reason)
		if p.Until = p.Withheld.Until; !p.Until.IsZero() {
			p.RecheckAt(p.Until)
		}
		return
	}
	desired := object.Render(p.Owner, p.Node.target(p.Templates[step]), p.Templates[step])
	if p.Blocker = blocker(p.Node, p.Steps[step], desired); p.Blocker != nil {
		p.refuse(v1alpha1.DecidedForeignRemediation)
		return
	}
	if p.Node.Machines.mayOwn(p.Templates[step]) && p.now.Before(p.Node.Machines.Deadline) {
		p.refuse(v1alpha1.DecidedMachineUnreadable)
		p.Until = p.Node.Machines.Deadline
		p.RecheckAt(p.Until)
		return
	}
	lease, free := p.acquire(p.Steps[step], first)
	if !free {
		p.refuseAndRecheck(v1alpha1.DecidedLeaseTaken)
		if end, complete := LeaseEnd(p.Node.Lease); complete {
			p.RecheckAt(end.Add(1))
		}
		return
	}
	if p.DryRun { // Last: the decision shows what else refuses the CR (spec 5.6).
		p.WouldCreate = desired
		p.refuse(v1alpha1.DecidedDryRun)
		return
	}
	if lease != nil {
		p.Do(WriteLease{Lease: lease})
		p.recheckLease(lease)
	}
	p.Do(Confirm{})
	p.Do(end...)
	p.Do(Create{Object: desired})
	p.SetReason(v1alpha1.DecidedStepRunning, time.Time{})
	p.RecheckAt(p.now.Add(p.Steps[step].Duration()))
}

// refuse records why the due CR is not created.
func (p *planner) refuse(reason v1alpha1.DecisionReason) {
	p.Refused = true
	p.SetReason(reason, time.Time{})
	if reason == v1alpha1.DecidedStormActive {
		p.Until = p.Context.StormEnd
	}
}

// refuseAndRecheck does the same for a refusal that may end without an event.
func (p *planner) refuseAndRecheck(reason v1alpha1.DecisionReason) {
	p.refuse(reason)
	p.RecheckAt(p.now.Add(refusalRecheck))
}

// blocker returns the foreign CR for the same node and template, or with the needed name
// (spec 11.4).
func blocker(node *Node, step Step, desired *unstructured.Unstructured) *object.CR {
	for _, cr := range node.Foreign {
		if cr.GroupVersionKind().GroupKind() != desired.GroupVersionKind().GroupKind() || cr.Namespace != desired.GetNamespace() {
			continue
		}
		if cr.Name == desired.GetName() || (cr.Node() == node.Name && step.Owns(cr)) {
			return cr
		}
	}
	return nil
}
