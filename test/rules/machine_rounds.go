// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Rounds is what a back-off lease says of an owner (spec M14.4).
type Rounds struct {
	Count       int
	First, Last time.Time
	Seconds     int32
}

// roundsPrefix begins the name of a back-off lease (spec M2).
const roundsPrefix = "machine-owner-"

// BackOff are the delays of deletions (spec M14.1).
type BackOff struct{ Base, Cap time.Duration }

// delay is how long a Machine has to live after this number of rounds.
func (b BackOff) delay(rounds int) time.Duration {
	if rounds <= 0 {
		return 0
	}
	delay := b.Base
	for i := 1; i < rounds && delay < b.Cap; i++ {
		delay *= 2
	}
	return min(delay, b.Cap)
}

// judgeRounds judges a change of the lease that counts the rounds of an owner (spec M14.3, M14.4).
func (j *Judge) judgeRounds(event Change, owner string, by *Request) {
	before := j.rounds[owner].at(event.ResourceVersion)
	var after *Rounds
	if event.Object != nil {
		lease, err := parseLease(event.Object)
		if err != nil {
			j.unreadable(event, err)
			return
		}
		after = &Rounds{Count: int(transitionsOf(lease)), Seconds: int32(seconds(lease) / time.Second)}
		if lease.Spec.AcquireTime != nil && lease.Spec.RenewTime != nil {
			after.First, after.Last = lease.Spec.AcquireTime.Time, lease.Spec.RenewTime.Time
		}
	}
	add(j.rounds, owner, event.ResourceVersion, event.Time, after)
	if by == nil {
		return
	}
	w := j.windowOf(event, by, "", "")
	node := "owner " + owner
	if after == nil {
		j.record(node, "", j.roundsOver(w, before, types.UID(owner)), j.activeFor(event, by))
		return
	}
	count := 1
	if before != nil {
		count = before.Count + 1
	}
	j.record(node, "", j.activeFor(event, by),
		check("M14.3", after.Count != count, "round %d follows %d", after.Count, count-1),
		check("M14.4", after.Last.After(w.at) || w.at.Sub(after.Last) > longestSync+j.toleranceAt(by).Sync, "a round is written for %s", after.Last),
		check("M14.4", time.Duration(after.Seconds)*time.Second != j.backOff.delay(after.Count), "the lease of round %d lasts %d s", after.Count, after.Seconds),
		check("M14.4", before != nil && !after.First.Equal(before.First), "the first round was at %s", after.First))
}

// resetAfter is how many caps after the last round an owner begins anew (spec M14.3).
const resetAfter = 3

// roundsOver judges that an owner begins anew: a Machine that it has made since the last round was
// healthy, or that was long ago.
func (j *Judge) roundsOver(w window, rounds *Rounds, owner types.UID) finding {
	if rounds == nil || !w.at.Before(rounds.Last.Add(resetAfter*j.backOff.Cap)) {
		return finding{rule: "M14.3"}
	}
	for _, versions := range j.machines {
		for _, machine := range versions.during(w.known, w.rv) {
			if machine == nil || machine.Owner != owner || machine.Created.Before(rounds.Last.Truncate(time.Second)) {
				continue
			}
			if j.healthyForSome(machine, w) {
				return finding{rule: "M14.3"}
			}
		}
	}
	return finding{"M14.3", "the rounds of an owner are forgotten too early"}
}

// healthyForSome reports whether a Machine may have been healthy for some MachineHealthCheck.
func (j *Judge) healthyForSome(machine *Machine, w window) bool {
	for _, versions := range j.mhcs {
		for _, mhc := range versions.during(w.known, w.rv) {
			if mhc == nil || !mhc.Selects(machine) {
				continue
			}
			if some(j.nodes[machine.Node].during(w.known, w.rv), func(node *Node) bool { return mhc.healthy(machine, node, false) }) {
				return true
			}
		}
	}
	return false
}

// oldEnough judges that no Machine is deleted younger than its delay, and that the deletion belongs
// to a round (spec M14.2, M14.3). It concerns Machines that have failed or never joined.
func (j *Judge) oldEnough(b beginning, machine *Machine) finding {
	if !machine.Failed() && machine.Node != "" {
		return finding{rule: "M14.2"}
	}
	// The sync of another MachineHealthCheck may have seen a healthy Machine meanwhile, and forgotten the rounds.
	seen := j.rounds[string(machine.Owner)].during(b.known, b.rv)
	last := slices.IndexFunc(seen, func(rounds *Rounds) bool { return rounds != nil && rounds.Count > 0 })
	if last < 0 {
		return finding{"M14.4", "a Machine that has failed is deleted, and its owner has no round"}
	}
	rounds := seen[last]
	if machine.Created.After(rounds.Last) {
		return finding{"M14.3", "a Machine is deleted that was made after the last round of its owner"}
	}
	due := machine.Created.Add(j.backOff.delay(rounds.Count - 1))
	return check("M14.2", b.at.Before(due), "a Machine made at %s is deleted in round %d", machine.Created.UTC().Format(time.TimeOnly), rounds.Count)
}
