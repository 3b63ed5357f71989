// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// deletion is the deletion of a Machine that a MachineHealthCheck has requested, or is about to, and that has not ended
// (spec B3.2). The caches show all other remediations.
type deletion struct {
	// name is that by which it counts: of the Node of the Machine, or the name that stands for a Machine without a Node.
	name    string
	started time.Time
	// until is when time alone ends it, zero if it does not.
	until time.Time
	// namespace is that of the Machine, and owner the uid of its owner.
	namespace string
	owner     types.UID
}

// maxUnreplaced is how long a deleted Machine counts at most while its replacement is not Healthy (spec B3.2).
const maxUnreplaced = 30 * time.Minute

// goesOn reports whether an entry of the history stands for a deletion that has not ended, and until when if only time
// ends it. The Machine is nil if it is gone.
func goesOn(entry *v1beta1.Remediation, machine *machinehealth.Machine, now time.Time) (until time.Time, is bool) {
	open := entry.Finished == nil && entry.Closed == nil
	if entry.RemediationType != v1beta1.RemediationMachineDeletion || entry.Started == nil {
		return time.Time{}, false
	}
	if machine != nil && machine.Deleting() {
		return time.Time{}, open || entry.Started.Equal(machine.DeletionTimestamp)
	}
	until = entry.Started.Add(maxUnreplaced)
	return until, open && now.Before(until)
}

// deletions returns the deletions of all MachineHealthChecks that have not ended.
func (c *Controller) deletions() (all []deletion) {
	for _, obj := range c.Checks.Store.List() {
		all = append(all, c.deletionsOf(obj.(*v1beta1.MachineHealthCheck))...)
	}
	return all
}

// deletionsOf returns those of one MachineHealthCheck: by its last sync or, before the first one of this process, by its
// status.
func (c *Controller) deletionsOf(check *v1beta1.MachineHealthCheck) (found []deletion) {
	history, now := check.Status.RemediationHistory, c.Clock.Now()
	if state, known := c.states.Load(keyOf(check)); known && state.(*checkState).uid == check.UID {
		history = *state.(*checkState).history.Load()
	}
	for i := range history {
		entry := &history[i]
		machine := c.cachedMachine(check.Namespace, entry.Machine)
		until, is := goesOn(entry, machine, now)
		if !is {
			continue
		}
		name := cmp.Or(entry.Node, machinehealth.SlotName(check.Namespace, entry.Machine))
		if machine != nil {
			name = machine.SlotName()
		}
		found = append(found, deletion{name: name, started: entry.Started.Time, until: until, namespace: check.Namespace, owner: types.UID(entry.Owner)})
	}
	return found
}
