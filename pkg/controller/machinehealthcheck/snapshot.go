// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// snapshot is what one sync observes of a MachineHealthCheck, and the policy that follows.
type snapshot struct {
	check *v1beta1.MachineHealthCheck
	// written is the MachineHealthCheck as the sync has written it last.
	written *v1beta1.MachineHealthCheck
	state   *checkState
	// machines are all Machines of the API in the namespace, by name. selected are the Machines that are
	// targets. Healthy ones without anything to decide are not in targets.
	machines map[string]*machinehealth.Machine
	selected []*machinehealth.Machine
	targets  []machinehealth.Target
	// requested are the objects whose deletion was requested by earlier syncs.
	requested map[types.UID]bool
	policy    machinehealth.Policy
	// kinds are the kinds that may have CRs. incomplete means that one of these kinds cannot be read.
	kinds      []schema.GroupVersionKind
	incomplete bool
	// overlaps are the other MachineHealthChecks that select the same Machines.
	overlaps []string
	// budgetRevision is the revision of the RemediationBudgets that admitted the candidates.
	budgetRevision int64
	// heldLeases are leases for Nodes that no target names.
	heldLeases []*coordinationv1.Lease
	// finishedRounds are leases of owners that begin anew.
	finishedRounds []*coordinationv1.Lease
	// recheck is the instant of the next observation.
	recheck time.Time
}

// snapshot observes a MachineHealthCheck at the instant now. The error is watches.ErrPending if the
// decision depends on something that has not been read yet, and a *watches.ForbiddenError if the
// controller may not read it.
func (c *Controller) snapshot(ctx context.Context, check *v1beta1.MachineHealthCheck, now time.Time) (*snapshot, error) {
	if err := c.Budgets.Ready(); err != nil {
		return nil, err
	}
	criteria := c.criteriaOf(check)
	if err := c.readable(criteria.API); err != nil {
		return nil, err
	}
	if err := c.othersRead(check.Namespace); err != nil {
		return nil, err
	}
	machines, err := c.machinesIn(check.Namespace, criteria.API)
	if err != nil {
		return nil, err
	}
	s := &snapshot{check: check, written: check, state: c.stateOf(check), machines: make(map[string]*machinehealth.Machine, len(machines))}
	for _, machine := range machines {
		s.machines[machine.Name] = machine
	}
	s.policy = machinehealth.Policy{
		Owner: ownerOf(check), Criteria: criteria, BackOff: c.BackOff, DryRun: c.DryRun,
		Terminating: check.DeletionTimestamp != nil, ClockUntrusted: c.clockUntrusted(),
	}
	if !c.served(criteria.API) {
		s.policy.Unavailable = machinehealth.MachinesNotServed(criteria.API)
	}
	if err := c.observeTemplate(s); err != nil {
		return nil, err
	}
	if err := c.observeTargets(ctx, s, machines, now); err != nil {
		return nil, err
	}
	s.policy.Upgrading = c.clusterUpgrading()
	c.observeOthers(s, now)
	c.observeHeldLeases(s)
	return s, nil
}

// caughtUp returns the MachineHealthCheck of the cache, nil if there is none. Until all caches show
// the writes for it, the error is a *staleness.Error, for a limited time.
func (c *Controller) caughtUp(key cache.ObjectName) (*v1beta1.MachineHealthCheck, error) {
	if err := c.Freshness.Check(watches.NodeCache, watches.LeaseCache, watches.MachineHealthCheckCache); err != nil {
		return nil, fmt.Errorf("reading what decisions depend on: %w", err) // When it is over, all are synced.
	}
	if err := c.writes.CaughtUp(key.String(), c.storeOf, c.Clock.Now()); err != nil {
		return nil, err
	}
	check, err := c.checks.MachineHealthChecks(key.Namespace).Get(key.Name) // After CaughtUp.
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nil is the answer
	}
	return check, err
}

// ownerOf returns a MachineHealthCheck as owner.
func ownerOf(check *v1beta1.MachineHealthCheck) object.Owner {
	return object.Owner{
		APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind,
		Namespace: check.Namespace, Name: check.Name, UID: check.UID,
	}
}

// clockUntrusted reports whether nothing may begin by the clock.
func (c *Controller) clockUntrusted() bool { return c.ClockTrusted != nil && !c.ClockTrusted() }

// finishRounds finds the owners that begin anew: the targets show a healthy Machine of theirs.
func (s *snapshot) finishRounds(now time.Time) {
	newest := map[types.UID]time.Time{}
	leases := map[types.UID]*coordinationv1.Lease{}
	for i := range s.targets {
		t := &s.targets[i]
		owner := t.Machine.Owner()
		if owner == nil || t.Rounds == nil {
			continue
		}
		leases[owner.UID] = t.Rounds
		if created := t.Machine.CreationTimestamp.Time; t.Verdict.State == machinehealth.Healthy && created.After(newest[owner.UID]) {
			newest[owner.UID] = created
		}
	}
	for owner, lease := range leases {
		rounds := machinehealth.RoundsOf(lease)
		if s.policy.BackOff.Over(rounds, newest[owner], now) {
			s.finishedRounds = append(s.finishedRounds, lease)
			for i := range s.targets {
				if s.targets[i].Rounds == lease {
					s.targets[i].Rounds = nil
				}
			}
		}
	}
}

// observeHeldLeases finds the leases for Nodes that no target names. If CRs cannot be read, each of these Nodes
// may have one (spec P5).
func (c *Controller) observeHeldLeases(s *snapshot) {
	if s.incomplete {
		return
	}
	named := sets.New[string]()
	for i := range s.targets {
		if node := s.targets[i].Machine.Node; node != "" {
			named.Insert(object.LeaseName(node))
		}
	}
	for _, lease := range c.leasesHeldBy(keyOf(s.check)) {
		if !named.Has(lease.Name) {
			s.heldLeases = append(s.heldLeases, lease)
		}
	}
}

// storeOf returns the cache in which a write of the controller shows.
func (c *Controller) storeOf(resource schema.GroupResource) (staleness.Store, bool) {
	switch resource {
	case checkResource:
		return c.checkStore, true
	case execute.LeaseResource:
		return c.leases, true
	}
	if found, ok := c.machines.StoreOf(resource); ok {
		return found, true
	}
	return c.remediations.StoreOf(resource)
}
