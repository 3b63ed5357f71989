// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Node is everything that a decision about one node depends on.
type Node struct {
	// Name is that of the Node, or stands for a Machine without one.
	Name string
	// UID is that of the Node object, empty if it does not exist, and Created its
	// creationTimestamp, zero if that is not known.
	UID     types.UID
	Created time.Time
	// ResourceVersion is that of the Node object when it was judged, empty if that is not known.
	ResourceVersion string
	// Verdict is the verdict on the node's conditions, also if it is not selected.
	Verdict health.Verdict
	// Constraints are those of the owner and of the node.
	Constraints Constraints
	// ControlPlane reports whether the node carries a control plane label (spec 12.1).
	ControlPlane bool
	// ExclusionIgnored means that the Node carries the exclusion label with an empty value,
	// which has no effect (spec 15.2).
	ExclusionIgnored bool
	// ConfirmedHealthy reports whether a user has confirmed by hand that the node
	// is healthy (spec 16.6).
	ConfirmedHealthy bool
	// OthersRemediate reports whether another owner has a CR for the node.
	OthersRemediate bool
	// Incomplete means that CRs of some kind cannot be read. There may be more than the known
	// ones.
	Incomplete bool
	// ReleasingLease means that an earlier attempt to release the lease has failed.
	ReleasingLease bool
	// Own are the CRs that the NodeHealthCheck owns for the node, in the order of Sort.
	Own []*object.CR
	// DeletionRequested holds the uids of own CRs whose deletion was requested. The caches
	// may not show it yet.
	DeletionRequested map[types.UID]bool
	// Recorded are the CRs that status shows.
	Recorded []v1alpha1.Remediation
	// Vanished are the steps of the episode whose CRs other clients have deleted.
	Vanished []v1alpha1.EpisodeStep
	// HealthySince is since when the node is healthy by status, zero if status does not say.
	HealthySince time.Time
	// Unreadable are the CRs that status names and that cannot be read: they count
	// as existing (spec 6.8).
	Unreadable []v1alpha1.Remediation
	// Foreign are CRs of others, for the node or with its name.
	Foreign []*object.CR
	// Machines are the Machines of the node, nil if there are none.
	Machines *Machines
	// Lease is the lease of the node, nil if there is none.
	Lease *coordinationv1.Lease
	// RetryAt is when the next attempt is due after a failed one; zero after none.
	RetryAt time.Time
	// LastFailure says what failed then. LastFailed is the reason for the decision, empty if
	// the node did not wait for the failed write.
	LastFailure string
	LastFailed  v1alpha1.DecisionReason
}

// LeaseVersion returns the resourceVersion of the lease, empty if there is none.
func (n *Node) LeaseVersion() string {
	if n.Lease == nil {
		return ""
	}
	return n.Lease.ResourceVersion
}

// NodePlan has the actions for one node, and the reason why there are no more.
type NodePlan struct {
	Node *Node
	// Actions are carried out in this order.
	Actions []Action
	// Refused means that the unhealthy node does not get its due CR. Reason says why.
	Refused bool
	// Candidate means that the first CR of the node is due and that no constraint forbids it.
	// Limits over several nodes may still refuse it.
	Candidate bool
	// Continues means the same for the CR of a later step. Only a budget that permits nothing may still refuse it.
	Continues bool
	// Withheld is why a limit refuses the CR, nil if none does.
	Withheld *Withholding
	// WouldCreate is the CR that only a dry run keeps from being created, nil if none.
	WouldCreate *unstructured.Unstructured
	// Blocker is the foreign CR that blocks the CR, if that is the reason of the refusal, or would be
	// without a limit that refuses it.
	Blocker *object.CR
	// Exhausted means that the node is still unhealthy, and that its last step is over or
	// ends by this plan. See ExhaustedBy.
	Exhausted bool
	// Failed is the CR of the last step, if its remediator reports a failure.
	Failed *object.CR
	// Delayed means that healthyDelay keeps the CRs of a healthy node.
	Delayed bool
	// Reason is the main reason of the plan. It is empty for a node without a decision.
	Reason v1alpha1.DecisionReason
	// Until is when time alone changes that, zero if it does not. note explains the reason, if it is not empty.
	Until time.Time
	note  string
	// Running is the CR of the current step, nil if it has none.
	Running *object.CR
	// Recheck is the next instant at which time alone changes the plan, zero if
	// there is none.
	Recheck time.Time
}

// NewPlans decides about every node at the instant now. A plan whose actions have been
// carried out is followed by an empty one.
func NewPlans(policy *Policy, nodes []Node, now time.Time) []NodePlan {
	plans := make([]NodePlan, 0, len(nodes))
	for i := range nodes {
		plans = append(plans, policy.plan(&nodes[i], nil, now))
	}
	return plans
}

// Pointers returns pointers to plans.
func Pointers(plans []NodePlan) []*NodePlan {
	pointers := make([]*NodePlan, len(plans))
	for i := range plans {
		pointers[i] = &plans[i]
	}
	return pointers
}

// Withholding says why a limit over several nodes refuses the CR of a node.
type Withholding struct {
	Reason v1alpha1.DecisionReason
	// Message has the numbers. It is empty if the reason is enough.
	Message string
	// Until is when time alone may change it, zero if it does not.
	Until time.Time
}

// Withhold decides again about a node whose CR a limit refuses. It drops the lease and
// the CR of the earlier plan.
func (p *Policy) Withhold(plan *NodePlan, withheld *Withholding, now time.Time) {
	blocker := plan.Blocker
	*plan = p.plan(plan.Node, withheld, now)
	plan.Blocker = blocker // Its end is to be seen: until then no budget keeps the node waiting (spec B5.2).
}

// plan decides about one node, whose CR may be withheld.
func (p *Policy) plan(node *Node, withheld *Withholding, now time.Time) NodePlan {
	plan := planner{NodePlan: NodePlan{Node: node, Withheld: withheld}, Policy: p, now: now, progress: trace(node, p.Steps)}
	plan.Running = plan.progress.running
	switch {
	case node.Constraints.NodeDeleted:
		plan.cleanUp()
	case node.Verdict.State == health.Healthy:
		plan.recover()
	case node.Verdict.State == health.SoonUnhealthy && node.Verdict.Type == "":
		// No condition decides, because the spec has none (spec 4.2).
		plan.SetReason(v1alpha1.DecidedInvalidSpec, time.Time{})
	case node.Verdict.State == health.SoonUnhealthy:
		// It may soon be healthy or unhealthy. Until then nothing begins and nothing ends (spec
		// 7.5).
		plan.SetReason(v1alpha1.DecidedSoonUnhealthy, node.Verdict.Deadline)
	default:
		plan.remediate()
	}
	plan.remind()
	plan.postpone()
	plan.keepLease()
	return plan.NodePlan
}

// Refusal returns why the CR that is due is not created. It is empty if no CR is due, or if
// the node gets it.
func (p NodePlan) Refusal() v1alpha1.DecisionReason {
	if p.Refused {
		return p.Reason
	}
	return ""
}

// ExhaustedBy reports whether the last step is over after this outcome. The end of the step
// may have failed, or a live read may not have confirmed it.
func (p *NodePlan) ExhaustedBy(outcome *Outcome) bool {
	for _, action := range p.Actions {
		if mark, ok := action.(MarkTimedOut); ok && mark.EndsStep {
			_, ended := outcome.TimedOut[mark.CR.UID]
			return p.Exhausted && ended
		}
	}
	return p.Exhausted
}

// planner is a plan in the making.
type planner struct {
	NodePlan
	*Policy
	progress progress
	now      time.Time
	// postponed means that there is something to do that is not due yet.
	postponed bool
}

// Do adds actions.
func (p *NodePlan) Do(actions ...Action) { p.Actions = append(p.Actions, actions...) }

// SetReason records the reason of the plan, and when time alone changes it.
func (p *NodePlan) SetReason(reason v1alpha1.DecisionReason, until time.Time) {
	p.Reason, p.Until = reason, until
}

// RecheckAt records an instant at which time alone changes the plan.
func (p *NodePlan) RecheckAt(t time.Time) { p.Recheck = health.Earliest(p.Recheck, t) }

// target returns the target of a CR from a template.
func (n *Node) target(template *object.Template) object.Target {
	return object.Target{Node: n.Name, ControlPlane: n.ControlPlane, Machine: n.Machines.owner(template)}
}

// deleting reports whether the deletion of cr was requested.
func (n *Node) deleting(cr *object.CR) bool { return cr.Deleting() || n.DeletionRequested[cr.UID] }

// recover plans the deletion of all CRs of a healthy node, after the delay (spec 16).
func (p *planner) recover() {
	if !p.Node.Constraints.Permissions().DeleteRecovered {
		p.SetReason(v1alpha1.DecidedDisabled, time.Time{})
		return
	}
	if p.progress.remaining > 0 {
		if due, delayed := p.healthyDelay(); delayed {
			p.Delayed = true
			p.SetReason(v1alpha1.DecidedHealthyDelay, due)
			p.RecheckAt(due)
			return
		}
	}
	switch {
	case len(p.Node.Own) > 0:
		p.SetReason(v1alpha1.DecidedAwaitingDeletion, time.Time{})
	case len(p.Node.Unreadable) > 0:
		p.SetReason(v1alpha1.DecidedUnreadable, time.Time{})
	}
	p.end(p.Node.Own)
	if !p.DryRun && p.Node.ConfirmedHealthy && len(p.Node.Own) == 0 && len(p.Node.Unreadable) == 0 && !p.Node.Incomplete && !p.Node.OthersRemediate {
		p.Do(RemoveConfirmation{Node: p.Node.Name, UID: p.Node.UID})
	}
}

// healthyDelay reports whether the node has to stay healthy for longer, and until when (spec
// 16.4). The time is zero if a user has to confirm the node. The current value of the field
// counts.
func (p *planner) healthyDelay() (due time.Time, delayed bool) {
	switch {
	case p.HealthyDelay == 0 || p.Node.ConfirmedHealthy:
		return time.Time{}, false
	case p.HealthyDelay < 0:
		return time.Time{}, true
	}
	since := p.Node.HealthySince
	if since.IsZero() {
		since = p.now.Truncate(time.Second)
	}
	due = since.Add(p.HealthyDelay)
	return due, p.now.Before(due)
}

// cleanUp plans the actions after the deletion of the Node (spec 17.2, 17.3).
func (p *planner) cleanUp() {
	if !p.Node.Constraints.Permissions().CleanUp {
		p.SetReason(v1alpha1.DecidedDisabled, time.Time{})
		return
	}
	if len(p.Node.Own) == 0 && len(p.Node.Unreadable) > 0 {
		p.SetReason(v1alpha1.DecidedUnreadable, time.Time{})
		return
	}
	p.SetReason(v1alpha1.DecidedAwaitingDeletion, time.Time{})
	var ended []*object.CR
	for _, cr := range p.Node.Own {
		if cr.AwaitsReplacement() && !p.Node.deleting(cr) {
			p.SetReason(v1alpha1.DecidedAwaitingReplacement, time.Time{})
			continue
		}
		ended = append(ended, cr)
	}
	p.end(ended)
}

// end deletes the CRs of a recovered or deleted node after a live read of it: a watch that has just broken may not
// have shown later changes (spec 16.7). If the node is gone, it also tells the remediators to stop.
func (p *planner) end(crs []*object.CR) {
	gone := p.Node.Constraints.NodeDeleted
	if slices.ContainsFunc(crs, func(cr *object.CR) bool { return !p.Node.deleting(cr) }) {
		p.Do(Confirm{})
	}
	for _, cr := range crs {
		if gone && cr.MayTimeOut() {
			p.Do(MarkTimedOut{CR: cr, At: p.now})
		}
		if !p.Node.deleting(cr) {
			p.Do(Delete{CR: cr})
		}
	}
}

// keepLease renews the lease while the node has an own CR, and releases it when
// there is none and none is about to be created (spec 14.5, 14.9).
func (p *planner) keepLease() {
	lease := p.Node.Lease
	if lease == nil || !p.Node.Constraints.Permissions().KeepLease || (p.backsOff() && !p.postponed) {
		return
	}
	held := p.Node.holds(p.Owner)
	if !p.remains() {
		if p.postponed {
			return // The next attempt needs it.
		}
		// A lease without a holder counts as foreign. If it was for one of our CRs, it is
		// released, unless it blocks the next one (spec 14.3).
		known := len(p.Node.Recorded) > 0 || len(p.Node.Own) > 0 || p.Node.ReleasingLease
		abandoned := LeaseHolder(lease) == "" && known && p.Refusal() != v1alpha1.DecidedLeaseTaken
		// There may be a CR that status has never named (P5).
		unsure := p.Node.Incomplete && len(p.Node.Recorded) == 0
		if (held || abandoned) && !p.Creates() && !unsure {
			p.Do(ReleaseLease{Lease: lease})
		}
		return
	}
	exhausted := p.progress.spent || (len(p.Steps) > 0 && p.progress.current == len(p.Steps))
	if !held || exhausted || p.Exhausted || p.Creates() || p.releases() {
		return
	}
	if renewed := p.renewal(); renewed != nil {
		p.Do(WriteLease{Lease: renewed})
		lease = renewed
		p.RecheckAt(p.now.Add(p.renewalDuration()))
	}
	p.recheckLease(lease)
}

// renewal returns the renewed lease, or nil if the NodeHealthCheck does not hold the lease, or
// if it lasts long enough.
func (p *planner) renewal() *coordinationv1.Lease {
	if p.Node.Lease == nil || !p.Node.holds(p.Owner) {
		return nil
	}
	return RenewLease(p.Node.Lease, p.renewalDuration(), p.now)
}

// recheckLease schedules the renewal of a held lease. If its step takes only a minute,
// that is a moment after the renewal is due.
func (p *planner) recheckLease(lease *coordinationv1.Lease) {
	due := RenewalDue(lease)
	if !p.now.Before(due) {
		due = p.now.Add(time.Second)
	}
	p.RecheckAt(due)
}

// renewalDuration returns T of the step that the node has reached. For CRs that cannot be
// read, status says which step they belong to.
func (p *planner) renewalDuration() time.Duration {
	reached := p.progress.reached
	for i := range p.Node.Unreadable {
		reached = max(reached, recordedStep(p.Steps, p.Node.Name, &p.Node.Unreadable[i]))
	}
	if reached < 0 {
		return v1alpha1.ClassicDuration
	}
	return p.Steps[reached].Duration()
}

// remains reports whether an own CR that counts will be left. A CR that is being deleted
// counts unless its Node is gone (spec 17.4).
func (p *planner) remains() bool {
	if len(p.Node.Unreadable) > 0 {
		return true
	}
	for _, cr := range p.Node.Own {
		if !p.Node.Constraints.NodeDeleted || (cr.AwaitsReplacement() && !p.Node.deleting(cr)) {
			return true
		}
	}
	return false
}

func (p *planner) releases() bool {
	for _, action := range p.Actions {
		if _, release := action.(ReleaseLease); release {
			return true
		}
	}
	return false
}

// backsOff reports whether the next attempt after a failure is not due yet.
func (p *planner) backsOff() bool { return p.now.Before(p.Node.RetryAt) }

// postpone delays everything that follows a failed attempt. It keeps the lease, because
// the remediator of the step that could not be ended is still at work.
func (p *planner) postpone() {
	if len(p.Actions) == 0 || !p.backsOff() {
		return
	}
	p.postponed = true
	p.Refused = p.Refused || p.Creates()
	if p.waits() {
		// The node may not have waited for the write when it failed, but now it does.
		p.SetReason(cmp.Or(p.Node.LastFailed, v1alpha1.DecidedUpdateFailed), time.Time{})
		p.Exhausted = false
	}
	p.Actions = nil
}
