// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "time"

// due returns when a Machine may be deleted at the earliest that has failed or never joined (spec
// M14.2).
func (p *snapshot) due(machine *Machine) time.Time {
	rounds, delay := p.rounds[string(machine.Owner)].at(p.rv), p.backOff.delay
	switch {
	case rounds == nil:
		return machine.Created
	case machine.Created.Before(rounds.Last.Truncate(time.Second)):
		return machine.Created.Add(delay(rounds.Count - 1)) // It belongs to the round.
	default:
		return machine.Created.Add(delay(rounds.Count))
	}
}
