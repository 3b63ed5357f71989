// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

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
	// machines are all Machines of the API in the namespace, by name, and selected those of them that
	// are targets. Of these, the healthy ones about which there is nothing to decide are not in targets.
	machines map[string]*machinehealth.Machine
	selected []*machinehealth.Machine
	targets  []machinehealth.Target
	// requested are the objects whose deletion was requested by earlier syncs.
	requested map[types.UID]bool
	policy    machinehealth.Policy
	// kinds are the kinds of the CRs that there may be, and incomplete means that those of one cannot be read.
	kinds      []schema.GroupVersionKind
	incomplete bool
	// overlaps are the other MachineHealthChecks that select the same Machines.
	overlaps []string
	// budgetRevision is that of the RemediationBudgets by which candidates were admitted.
	budgetRevision int64
	// heldLeases are leases that are held for Nodes of no target.
	heldLeases []*coordinationv1.Lease
	// finishedRounds are leases of owners that begin anew.
	finishedRounds []*coordinationv1.Lease
	// recheck is the next instant at which what was observed is to be observed again.
	recheck time.Time
}

// snapshot observes a MachineHealthCheck at the instant now. The error is watches.ErrPending if
// something that the decision depends on has not been read yet, and a *watches.ForbiddenError if it
// may not be read.
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

// caughtUp returns the MachineHealthCheck that the cache has once all caches show what was written
// for it, nil if there is none. The error is a *staleness.Error until then, for a limited time.
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

// maxLiveReads is how many Nodes a sync looks for live that the cache does not have, and
// liveReadTimeout how long it waits for each answer: none must hold a worker for ever.
const (
	maxLiveReads    = 64
	liveReadTimeout = 5 * time.Second
)

// liveReads are the reads of one sync.
type liveReads struct {
	left int
	// failed means that one got no answer.
	failed bool
}

// observeNode returns the Node of a Machine, nil if there is none, and what is known about that. A
// Node that the cache does not have is looked for live: the cache may lag behind.
func (c *Controller) observeNode(ctx context.Context, machine *machinehealth.Machine, reads *liveReads) (*corev1.Node, machinehealth.NodeState) {
	if node := c.node(machine.Node); node != nil {
		return node, machinehealth.NodeExists
	}
	switch {
	case machine.Node == "" || machine.Deleting():
		return nil, machinehealth.NodeUnknown
	case c.missing.has(machine.Node):
		return nil, machinehealth.NodeMissing
	case reads.left == 0:
		return nil, machinehealth.NodeUnknown
	}
	reads.left--
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	_, err := c.Kube.CoreV1().Nodes().Get(ctx, machine.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.nodeMissing(machine.Node, nil)
		return nil, machinehealth.NodeMissing
	}
	reads.failed = true // Or found, and the watch is about to bring it.
	if errors.Is(err, context.DeadlineExceeded) {
		reads.left = 0 // The others would not be answered either.
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot find out whether a Node exists", "node", machine.Node, "cause", err.Error())
	}
	return nil, machinehealth.NodeUnknown
}

// nodeMissing records that a live read did not find a Node. before is what the cache had before the read.
// The Node may have come back since then, and no further event would report that.
func (c *Controller) nodeMissing(name string, before *corev1.Node) {
	c.missing.add(name)
	if now := c.node(name); now != nil && (before == nil || before.UID != now.UID) {
		c.missing.remove(name)
	}
	c.forgetMissing(name)
}

// forgetMissing forgets that a Node is missing if no Machine names it any more: nothing else would, if it never comes back.
func (c *Controller) forgetMissing(name string) {
	if name != "" && c.missing.has(name) && len(c.machinesOf(name)) == 0 {
		c.missing.remove(name)
	}
}

// missingNodes are Nodes that a live read did not find, that the watch has not brought since, and that a Machine names.
// The zero value is ready to use, from any goroutine.
type missingNodes struct {
	mu    sync.Mutex
	names sets.Set[string]
}

func (m *missingNodes) has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names.Has(name)
}

func (m *missingNodes) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = sets.New[string]()
	}
	m.names.Insert(name)
}

// remove forgets a Node, and reports whether it was one of them.
func (m *missingNodes) remove(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.names.Has(name)
	m.names.Delete(name)
	return found
}

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

// observeHeldLeases finds the leases that are held for Nodes of no target. Where CRs cannot be read, there may
// be one for each (spec P5).
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
