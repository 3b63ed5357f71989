// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// BackOff are the delays of deletions (spec M14.1).
type BackOff struct{ Base, Cap time.Duration }

// resetAfter is how many caps after the last round an owner begins anew (spec M14.3).
const resetAfter = 3

// round is the deletion of a Machine that had failed or never joined. It may belong to the round before if the Machine was
// made before that.
type round struct {
	rv      uint64
	at      time.Time
	belongs bool
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

// oldEnough judges that no Machine is deleted younger than the first delay if the controller has deleted one of the same
// owner before it was made (spec M14.2, M14.3), as far as the process knows, and notes the deletion. It concerns
// Machines that have failed or never joined.
func (j *Judge) oldEnough(b beginning, machine *Machine) finding {
	if !machine.Failed() && machine.Node != "" {
		return finding{rule: "M14.2"}
	}
	before := j.rounds[machine.Owner]
	j.rounds[machine.Owner] = append(before, round{b.rv, b.at, len(before) > 0 && !machine.Created.After(before[len(before)-1].at)})
	for _, last := range before {
		lately := b.at.Before(last.at.Add(resetAfter * j.backOff.Cap))
		if !lately || last.belongs || !machine.Created.After(last.at) || j.ledSince(last.at) || j.healthySinceRound(last, machine.Owner, b.window) {
			continue
		}
		if due := machine.Created.Add(j.backOff.Base); b.at.Before(due) {
			return finding{"M14.2", "a Machine made at " + machine.Created.UTC().Format(time.TimeOnly) + " is deleted, and one of its owner was deleted at " + last.at.UTC().Format(time.TimeOnly)}
		}
	}
	return finding{rule: "M14.2"}
}

// healthySinceRound reports whether a Machine may have been healthy that its owner has made since a round.
func (j *Judge) healthySinceRound(last round, owner types.UID, w window) bool {
	w.known = last.at
	for _, versions := range j.machines {
		for _, machine := range versions.during(w.known, w.rv) {
			if machine != nil && machine.Owner == owner && !machine.Created.Before(last.at.Truncate(time.Second)) && j.healthyForSome(machine, w) {
				return true
			}
		}
	}
	return false
}

// mayBackOff reports whether a Machine may have to live for longer (spec M14.2): it has failed or never joined, its owner
// has lost one lately, and it is younger than the longest delay.
func (p *snapshot) mayBackOff(machine *Machine) bool {
	rounds := p.rounds[machine.Owner]
	if len(rounds) == 0 || (!machine.Failed() && machine.Node != "") {
		return false
	}
	end := rounds[len(rounds)-1].at.Add(resetAfter * p.backOff.Cap)
	return p.now.Before(end.Add(longestSync)) && p.now.Before(machine.Created.Add(p.backOff.Cap+longestSync))
}
