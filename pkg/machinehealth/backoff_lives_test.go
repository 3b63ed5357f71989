// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// machineSet is an owner that keeps some Machines, in fake time.
type machineSet struct {
	now      time.Time
	made     int
	machines map[string]*instance
	policy   *Policy
}

// instance is a Machine, and what its provider makes of it.
type instance struct {
	*Machine
	fails time.Time // Zero if never.
	joins time.Time // Zero if never.
}

// add makes a Machine that fails or joins so long after its creation; zero means never.
func (s *machineSet) add(fails, joins time.Duration) {
	s.made++
	m := &instance{Machine: machine(fmt.Sprintf("m-%03d", s.made), noNode, createdAt(s.now.Truncate(time.Second)), func(m *Machine) { m.Phase = "Provisioning" })}
	if fails != 0 {
		m.fails = m.CreationTimestamp.Add(fails)
	}
	if joins != 0 {
		m.joins = m.CreationTimestamp.Add(joins)
	}
	s.machines[m.Name] = m
}

// observed are the Machines as they are now.
func (s *machineSet) observed() (all []Observed) {
	for _, m := range s.machines {
		o := Observed{Machine: m.DeepCopyObject().(*Machine)}
		if !m.fails.IsZero() && !s.now.Before(m.fails) {
			o.Machine.Phase = phaseFailed
		} else if !m.joins.IsZero() && !s.now.Before(m.joins) {
			o.Machine.Node, o.NodeState = m.Name, NodeExists
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Observed) int { return strings.Compare(a.Machine.Name, b.Machine.Name) })
	return all
}

// sync is a sync whose deletions are all accepted. It returns how many there were.
func (s *machineSet) sync() (deleted int) {
	noLease := func(string) *coordinationv1.Lease { return nil }
	seen := func(*corev1.Node) []health.Sighting { return nil }
	targets := s.policy.Evaluate(&Input{Observed: s.observed(), Seen: seen, Lease: noLease}, s.now)
	var results []TargetResult
	for _, plan := range NewPlans(s.policy, targets, s.now) {
		result := TargetResult{Plan: &plan, Outcome: &remediation.Outcome{}}
		if plan.Creates() {
			delete(s.machines, plan.Target.Machine.Name)
			result.Outcome.Result = remediation.Requested
			deleted++
		}
		results = append(results, result)
	}
	s.policy.CountRounds(results, s.now)
	return deleted
}

// rounds are those that the owner has had.
func (s *machineSet) rounds() int32 {
	return s.policy.Rounds.of(machine("m"), s.policy.BackOff, s.now).Count
}

func newMachineSet() *machineSet {
	all := func(p *Policy) { p.Criteria.MaxUnhealthy = intstr.FromString("100%") }
	return &machineSet{now: epoch, machines: map[string]*instance{}, policy: policy(all)}
}

// TestLivesOfMachines has the lives of M14.5, and what M14.6 says about the autoscaler.
func TestLivesOfMachines(t *testing.T) {
	t.Parallel()
	clock := func(minutes, seconds int) time.Duration {
		return time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second
	}
	for name, tc := range map[string]struct {
		fails time.Duration
		ends  []time.Duration
	}{
		"M14.5 A, too cheap a bid":  {fails: 30 * time.Second, ends: []time.Duration{clock(0, 30), clock(5, 30), clock(15, 30), clock(35, 30)}},
		"M14.5 B, a key is missing": {fails: 2 * time.Minute, ends: []time.Duration{clock(2, 0), clock(7, 0), clock(17, 0), clock(37, 0)}},
		"M14.5 C, it never joins":   {ends: []time.Duration{clock(10, 0), clock(20, 0), clock(30, 0), clock(50, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newMachineSet()
			s.add(tc.fails, 0)
			var ends []time.Duration
			for s.now.Before(epoch.Add(time.Hour)) && len(ends) < len(tc.ends) {
				if s.sync() > 0 {
					ends = append(ends, s.now.Sub(epoch))
					s.add(tc.fails, 0)
				}
				s.now = s.now.Add(time.Second)
			}
			require.Equal(t, tc.ends, ends)
			require.Greater(t, ends[3]-ends[2], 15*time.Minute+2*time.Minute+10*time.Second, "M14.5: the fourth lives for longer than the autoscaler waits")
		})
	}
}

// TestBackOffOfTen: ten that were made together go together, however late some of them fail (spec
// M14.3), and so do those that follow.
func TestBackOffOfTen(t *testing.T) {
	t.Parallel()
	s := newMachineSet()
	for range 7 {
		s.add(30*time.Second, 0)
	}
	for range 3 {
		s.add(4*time.Minute, 0)
	}
	s.now = epoch.Add(30 * time.Second)
	require.Equal(t, 7, s.sync())
	require.Equal(t, int32(1), s.rounds())
	s.now = epoch.Add(4 * time.Minute)
	require.Equal(t, 3, s.sync(), "M14.3: however late they fail")
	require.Equal(t, int32(1), s.rounds(), "M14.3: it is one round")

	for range 10 {
		s.add(time.Second, 0)
	}
	s.now = epoch.Add(9*time.Minute - time.Second)
	require.Zero(t, s.sync(), "M14.2")
	s.now = s.now.Add(time.Second)
	require.Equal(t, 10, s.sync())
	require.Equal(t, int32(2), s.rounds())
}

// TestBackOffEnds: a healthy replacement has the owner begin anew (spec M14.3).
func TestBackOffEnds(t *testing.T) {
	t.Parallel()
	s := newMachineSet()
	s.add(0, time.Second)
	s.add(10*time.Second, 0)
	s.now = epoch.Add(10 * time.Second)
	require.Equal(t, 1, s.sync())
	s.add(0, time.Minute)
	s.sync()
	require.EqualValues(t, 1, s.rounds(), "M14.3: a healthy one of before is no sign")
	s.now = s.now.Add(time.Minute)
	s.sync()
	require.Zero(t, s.rounds())
	s.add(time.Second, 0)
	s.now = s.now.Add(time.Second)
	require.Equal(t, 1, s.sync(), "at once")
}
