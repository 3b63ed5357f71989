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
	// deletionRequested holds the Machines and CRs whose deletion was requested, until they are gone.
	deletionRequested map[types.UID]bool
	// entries are those of the last report: status may have no room for them, or an API that does not
	// know them. Likewise reported, of the history. history has what was done since, too.
	entries  machinehealth.Entries
	history  atomic.Pointer[[]v1beta1.Remediation] // Handlers read it, too.
	reported []v1beta1.Remediation
	// deletions are those that had not ended at the last sync.
	deletions []deletion
	// unsure are the Machines whose deletion may have been requested, because the answer was lost, and until when that
	// may still show.
	unsure map[string]time.Time
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
		entries: machinehealth.EntriesOf(&check.Status), reported: check.Status.RemediationHistory, unsure: map[string]time.Time{},
	}
	state.history.Store(&check.Status.RemediationHistory)
	state.deletions = c.deletionsOf(check) // By status.
	c.states.Store(keyOf(check), state)
	c.rounds.Recall(check.Status.RemediationHistory)
	return state
}

// checksOf returns the MachineHealthChecks that a CR belongs to, also those that are gone: by its references or, where
// garbage collection has removed them, those that had it at the last sync of this process.
func (c *Controller) checksOf(cr *object.CR) []cache.ObjectName {
	if owners := ownersOf(cr); len(owners) > 0 {
		return owners
	}
	return c.OwnersBefore(cr)
}
