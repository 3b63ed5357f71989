// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// observeTargets adds the targets, by name, with all that is known of them.
func (c *Controller) observeTargets(ctx context.Context, s *snapshot, machines []*machinehealth.Machine, now time.Time) error {
	crs, err := c.observeCRs(s)
	if err != nil {
		return err
	}
	leases := c.observeLeases(s)
	slices.SortFunc(machines, func(a, b *machinehealth.Machine) int { return strings.Compare(a.Name, b.Name) })
	ignored := 0
	reads := liveReads{left: maxLiveReads}
	s.selected = make([]*machinehealth.Machine, 0, len(machines))
	verdicts := make([]machinehealth.Verdict, 0, len(machines))
	s.state.pruneRequests(s.machines, crs)
	s.requested = maps.Clone(s.state.deletionRequested) // Cloned: this sync adds to it.
	for _, machine := range machines {
		selected := s.policy.Criteria.Selects(machine)
		if selected && !c.ofThisCluster(machine) {
			ignored++
			continue
		}
		if !selected && len(crs[machine.Name].own) == 0 && !c.holdsFor(s.policy.Owner.LeaseHolder(), machine) {
			continue
		}
		target := machinehealth.Target{Machine: machine, Unselected: !selected, Own: crs[machine.Name].own, Foreign: crs[machine.Name].foreign, Incomplete: s.incomplete}
		node, state := c.observeNode(ctx, machine, &reads)
		target.Verdict = s.policy.Criteria.Judge(machine, state, c.evidenceOf(node), target.Remediated(), now)
		if selected {
			s.selected, verdicts = append(s.selected, machine), append(verdicts, target.Verdict)
			if !s.requested[machine.UID] && leases.quiet(&target) {
				continue
			}
		}
		c.observeTarget(s, &target, node, leases, now)
		s.targets = append(s.targets, target)
	}
	s.addGone(crs)
	if reads.failed || reads.left == 0 {
		s.recheck = now.Add(time.Second)
	}
	s.policy.Summary = machinehealth.Summarize(s.policy.Criteria.MaxUnhealthy, verdicts, ignored, now)
	s.finishRounds(now)
	return nil
}

// observedLeases are the leases on which the plan for a healthy Machine depends.
type observedLeases struct {
	// held are the leases of Nodes that the MachineHealthCheck holds, by name.
	held sets.Set[string]
	// rounds are the back-off leases, by owner.
	rounds map[types.UID]*coordinationv1.Lease
}

// roundLeases returns the leases that count rounds, by owner.
func (c *Controller) roundLeases() map[types.UID]*coordinationv1.Lease {
	rounds := map[types.UID]*coordinationv1.Lease{}
	for _, owner := range c.leases.ListIndexFuncValues(leasesOfRounds) {
		for _, lease := range watches.Indexed[*coordinationv1.Lease](c.leases, leasesOfRounds, owner) {
			rounds[types.UID(owner)] = lease
		}
	}
	return rounds
}

func (c *Controller) observeLeases(s *snapshot) *observedLeases {
	leases := &observedLeases{held: sets.New[string](), rounds: c.roundLeases()}
	for _, lease := range watches.Indexed[*coordinationv1.Lease](c.leases, leasesByCheckHolder, keyOf(s.check).String()) {
		leases.held.Insert(lease.Name)
	}
	return leases
}

// quiet reports whether a selected Machine is healthy, and there is nothing to decide about it.
func (l *observedLeases) quiet(t *machinehealth.Target) bool {
	if t.Verdict.State != machinehealth.Healthy || t.Machine.Has(v1beta1.AnnotationRemediationStrategy) {
		return false
	}
	return l.roundsOf(t.Machine) == nil && (l.held.Len() == 0 || !l.held.Has(object.LeaseName(t.Machine.Node)))
}

// roundsOf returns the lease that counts the rounds of the owner of a Machine, nil if there is none.
func (l *observedLeases) roundsOf(machine *machinehealth.Machine) *coordinationv1.Lease {
	if len(l.rounds) == 0 {
		return nil
	}
	if owner := machine.Owner(); owner != nil {
		return l.rounds[owner.UID]
	}
	return nil
}

// observeTarget adds what is known of one target that was judged.
func (c *Controller) observeTarget(s *snapshot, t *machinehealth.Target, node *corev1.Node, leases *observedLeases, now time.Time) {
	t.Obstacles = machinehealth.ObstaclesOf(t.Machine)
	t.ControlPlane = t.Machine.ControlPlane() || isControlPlane(node)
	if node != nil {
		t.NodeUID = node.UID
		t.Obstacles.Excluded = t.Obstacles.Excluded || excluded(node)
		t.Obstacles.UpdateEnds = machinehealth.UpdateEnds(node.Annotations, s.unhealthySince(t, now), now)
		t.Lease = c.lease(object.LeaseName(node.Name))
	}
	if t.Machine.Node != "" {
		t.Obstacles.AmbiguousNode = c.ambiguous(t.Machine)
		if t.Lease == nil {
			t.Lease = c.lease(object.LeaseName(t.Machine.Node)) // It may outlive the Node.
		}
	}
	t.Obstacles.ClusterPaused = c.clusterPaused(t.Machine)
	t.Rounds = leases.roundsOf(t.Machine)
	t.DeletionRequested = s.requested
	t.Begun = t.BegunAt(s.state.entries[t.Machine.Name], s.hasDeleted(t))
	attempt := s.state.attempts.Of(t.Machine.Name)
	t.RetryAt, t.LastFailure, t.LastFailed = attempt.Due, attempt.Failure, attempt.Reason
}

// hasDeleted reports whether the MachineHealthCheck has requested the deletion of a Machine, as far as status, or the
// lease of the Node, says so.
func (s *snapshot) hasDeleted(t *machinehealth.Target) bool {
	return remediation.LeaseHolder(t.Lease) == s.policy.Owner.LeaseHolder() || slices.ContainsFunc(s.state.history, func(entry v1beta1.Remediation) bool {
		open := entry.Started != nil && entry.Finished == nil && entry.Closed == nil
		return open && entry.Machine == t.Machine.Name && entry.RemediationType == v1beta1.RemediationMachineDeletion
	})
}

// evidenceOf returns the evidence for Machines that name this Node. The Node is nil if it does not
// exist.
func (c *Controller) evidenceOf(node *corev1.Node) health.Evidence {
	return health.EvidenceOf(node, c.Sightings.Of(node))
}

// healthy reports whether a Machine is a target that is healthy.
func (c *Controller) healthy(s *snapshot, name string) bool {
	i, found := slices.BinarySearchFunc(s.targets, name, func(t machinehealth.Target, name string) int { return strings.Compare(t.Machine.Name, name) })
	if found {
		return !s.targets[i].Unselected && s.targets[i].Verdict.State == machinehealth.Healthy
	}
	machine := s.machines[name] // A selected Machine that is not in targets has nothing to decide.
	return machine != nil && s.policy.Criteria.Selects(machine) && c.ofThisCluster(machine)
}

// excluded reports whether a Node carries the label that exempts it (spec 15).
func excluded(node *corev1.Node) bool { return node.Labels[v1alpha1.LabelExclude] == "true" }

// holdsFor reports whether holder holds the lease of the Node of a Machine whose remediation has not ended. It
// keeps the lease until then, also if another MachineHealthCheck selects the Machine in the meantime (spec M10.3,
// M15.2).
func (c *Controller) holdsFor(holder string, machine *machinehealth.Machine) bool {
	if machine.Node == "" || !isRemediating(machine) {
		return false
	}
	return remediation.LeaseHolder(c.lease(object.LeaseName(machine.Node))) == holder
}

// lease returns a lease as the cache has it, nil if there is none.
func (c *Controller) lease(name string) *coordinationv1.Lease {
	return watches.Cached[*coordinationv1.Lease](c.leases, c.LeaseNamespace+"/"+name)
}

// ambiguous returns the first other Machine by name that is not being deleted and names the same Node, empty if
// there is none.
func (c *Controller) ambiguous(machine *machinehealth.Machine) (name string) {
	for _, other := range c.machinesOf(machine.Node) {
		if other.UID == machine.UID || other.Deleting() {
			continue
		}
		if key := other.Namespace + "/" + other.Name; name == "" || key < name {
			name = key
		}
	}
	return name
}

// addGone adds the targets that are gone and have CRs left.
func (s *snapshot) addGone(crs map[string]machineCRs) {
	for name, of := range crs {
		if s.machines[name] != nil || len(of.own) == 0 {
			continue
		}
		machine := &machinehealth.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.check.Namespace, Name: name}}
		target := machinehealth.Target{Machine: machine, Gone: true, Unselected: true, Own: of.own, DeletionRequested: s.requested}
		target.Begun = target.BegunAt(nil, false)
		s.targets = append(s.targets, target)
	}
	slices.SortFunc(s.targets, func(a, b machinehealth.Target) int { return strings.Compare(a.Machine.Name, b.Machine.Name) })
}
