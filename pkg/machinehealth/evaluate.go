// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Observed is what was read of one Machine that a MachineHealthCheck selects or remediates. There are thousands,
// and most are healthy.
type Observed struct {
	Machine *Machine
	// Unselected means that the selector does not match the Machine any more, or that the Machine is
	// gone, and CRs are left. Nothing begins for it.
	Unselected bool
	// Gone means that the Machine does not exist any more. Machine only has its name.
	Gone bool
	// Node is that of the Machine, nil if it is missing or unknown.
	Node      *corev1.Node
	NodeState NodeState
	// Own are the remediation objects of the MachineHealthCheck for the Machine.
	Own []*object.CR
	// Foreign is a remediation object of another owner with the needed name, nil if there is none.
	Foreign *object.CR
}

// Input is what the evaluation of a MachineHealthCheck depends on.
type Input struct {
	// Observed are the Machines, by name. Ignored is the number of selected Machines of other clusters.
	Observed []Observed
	Ignored  int
	// Incomplete means that remediation objects cannot be read, so there may be more.
	Incomplete bool
	// Seen returns what was seen of the conditions of a Node. Lease returns the lease of a
	// Node, nil if there is none.
	Seen  func(*corev1.Node) []health.Sighting
	Lease func(node string) *coordinationv1.Lease
	// Held are the names of the leases that the MachineHealthCheck holds.
	Held sets.Set[string]
	// DeletionRequested is that of [Target].
	DeletionRequested map[types.UID]bool
	// Entries and History are those of the last report.
	Entries Entries
	History []v1beta1.Remediation
}

// Evaluate judges the Machines of the input at the instant now, and sets the summary of the policy. It returns the
// targets, by name: Machines about which there is something to decide. All other selected Machines are healthy.
func (p *Policy) Evaluate(in *Input, now time.Time) []Target {
	var targets []Target
	started := in.started()
	p.Summary = Summary{Ignored: in.Ignored, MaxUnhealthy: p.Criteria.MaxUnhealthy}
	for i := range in.Observed {
		o := &in.Observed[i]
		var verdict Verdict
		if !o.Gone {
			verdict = p.Criteria.Judge(o.Machine, o.NodeState, health.EvidenceOf(o.Node, in.Seen(o.Node)), remediated(o.Machine, o.Own), now)
		}
		if !o.Unselected {
			if verdict.State == Healthy {
				p.Rounds.healthy(o.Machine, p.BackOff, now)
			}
			if p.Summary.add(&verdict, now); started[o.Machine.Name].external.IsZero() && in.quiet(o.Machine, verdict.State) {
				continue
			}
		}
		targets = append(targets, p.newTarget(in, o, verdict, started[o.Machine.Name], now))
	}
	for i := range targets {
		targets[i].Rounds = p.Rounds.of(targets[i].Machine, p.BackOff, now)
	}
	p.Summary.setLimit()
	return targets
}

// begun is what the history shows of a Machine: its last deletion, nil if there is none, and when its external
// remediation began, zero if none is open.
type begun struct {
	deletion *v1beta1.Remediation
	external time.Time
}

// started returns what has begun by the history, by Machine. An external remediation may have nothing else to show for
// it: no lease, if the Node was missing.
func (in *Input) started() map[string]begun {
	started := map[string]begun{}
	for i := range in.History {
		entry := &in.History[i]
		one := started[entry.Machine]
		switch deletion := entry.RemediationType == v1beta1.RemediationMachineDeletion; {
		case entry.Started == nil:
			continue
		case deletion && one.deletion == nil:
			one.deletion = entry
		case !deletion && !ended(entry):
			one.external = entry.Started.Time
		}
		started[entry.Machine] = one
	}
	return started
}

// quiet reports whether a selected Machine is healthy, and there is nothing to decide about it.
func (in *Input) quiet(machine *Machine, state State) bool {
	if state != Healthy || in.DeletionRequested[machine.UID] || machine.Has(v1beta1.AnnotationRemediationStrategy) {
		return false
	}
	return in.Held.Len() == 0 || !in.Held.Has(object.LeaseName(machine.Node))
}

// newTarget returns what is known of a Machine that was judged, without what other Machines and health checks add.
func (p *Policy) newTarget(in *Input, o *Observed, verdict Verdict, begun begun, now time.Time) Target {
	entry := in.Entries[o.Machine.Name]
	t := p.Criteria.target(o, verdict, unhealthySince(&verdict, entry, now), now)
	t.Incomplete, t.DeletionRequested = in.Incomplete && !o.Gone, in.DeletionRequested
	t.Requested, t.Begun = begun.external, t.begunAt(begun)
	if entry != nil {
		t.Decided = entry.Decision
	}
	if t.Machine.Node != "" {
		t.Lease = in.Lease(t.Machine.Node) // It may outlive the Node.
	}
	return t
}

// target returns what the Machine and its Node alone show of a target.
func (c *Criteria) target(o *Observed, verdict Verdict, unhealthySince, now time.Time) Target {
	t := Target{
		Observed: *o, Verdict: verdict, UnhealthySince: unhealthySince, ControlPlane: o.Machine.ControlPlane(),
		Obstacles: Obstacles{
			MachinePaused: o.Machine.Has(v1beta1.AnnotationPaused) || o.Machine.Unmanaged,
			Excluded:      o.Machine.Has(v1beta1.AnnotationSkipRemediation),
		},
	}
	if o.Node != nil {
		t.NodeUID = o.Node.UID
		t.ControlPlane = t.ControlPlane || remediation.IsControlPlane(o.Node.Labels)
		t.Obstacles.Excluded = t.Obstacles.Excluded || o.Node.Labels[v1alpha1.LabelExclude] == "true" // Spec 15.
		if !c.OnlyTermination() {
			t.Obstacles.UpdateEnds = remediation.UpdateEnds(o.Node.Annotations, unhealthySince, now)
		}
	}
	return t
}

// Live returns what a live read of a Machine and its Node shows of a planned target at the instant now. seen is what
// was seen of the conditions of the Node.
func (c *Criteria) Live(planned *Target, o *Observed, seen []health.Sighting, now time.Time) *Target {
	verdict := c.Judge(o.Machine, o.NodeState, health.EvidenceOf(o.Node, seen), false, now)
	live := c.target(o, verdict, planned.UnhealthySince, now)
	return &live
}

// unhealthySince returns when a target became unhealthy, or was first seen to be. entry is what status says, nil if
// nothing.
func unhealthySince(verdict *Verdict, entry *v1beta1.UnhealthyMachine, now time.Time) time.Time {
	switch {
	case !verdict.Deadline.IsZero():
		return verdict.Deadline
	case entry != nil && entry.Detected != nil:
		return entry.Detected.Time
	default:
		return now
	}
}

// Machines are the Machines of one API in a namespace, by name.
type Machines []*Machine

// NewMachines returns these Machines in order, as a copy. It is never nil, also without any Machine: nil stands for
// Machines that have not been read.
func NewMachines(machines []*Machine) Machines {
	sorted := append(Machines{}, machines...)
	slices.SortFunc(sorted, func(a, b *Machine) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}

// Named returns a Machine by name, nil if there is none.
func (m Machines) Named(name string) *Machine {
	i, found := slices.BinarySearchFunc(m, name, func(machine *Machine, name string) int { return strings.Compare(machine.Name, name) })
	if !found {
		return nil
	}
	return m[i]
}
