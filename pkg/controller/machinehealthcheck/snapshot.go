// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// snapshot is what one sync observes of a MachineHealthCheck, and the policy that follows. Until evaluate, it holds no
// verdicts.
type snapshot struct {
	check *v1beta1.MachineHealthCheck
	// written is the MachineHealthCheck as the sync has written it last.
	written *v1beta1.MachineHealthCheck
	state   *checkState
	// machines are all Machines of the API in the namespace. observed are those that are selected, or that have CRs or
	// a lease left, by name. ignored is the number of selected Machines of other clusters.
	machines machinehealth.Machines
	observed []machinehealth.Observed
	ignored  int
	// targets are the Machines about which there is something to decide, by name.
	targets []machinehealth.Target
	policy  machinehealth.Policy
	// kinds are the kinds that may have CRs. incomplete means that one of these kinds cannot be read.
	kinds      []schema.GroupVersionKind
	incomplete bool
	// overlaps are the other MachineHealthChecks that select the same Machines.
	overlaps []string
	// budgetRevision is the revision of the RemediationBudgets that admitted the candidates. reserved are the names of
	// those that have a reservation.
	budgetRevision int64
	reserved       []string
	// held are the leases of Nodes that the MachineHealthCheck holds. needless are those of Nodes that no target names.
	held, needless []*coordinationv1.Lease
	// recheck is the instant of the next observation.
	recheck time.Time
}

// snapshot observes a MachineHealthCheck at the instant now. The error is watches.ErrPending if the
// decision depends on something that has not been read yet, and a *watches.ForbiddenError if the
// controller may not read it.
func (c *Controller) snapshot(ctx context.Context, check *v1beta1.MachineHealthCheck, now time.Time) (*snapshot, error) {
	if err := cmp.Or(c.Budgets.Ready(), c.Remediations.Ready()); err != nil {
		return nil, err
	}
	criteria := c.criteriaOf(check)
	if err := c.readable(criteria.API); err != nil {
		return nil, err
	}
	machines, err := c.machinesIn(check.Namespace, criteria.API)
	if err != nil {
		return nil, err
	}
	s := &snapshot{
		check: check, written: check, state: c.stateOf(check), machines: machinehealth.NewMachines(machines),
		held: c.LeasesOf(keyOf(check).String()),
	}
	s.policy = machinehealth.Policy{
		Owner: c.Owner(keyOf(check), check.UID), Criteria: criteria, BackOff: c.backOff, Rounds: &c.rounds, DryRun: c.DryRun,
		Terminating: check.DeletionTimestamp != nil, ClockUntrusted: c.ClockUntrusted(),
	}
	if !c.served(criteria.API) {
		s.policy.Unavailable = machinehealth.MachinesNotServed(criteria.API)
	}
	if err := c.observeTemplate(s); err != nil {
		return nil, err
	}
	crs, err := c.observeCRs(s)
	if err != nil {
		return nil, err
	}
	c.observeMachines(ctx, s, crs, now)
	s.policy.Upgrading = c.clusterUpgrading()
	return s, nil
}

// observeMachines adds the Machines that are selected or remediated, with their Nodes and CRs.
func (c *Controller) observeMachines(ctx context.Context, s *snapshot, crs map[string]machineCRs, now time.Time) {
	s.observed = make([]machinehealth.Observed, 0, len(s.machines))
	reads := liveReads{left: maxLiveReads}
	for _, machine := range s.machines {
		selected, of := s.policy.Criteria.Selects(machine), crs[machine.Name]
		if selected && !c.ofThisCluster(machine) {
			s.ignored++
			continue
		}
		if !selected && len(of.own) == 0 && !c.holdsFor(s.policy.Owner.LeaseHolder(), machine) {
			continue
		}
		observed := machinehealth.Observed{Machine: machine, Unselected: !selected, Own: of.own, Foreign: of.foreign}
		observed.Node, observed.NodeState = c.observeNode(ctx, machine, &reads)
		s.observed = append(s.observed, observed)
	}
	s.addGone(crs)
	if reads.failed || reads.left == 0 {
		s.recheck = now.Add(time.Second)
	}
}

// addGone adds the Machines that are gone and have CRs left.
func (s *snapshot) addGone(crs map[string]machineCRs) {
	for name, of := range crs {
		if len(of.own) > 0 && s.machines.Named(name) == nil {
			machine := &machinehealth.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.check.Namespace, Name: name}}
			s.observed = append(s.observed, machinehealth.Observed{Machine: machine, Gone: true, Unselected: true, Own: of.own})
		}
	}
	slices.SortFunc(s.observed, func(a, b machinehealth.Observed) int { return strings.Compare(a.Machine.Name, b.Machine.Name) })
}
