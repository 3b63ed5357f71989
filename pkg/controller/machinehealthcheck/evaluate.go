// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// evaluate judges a snapshot at the instant now, and adds its targets with everything that decisions about them
// depend on.
func (c *Controller) evaluate(s *snapshot, now time.Time) {
	s.targets = s.policy.Evaluate(c.input(s), now)
	before := s.state.vanished
	s.state.vanished = map[string]time.Time{}
	for i := range s.targets {
		t := &s.targets[i]
		if t.SetVanished(before[t.Machine.Name], now); !t.Vanished.IsZero() {
			s.state.vanished[t.Machine.Name] = t.Vanished
		}
		attempt := s.state.attempts.Of(t.Machine.Name)
		t.RetryAt, t.LastFailure, t.LastFailed = attempt.Due, attempt.Failure, attempt.Reason
	}
	c.observeOthers(s)
	s.observeHeldLeases()
}

// input returns what the evaluation depends on.
func (c *Controller) input(s *snapshot) *machinehealth.Input {
	held := sets.New[string]()
	for _, lease := range s.held {
		held.Insert(lease.Name)
	}
	return &machinehealth.Input{
		Observed: s.observed, Ignored: s.ignored, Incomplete: s.incomplete, Seen: c.Sightings.Of, Lease: c.LeaseFor,
		Held: held, DeletionRequested: s.state.deletionRequested, Entries: s.state.entries, History: *s.state.history.Load(),
	}
}

// healthy reports whether a Machine is selected and healthy.
func (s *snapshot) healthy(name string) bool {
	byName := func(machine *machinehealth.Machine) int { return strings.Compare(machine.Name, name) }
	if i, found := slices.BinarySearchFunc(s.targets, name, func(t machinehealth.Target, _ string) int { return byName(t.Machine) }); found {
		return !s.targets[i].Unselected && s.targets[i].Verdict.State == machinehealth.Healthy
	}
	i, found := slices.BinarySearchFunc(s.observed, name, func(o machinehealth.Observed, _ string) int { return byName(o.Machine) })
	return found && !s.observed[i].Unselected // A selected Machine that is no target has nothing to decide.
}
