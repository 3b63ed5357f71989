// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// deletions are the deletions of Machines that MachineHealthChecks have requested or announced, and
// that have not ended. The caches show all other remediations.
type deletions struct {
	mu      sync.Mutex
	byCheck map[cache.ObjectName]map[string]begun
}

// begun is one such deletion.
type begun struct {
	// name is that of the Node, or the name that stands for a Machine without a Node.
	name    string
	started time.Time
	// owner is the uid of the owner of the Machine.
	owner types.UID
	// announced means that status announces the deletion. It has begun if the Machine is
	// being deleted, or is gone.
	announced bool
}

// set replaces the deletions of a MachineHealthCheck, by Machine. It returns the former ones, and whether they differ.
func (d *deletions) set(check cache.ObjectName, now map[string]begun) (before map[string]begun, differ bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before = d.byCheck[check]
	if d.byCheck == nil {
		d.byCheck = map[cache.ObjectName]map[string]begun{}
	}
	if d.byCheck[check] = now; len(now) == 0 {
		delete(d.byCheck, check)
	}
	return before, !maps.Equal(before, now)
}

// of returns the deletion of a Machine, the zero value if there is none.
func (d *deletions) of(check cache.ObjectName, machine string) begun {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byCheck[check][machine]
}

// all returns the deletions, by namespace and name of the Machine.
func (d *deletions) all() map[cache.ObjectName]begun {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[cache.ObjectName]begun{}
	for check, machines := range d.byCheck {
		for machine, one := range machines {
			all[cache.NewObjectName(check.Namespace, machine)] = one
		}
	}
	return all
}

// deletionsOf returns the deletions that count by a name.
func (c *Controller) deletionsOf(name string) map[cache.ObjectName]begun {
	all := c.deletions.all()
	maps.DeleteFunc(all, func(machine cache.ObjectName, one begun) bool { return c.countsBy(machine, one) != name })
	return all
}

// countsBy returns the name by which a deletion counts: the present one of its Machine, or the last one.
func (c *Controller) countsBy(key cache.ObjectName, one begun) string {
	if machine := c.cachedMachine(key.Namespace, key.Name); machine != nil {
		return machine.SlotName()
	}
	return one.name
}

// maxUnreplaced is how long a deleted Machine counts at most while its replacement is not Healthy (spec B3.2).
const maxUnreplaced = 30 * time.Minute

// next returns the deletion that goes on by an entry of the history, until when if only time ends it, and false if
// none does. The Machine is nil if it is gone. Before the first sync of this process, every deletion that status
// lists may go on.
func (b begun) next(entry *v1beta1.Remediation, machine *machinehealth.Machine, synced bool, now time.Time) (one begun, until time.Time, is bool) {
	open, deletion := entry.Finished == nil && entry.Closed == nil, entry.RemediationType == v1beta1.RemediationMachineDeletion
	one = begun{started: b.started, owner: types.UID(entry.Owner), announced: entry.Started == nil}
	switch {
	case entry.Started != nil && entry.Started.After(b.started): // Otherwise only this process knows when.
		one.started = entry.Started.Time
	case b.started.IsZero():
		one.started = now
	}
	end := one.started.Add(maxUnreplaced)
	switch {
	case !deletion: // The caches show it, and since when.
		one.started = time.Time{}
		return one, time.Time{}, !synced && open && !one.announced
	case machine != nil && machine.Deleting():
		return one, time.Time{}, open || entry.Started.Equal(machine.DeletionTimestamp)
	case one.announced:
		return one, time.Time{}, open
	}
	return one, end, open && now.Before(end)
}

// setDeletions updates the running deletions of a MachineHealthCheck, and returns when time changes them. The
// machines are nil before the first sync of this process.
func (c *Controller) setDeletions(check cache.ObjectName, history []v1beta1.Remediation, machines machinehealth.Machines, now time.Time) (recheck time.Time) {
	current := map[string]begun{}
	for i := range history {
		entry, machine := &history[i], machines.Named(history[i].Machine)
		if machines == nil {
			machine = c.cachedMachine(check.Namespace, entry.Machine)
		}
		one, until, is := c.deletions.of(check, entry.Machine).next(entry, machine, machines != nil, now)
		if _, listed := current[entry.Machine]; !is || listed {
			continue
		}
		recheck = health.Earliest(recheck, until)
		one.name = c.nameOfDeletion(check, entry, machine)
		current[entry.Machine] = one
	}
	before, differ := c.deletions.set(check, current)
	for _, machines := range []map[string]begun{before, current} {
		for machine, one := range machines {
			if differ { // It may have counted before the cache had its Machine.
				c.Budgets.NodeChanged(one.name)
				c.Budgets.NodeChanged(c.countsBy(cache.NewObjectName(check.Namespace, machine), one))
			}
		}
	}
	return recheck
}

// nameOfDeletion returns the name by which the deletion of a Machine counts. If the Machine is gone (nil), it is
// the last name that this process knows, or the Node that the deletion was begun for.
func (c *Controller) nameOfDeletion(check cache.ObjectName, entry *v1beta1.Remediation, machine *machinehealth.Machine) string {
	if machine != nil {
		return machine.SlotName()
	}
	node := ""
	if entry.TargetKind == "Node" {
		node = entry.TargetName
	}
	return cmp.Or(c.deletions.of(check, entry.Machine).name, node, machinehealth.SlotName(check.Namespace, entry.Machine))
}
