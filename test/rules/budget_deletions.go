// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deletion is one of a Machine that the controller has requested.
type deletion struct {
	machine string
	uid     types.UID
	owner   types.UID
	at      time.Time
	rv      uint64
	// process is the process that has requested it. It knows that at once.
	process string
	// checks are the MachineHealthChecks that selected it. One of them has deleted it.
	checks []string
}

// maxUnreplaced is for how long a Machine that was deleted counts until its replacement is Healthy (spec B3.2).
const maxUnreplaced = 30 * time.Minute

// noteDeletion follows the deletion of a Machine, by whomever.
func (j *Judge) noteDeletion(event Change, last, machine *Machine, by *Request) {
	if last == nil || last.Deleting || event.Gap || (machine != nil && !machine.Deleting) {
		return
	}
	if by == nil {
		j.deletedByOthers.Insert(last.UID)
		return
	}
	d := deletion{machine: event.Key, uid: last.UID, owner: last.Owner, at: by.Time, rv: event.ResourceVersion, process: by.UserAgent}
	for key, track := range j.mhcs {
		if mhc := track.at(event.ResourceVersion); mhc != nil && mhc.Selects(last) {
			d.checks = append(d.checks, key)
		}
	}
	j.deletions = append(j.deletions, d)
}

// unreplaced tells whether a deleted Machine counts, also if it is gone, as far as is known. by is the process that
// acts, empty if none does.
func (h *history) unreplaced(d deletion, w window, by string) certainty {
	if d.rv > w.rv || w.known.After(h.activity.startAfter(d.at).Add(maxUnreplaced+startTime)) {
		return certainty{}
	}
	long := window{known: d.at, rv: w.rv, at: w.at}
	surely := h.kept(d, w) && (d.at.Before(w.known) || d.process == by) && w.at.Before(d.at.Add(maxUnreplaced-startTime)) && h.activity.surelyActive(long)
	return certainty{surely && !h.mayBeReplaced(d, w), !h.allReplaced(d, w)}
}

// startAfter returns when the next process has started while a deletion counted, the instant itself if none has. A process that has died may have
// announced a deletion and not said when it was requested: to the next one it began at its own start.
func (a *activity) startAfter(at time.Time) time.Time {
	if i := slices.IndexFunc(a.starts, at.Before); i >= 0 && a.starts[i].Before(at.Add(maxUnreplaced)) {
		return a.starts[i]
	}
	return at
}

// kept reports whether the MachineHealthCheck that has deleted a Machine is known, and has been there since.
func (h *history) kept(d deletion, w window) bool {
	if len(d.checks) != 1 {
		return false
	}
	first := h.mhcs[d.checks[0]].at(d.rv)
	return first != nil && all(h.mhcs[d.checks[0]].during(d.at, w.rv), func(mhc *MHC) bool { return mhc != nil && mhc.UID == first.UID })
}

// surelyDeletes reports whether a Machine is being deleted by a MachineHealthCheck that is known.
func (h *history) surelyDeletes(machine *Machine, w window) bool {
	return machine.Deleting && slices.ContainsFunc(h.deletions, func(d deletion) bool { return d.uid == machine.UID && h.kept(d, w) })
}

// mayBeReplaced reports whether a Machine of the same owner that was made since a deletion may have become Healthy, or
// is no replacement any more.
func (h *history) mayBeReplaced(d deletion, w window) bool {
	since := d.at.Add(-rounding - time.Second)
	for _, track := range h.machines {
		first := track[0].object
		if first == nil || first.Owner != d.owner || first.Created.Before(since) {
			continue
		}
		for _, v := range track {
			if v.rv <= w.rv && (v.object == nil || v.object.Deleting || v.object.Node != "") {
				return true
			}
		}
	}
	return false
}

// allReplaced reports whether all Machines of the owner that were ever deleted are replaced for certain: as many have
// been made, each since a deletion, and those that are there are Healthy.
func (h *history) allReplaced(d deletion, w window) bool {
	var open []time.Time
	for _, other := range h.deletions {
		if other.owner == d.owner && other.rv <= w.rv {
			open = append(open, other.at)
		}
	}
	var made []time.Time
	for _, track := range h.machines {
		first := track[0].object
		if first == nil || first.Owner != d.owner || first.Created.Before(open[0].Add(-rounding-time.Second)) || !track[0].seen.Before(w.known) {
			continue
		}
		if !all(track.during(w.known, w.rv), func(machine *Machine) bool { return machine == nil || h.surelyHealthy(machine, d, w) }) {
			return false
		}
		if !first.Created.Before(open[0].Add(time.Second)) { // Or else it may have been there before.
			made = append(made, first.Created)
		}
	}
	slices.SortFunc(made, time.Time.Compare)
	if len(made) < len(open) {
		return false
	}
	for i := range open {
		if made[len(made)-len(open)+i].Before(open[i].Add(time.Second)) {
			return false
		}
	}
	return true
}

// surelyHealthy reports whether a Machine is Healthy for each MachineHealthCheck that may have deleted another one.
func (h *history) surelyHealthy(machine *Machine, d deletion, w window) bool {
	nodes := h.nodes[machine.Node].during(w.known, w.rv)
	return !machine.Deleting && machine.Node != "" && all(nodes, func(node *Node) bool {
		return node != nil && !slices.ContainsFunc(d.checks, func(key string) bool {
			return !all(h.mhcs[key].during(w.known, w.rv), func(mhc *MHC) bool {
				return mhc != nil && mhc.Selects(machine) && mhc.State(machine, node, false, w.at) == MachineHealthy
			})
		})
	})
}

// settledBefore is how long before a Machine was gone the controller must have known it as it was.
const settledBefore = 5 * time.Second

// remembered reports whether the present leader knows for certain the name and labels by which a deleted
// Machine counts: it led when the Machine was deleted, and there have been budgets since then.
func (h *history) remembered(d deletion, w window) bool {
	versions := h.machines[d.machine]
	gone := slices.IndexFunc(versions, func(v version[Machine]) bool { return v.object == nil })
	if gone < 0 || gone != len(versions)-1 || versions[gone].rv > w.rv {
		return false // It is there, or has been there again.
	}
	since := d.at.Add(-settledBefore)
	name := slotName(versions[gone-1].object)
	if h.ledSince(since) || !all(versions[:gone].during(since, w.rv), func(m *Machine) bool { return standsFor(name, m) }) {
		return false
	}
	for _, track := range h.budgets {
		if existed(track.during(since, w.rv)) {
			return true
		}
	}
	return false
}

// kin returns the identities under which a deleted Machine may count in a process that has not seen it: the labels of
// other Machines of its owner.
func (h *history) kin(name string, w window) (possible []machineIdentity) {
	for _, d := range h.deletions {
		last := h.lastMachine(d.machine, w.rv)
		if d.rv > w.rv || last == nil || (slotName(last) != name && machineName(d.machine) != name) {
			continue
		}
		possible = append(possible, machineIdentity{namespace: last.Namespace})
		for _, track := range h.machines {
			for _, v := range track {
				if v.object != nil && v.rv <= w.rv && v.object.Owner == d.owner && v.object.Namespace == last.Namespace {
					possible = append(possible, machineIdentity{last.Namespace, v.object.Labels})
				}
			}
		}
	}
	return possible
}
