// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Policy is what a MachineHealthCheck wants for its targets, and the state that holds for all of
// them.
type Policy struct {
	Owner    object.Owner
	Criteria *Criteria
	Summary  Summary
	BackOff  BackOff
	// Rounds are shared by all MachineHealthChecks of the process.
	Rounds *RoundsByOwner
	// Template is that of the strategy, nil if it cannot be used. TemplateProblem says why.
	Template        *object.Template
	TemplateProblem string
	// Unavailable is condition RemediationAllowed while the API server serves no Machines: then there is no target.
	Unavailable *v1beta1.Condition
	// Terminating: the MachineHealthCheck is being deleted.
	Terminating bool
	// ClockUntrusted: the clock is too far ahead of that of the API server.
	ClockUntrusted bool
	// Upgrading: a ClusterVersion says that the cluster is being upgraded (spec M9.1).
	Upgrading bool
	// With DryRun, everything is planned except the beginning of remediations (flag --dry-run).
	DryRun bool
	// leaseKeepers has for each Node the target whose plan renews or releases its lease. If several
	// Machines name the Node, it is one with a remediation under way.
	leaseKeepers map[string]*Target
}

// Plan is the plan for one target. Its Node is the Node of the Machine, or stands for the Machine.
type Plan struct {
	remediation.NodePlan
	Target *Target
	// Type is the type of the remediation that the plan begins, or would begin without its
	// refusal.
	Type v1beta1.RemediationType
}

// leaseDuration is the duration of the lease of a node for a remediation of its Machine (spec M10.3).
// refusalRecheck is the time after which a refusal that may end without an event is checked again.
const (
	leaseDuration  = v1alpha1.ClassicDuration
	refusalRecheck = time.Minute
)

// NewPlans decides about every target at the instant now. A plan whose actions have been carried
// out is followed by an empty one.
func NewPlans(policy *Policy, targets []Target, now time.Time) []Plan {
	policy.leaseKeepers = map[string]*Target{}
	for i := range targets {
		t := &targets[i]
		keeper := policy.leaseKeepers[t.Machine.Node]
		if t.Active() && (keeper == nil || policy.keepsLease(t) && !policy.keepsLease(keeper)) {
			policy.leaseKeepers[t.Machine.Node] = t
		}
	}
	plans := make([]Plan, 0, len(targets))
	for i := range targets {
		plans = append(plans, policy.plan(&targets[i], nil, now))
	}
	return plans
}

// Withhold decides again about a candidate that a limit over several Machines refuses.
func (p *Policy) Withhold(plan *Plan, withheld *remediation.Withholding, now time.Time) {
	*plan = p.plan(plan.Target, withheld, now)
}

// planner is a plan in the making.
type planner struct {
	Plan
	*Policy
	now time.Time
}

func (p *Policy) plan(target *Target, withheld *remediation.Withholding, now time.Time) Plan {
	node := &remediation.Node{
		Name: target.Machine.SlotName(), ControlPlane: target.ControlPlane, Own: target.Own, Lease: target.Lease,
		Verdict:     health.Verdict{Type: target.Verdict.Type, Status: target.Verdict.Status, Deadline: target.Verdict.Deadline, Doubt: target.Verdict.Doubt},
		LastFailure: target.LastFailure,
	}
	if target.Verdict.State == Unhealthy {
		node.Verdict.Deadline = target.UnhealthySince
	}
	if target.Node != nil {
		node.ResourceVersion = target.Node.ResourceVersion
	}
	plan := planner{Plan: Plan{NodePlan: remediation.NodePlan{Node: node, Withheld: withheld}, Target: target}, Policy: p, now: now}
	plan.decide()
	plan.endStrategy()
	plan.postpone()
	plan.keepLease()
	return plan.Plan
}

func (p *planner) decide() {
	t := p.Target
	switch {
	case t.Gone, p.Terminating && len(t.Own) > 0:
		p.cleanUp()
	case t.deleting():
		p.goOn(v1beta1.DecidedMachineDeleting)
	case t.Verdict.State == Unhealthy:
		p.remediate()
	case t.Verdict.State == SoonUnhealthy:
		p.SetReason(v1alpha1.DecidedSoonUnhealthy, t.Verdict.Deadline)
	case t.Verdict.State == NotStarted:
		p.SetReason(v1beta1.DecidedNotStarted, t.Verdict.Deadline)
	case len(t.Own) > 0:
		p.cleanUp() // It has recovered.
	case t.externallyRemediated():
		// The key is never removed here: in the middle of a remediation, that would leave a host
		// switched off.
		p.goOn(v1beta1.DecidedExternalRemediation)
	}
}

// goOn records that a remediation goes on for this reason, and when it is overdue. An overdue remediation does not
// end, because nothing is known of the host (spec M12.6).
func (p *planner) goOn(reason v1alpha1.DecisionReason) {
	p.SetReason(reason, time.Time{})
	if p.Target.Begun.IsZero() {
		return
	}
	if due := p.Target.Begun.Add(maxRemediation); p.now.Before(due) {
		p.SetReason(reason, due)
		p.RecheckAt(due)
		return
	}
	p.SetReason(v1beta1.DecidedRemediationOverdue, time.Time{})
}

// cleanUp deletes the own remediation objects of a target that has recovered or is gone, or all of
// them if the MachineHealthCheck is being deleted (spec M12.5, M3.5).
func (p *planner) cleanUp() {
	switch own := p.Target.Own; {
	case len(own) == 0:
		return
	case own[0].Deleting():
		p.goOn(v1alpha1.DecidedAwaitingDeletion)
	default:
		p.SetReason(v1alpha1.DecidedAwaitingDeletion, time.Time{})
	}
	left := slices.DeleteFunc(slices.Clone(p.Target.Own), func(cr *object.CR) bool { return cr.Deleting() || p.Target.DeletionRequested[cr.UID] })
	if len(left) > 0 && !p.Terminating {
		p.Do(remediation.Confirm{})
	}
	for _, cr := range left {
		p.Do(remediation.Delete{CR: cr})
	}
}

// remediate plans the remediation of an unhealthy target, unless it is under way.
func (p *planner) remediate() {
	t := p.Target
	switch {
	case len(t.Own) > 0 && (t.Own[0].Deleting() || t.DeletionRequested[t.Own[0].UID]):
		p.goOn(v1alpha1.DecidedAwaitingDeletion)
	case len(t.Own) > 0:
		p.goOn(v1alpha1.DecidedStepRunning)
	case t.externallyRemediated() && !t.Machine.Failed():
		p.goOn(v1beta1.DecidedExternalRemediation)
	case t.Unselected:
		p.SetReason(v1alpha1.DecidedUnselected, time.Time{})
	default:
		p.begin()
	}
}

// begin plans the remediation that is due, in the order of spec M8.2.
func (p *planner) begin() {
	p.Type = v1beta1.RemediationExternal
	deletion := p.Criteria.deletes(p.Target.Machine)
	if deletion {
		p.Type = v1beta1.RemediationMachineDeletion
	}
	if reason := p.refusal(); reason != "" {
		p.refuse(reason)
		if reason == v1alpha1.DecidedClusterUpgrading {
			p.RecheckAt(p.now.Add(refusalRecheck))
			if end := p.Target.Obstacles.UpdateEnds; !p.Upgrading {
				p.Until = end
				p.RecheckAt(end)
			}
		}
		if end := p.patientUntil(); reason == v1alpha1.DecidedGateClosed && !end.IsZero() {
			p.Until = end
			p.RecheckAt(end)
		}
		if reason == v1alpha1.DecidedVanished {
			p.Until = p.Target.repeatable()
			p.RecheckAt(p.Until)
		}
		return
	}
	p.Candidate = true
	if p.Withheld != nil {
		p.refuse(p.Withheld.Reason)
		p.RecheckAt(p.now.Add(refusalRecheck))
		if p.Until = p.Withheld.Until; !p.Until.IsZero() {
			p.RecheckAt(p.Until)
		}
		return
	}
	if deletion && p.backsOff() {
		return
	}
	if p.Target.Incomplete || (p.Criteria.Strategy == Template && p.Target.Foreign != nil) { // A former template may have left one.
		p.refuse(v1alpha1.DecidedForeignRemediation)
		return
	}
	lease, free := p.acquire()
	if !free {
		p.refuse(v1alpha1.DecidedLeaseTaken)
		p.RecheckAt(p.now.Add(refusalRecheck))
		if end, complete := remediation.LeaseEnd(p.Target.Lease); complete {
			p.RecheckAt(end.Add(1))
		}
		return
	}
	if p.DryRun { // Last: the decision shows what else refuses it.
		p.refuse(v1alpha1.DecidedDryRun)
		return
	}
	if lease != nil {
		p.Do(remediation.WriteLease{Lease: lease})
	}
	p.start(deletion)
}

// start plans the requests that begin the remediation.
func (p *planner) start(deletion bool) {
	machine := p.Target.Machine
	switch {
	case deletion:
		p.SetReason(v1beta1.DecidedMachineDeleting, time.Time{})
		p.Do(remediation.Confirm{}, remediation.DeleteMachine{Machine: machine.Reference()})
	case p.Criteria.Strategy == Annotate:
		p.SetReason(v1beta1.DecidedExternalRemediation, time.Time{})
		p.Do(remediation.Confirm{}, remediation.RequestExternal{Machine: machine.Reference()})
	default:
		p.SetReason(v1alpha1.DecidedStepRunning, time.Time{})
		p.Do(remediation.Confirm{}, remediation.Create{Object: object.RenderForMachine(p.Owner, p.Target.objectTarget(), p.Template)})
	}
}

// refusal returns the reason of the first check that the target does not pass, as far as values
// decide.
func (p *planner) refusal() v1alpha1.DecisionReason {
	t := p.Target
	for _, check := range []struct {
		refused bool
		reason  v1alpha1.DecisionReason
	}{
		{p.Criteria.Problem != "", v1alpha1.DecidedInvalidSpec},
		{p.Terminating, v1alpha1.DecidedTerminating},
		{p.ClockUntrusted, v1alpha1.DecidedClockUntrusted},
		{(p.Upgrading || !t.Obstacles.UpdateEnds.IsZero()) && !p.Criteria.OnlyTermination(), v1alpha1.DecidedClusterUpgrading},
		{p.Criteria.Paused, v1alpha1.DecidedPaused},
		{!p.Summary.Allowed() || !p.patientUntil().IsZero(), v1alpha1.DecidedGateClosed},
		{t.Obstacles.MachinePaused, v1beta1.DecidedMachinePaused},
		{t.Obstacles.ClusterPaused, v1beta1.DecidedClusterPaused},
		{t.Obstacles.Excluded, v1alpha1.DecidedExcluded},
		{t.Obstacles.AmbiguousNode != "", v1beta1.DecidedAmbiguousNode},
		{t.Obstacles.OtherCheck != "", v1beta1.DecidedOtherHealthCheck},
	} {
		if check.refused {
			return check.reason
		}
	}
	if reason := p.Criteria.unable(t.Machine, t.ControlPlane, p.Template != nil); reason != "" {
		return reason
	}
	if p.Type == v1beta1.RemediationExternal && p.now.Before(t.repeatable()) {
		return v1alpha1.DecidedVanished
	}
	return ""
}

// backsOff refuses a Machine whose delay is not over (spec M14).
func (p *planner) backsOff() bool {
	if !BackOffConcerns(p.Target.Verdict.Trigger) {
		return false
	}
	due := p.BackOff.Due(p.Target.Rounds, p.Target.Machine.CreationTimestamp.Time)
	if !p.now.Before(due) {
		return false
	}
	p.refuse(v1beta1.DecidedBackOff)
	p.Until = due
	p.RecheckAt(due)
	return true
}

// acquire returns the lease of the Node to write before the remediation begins, and false if it is
// taken. A Machine without a Node needs no lease.
func (p *planner) acquire() (lease *coordinationv1.Lease, free bool) {
	if p.Target.NodeUID == "" {
		return nil, true
	}
	node := remediation.LeasedNode{Name: p.Target.Machine.Node, UID: p.Target.NodeUID}
	return remediation.AcquireLease(p.Owner, node, p.Target.Lease, leaseDuration, true, p.now)
}

// refuse records why the due remediation does not begin.
func (p *planner) refuse(reason v1alpha1.DecisionReason) {
	p.Refused = true
	p.SetReason(reason, time.Time{})
}

// endStrategy removes the second key once the consumer has removed the first (spec M11.2).
func (p *planner) endStrategy() {
	t := p.Target
	needless := t.Gone || t.Unselected || t.deleting() || (p.begins() && p.Criteria.Strategy != Template)
	if !needless && t.Machine.Has(v1beta1.AnnotationRemediationStrategy) && !t.externallyRemediated() {
		p.Do(remediation.EndExternal{Machine: t.Machine.Reference()})
	}
}

// begins reports whether a remediation begins by the plan.
func (p *Plan) begins() bool { return p.Candidate && !p.Refused }

// postpone delays everything that follows a failed attempt.
func (p *planner) postpone() {
	if len(p.Actions) == 0 || !p.now.Before(p.Target.RetryAt) {
		return
	}
	if p.begins() {
		p.Refused = true
		p.SetReason(cmp.Or(p.Target.LastFailed, v1alpha1.DecidedUpdateFailed), time.Time{})
	} else if p.Target.LastFailed != "" { // Otherwise the target does not wait for a failed write.
		p.SetReason(p.Target.LastFailed, time.Time{})
	}
	p.Actions = nil
}

// keepsLease reports whether the lease of the Node is kept for a target: a remediation is under way, also
// while the MachineHealthCheck is being deleted (spec M3.5, M10.3).
func (p *Policy) keepsLease(t *Target) bool {
	return t.Active() && (!p.Terminating || t.deleting() || t.externallyRemediated())
}

// keepLease keeps the lease of the Node while the target is under remediation, and releases it
// afterwards (spec M10.3). The controller releases leases of Nodes that no target names.
func (p *planner) keepLease() {
	lease := p.Target.Lease
	if lease == nil || remediation.LeaseHolder(lease) != p.Owner.LeaseHolder() || (p.begins() && p.Target.NodeUID != "") {
		return
	}
	unsure := p.Target.Incomplete && !p.Target.Active() // There may be a remediation object (spec P5).
	keeper := p.leaseKeepers[p.Target.Machine.Node]
	if keeper != nil && keeper != p.Target {
		return // Another Machine that names the same Node keeps it.
	}
	if !unsure && (keeper == nil || !p.keepsLease(keeper)) {
		if !p.now.Before(p.Target.RetryAt) {
			p.Do(remediation.ReleaseLease{Lease: lease})
		}
		return
	}
	if renewed := remediation.RenewLease(lease, leaseDuration, p.now); renewed != nil {
		p.Do(remediation.WriteLease{Lease: renewed})
		lease = renewed
	}
	due := remediation.RenewalDue(lease)
	if !p.now.Before(due) {
		due = p.now.Add(time.Second)
	}
	p.RecheckAt(due)
}

// objectTarget returns the target of a remediation object.
func (t *Target) objectTarget() object.MachineTarget {
	return object.MachineTarget{
		APIVersion: t.Machine.APIVersion, Kind: t.Machine.Kind, Name: t.Machine.Name, UID: t.Machine.UID,
		Node: t.Machine.Node, ControlPlane: t.ControlPlane, Cluster: t.Machine.Cluster,
	}
}

// Reference returns the identity of the Machine in requests.
func (m *Machine) Reference() remediation.MachineReference {
	return remediation.MachineReference{Kind: m.GroupVersionKind(), Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}
