// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/attempts"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// checkState is what the process remembers of one MachineHealthCheck between syncs. It may be lost
// at any time: then an event or a request may be repeated. A MachineHealthCheck is synced by one
// worker at a time, so it needs no lock.
type checkState struct {
	uid types.UID
	// deletionRequested holds the Machines and CRs whose deletion was requested, until the caches
	// show it.
	deletionRequested map[types.UID]bool
	// entries are those of the last report: status may have no room for them, or an API that does not
	// know them. Likewise reported, of the history. history has what was done since, too.
	entries           machinehealth.Entries
	history, reported []v1beta1.Remediation
	// unsure are the Machines whose deletion may have been requested: the answer was lost.
	unsure sets.Set[string]
	// own are the CRs that were own ones and that the caches show. Handlers read them, too, so the set is replaced, never changed.
	own atomic.Pointer[sets.Set[types.UID]]
	// machines are those of the last sync, nil before the first one.
	machines machinehealth.Machines
	// vanished is since when the external remediations are gone that the history shows as open, by Machine.
	vanished map[string]time.Time
	// notHealthy are the names of the targets that were judged unhealthy, or soon, at the last sync.
	notHealthy sets.Set[string]
	attempts   attempts.Attempts[string]
}

// known reports whether a Machine was there at the last sync of this process.
func (s *checkState) known(machine string) bool { return s.machines.Named(machine) != nil }

// stateOf returns the state of a MachineHealthCheck, which begins with what its status says.
func (c *Controller) stateOf(check *v1beta1.MachineHealthCheck) *checkState {
	if found, ok := c.states.Load(keyOf(check)); ok && found.(*checkState).uid == check.UID {
		return found.(*checkState)
	}
	state := &checkState{
		uid: check.UID, deletionRequested: map[types.UID]bool{}, attempts: attempts.New[string](),
		entries: machinehealth.EntriesOf(&check.Status), history: check.Status.RemediationHistory, reported: check.Status.RemediationHistory,
		unsure: sets.New[string](),
	}
	c.states.Store(keyOf(check), state)
	c.rounds.Recall(check.Status.RemediationHistory)
	return state
}

// ownedLast returns the CRs that a MachineHealthCheck had at the last sync of this process. Garbage collection
// may have removed their references to it since.
func (c *Controller) ownedLast(key cache.ObjectName) sets.Set[types.UID] {
	if state, ok := c.states.Load(key); ok {
		if own := state.(*checkState).own.Load(); own != nil {
			return *own
		}
	}
	return nil
}

// checksOf returns the MachineHealthChecks that a CR belongs to, also those that are gone: by its references or, where
// garbage collection has removed them, those that had it at the last sync of this process.
func (c *Controller) checksOf(cr *object.CR) []cache.ObjectName {
	owners := ownersOf(cr)
	if len(owners) > 0 {
		return owners
	}
	c.states.Range(func(key, _ any) bool {
		if name := key.(cache.ObjectName); c.ownedLast(name).Has(cr.UID) {
			owners = append(owners, name)
		}
		return true
	})
	return owners
}

// pruneRequests forgets the requests to delete Machines and CRs that the caches show.
func (s *checkState) pruneRequests(machines machinehealth.Machines, crs map[string]machineCRs) {
	if len(s.deletionRequested) == 0 {
		return
	}
	pending := sets.New[types.UID]()
	for _, machine := range machines {
		if !machine.Deleting() {
			pending.Insert(machine.UID)
		}
	}
	for _, of := range crs {
		for _, cr := range of.own {
			if !cr.Deleting() {
				pending.Insert(cr.UID)
			}
		}
	}
	for uid := range s.deletionRequested {
		if !pending.Has(uid) {
			delete(s.deletionRequested, uid)
		}
	}
}
