// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// machineSet is an owner that keeps some Machines, in fake time. All that outlives a stop of the
// controller is its Machines and the lease.
type machineSet struct {
	t        *testing.T
	now      time.Time
	made     int
	machines map[string]*instance
	lease    *coordinationv1.Lease
	// lives are how long Machines lived, in the order of their ends; delays are what M14.2 demanded.
	lives, delays []time.Duration
	// crash is asked before every action. If it says so, the rest of the plan is lost.
	crash func() bool
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

// judge shows the Machines as they are now, and judges them.
func (s *machineSet) judge(p *Policy) (targets []Target) {
	for _, m := range s.machines {
		shown := m.DeepCopyObject().(*Machine)
		state := NodeUnknown
		if !m.fails.IsZero() && !s.now.Before(m.fails) {
			shown.Phase = phaseFailed
		} else if !m.joins.IsZero() && !s.now.Before(m.joins) {
			shown.Node, state = m.Name, NodeExists
		}
		targets = append(targets, Target{Observed: Observed{Machine: shown}, Verdict: p.Criteria.Judge(shown, state, health.Evidence{}, false, s.now)})
	}
	return targets
}

// sync is a sync of a controller that remembers nothing: it forgets the rounds that are over, and
// carries out the plans. It returns how many Machines were deleted.
func (s *machineSet) sync(p *Policy) (deleted int) {
	targets := s.judge(p)
	var newest time.Time
	for i := range targets {
		if created := targets[i].Machine.CreationTimestamp.Time; targets[i].Verdict.State == Healthy && created.After(newest) {
			newest = created
		}
	}
	if p.BackOff.Over(RoundsOf(s.lease), newest, s.now) {
		s.lease = nil
	}
	for i := range targets {
		targets[i].Rounds = s.lease
	}
	for _, plan := range NewPlans(p, targets, s.now) {
		if s.carryOut(p, &plan) {
			deleted++
		}
	}
	return deleted
}

// carryOut plays the API server: the first of those that write the lease at once wins.
func (s *machineSet) carryOut(p *Policy, plan *Plan) (deleted bool) {
	for _, action := range plan.Actions {
		if s.crash != nil && s.crash() {
			return false
		}
		switch action := action.(type) {
		case remediation.WriteLease:
			if s.lease != plan.Target.Rounds {
				return false // Another plan was faster.
			}
			s.lease = action.Lease
		case remediation.DeleteMachine:
			created := s.machines[action.Machine.Name].CreationTimestamp.Time
			rounds := RoundsOf(plan.Target.Rounds)
			if rounds.belongs(created) {
				rounds.Count--
			}
			s.lives = append(s.lives, s.now.Sub(created))
			s.delays = append(s.delays, p.BackOff.Delay(rounds.Count))
			delete(s.machines, action.Machine.Name)
			deleted = true
		}
	}
	return deleted
}

func newMachineSet(t *testing.T) *machineSet {
	t.Helper()
	return &machineSet{t: t, now: epoch, machines: map[string]*instance{}}
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
			s, p := newMachineSet(t), policy()
			s.add(tc.fails, 0)
			var ends []time.Duration
			for s.now.Before(epoch.Add(time.Hour)) && len(ends) < len(tc.ends) {
				if s.sync(p) > 0 {
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
	s, p := newMachineSet(t), policy()
	for range 7 {
		s.add(30*time.Second, 0)
	}
	for range 3 {
		s.add(4*time.Minute, 0)
	}
	s.now = epoch.Add(30 * time.Second)
	require.Equal(t, 1, s.sync(p), "M14.4: one of them writes the lease")
	require.Equal(t, 6, s.sync(p), "M14.3: the others belong to its round")
	require.Equal(t, int32(1), RoundsOf(s.lease).Count)
	s.now = epoch.Add(4 * time.Minute)
	require.Equal(t, 3, s.sync(p), "M14.3: however late they fail")
	require.Equal(t, int32(1), RoundsOf(s.lease).Count, "M14.3: it is one round")

	for range 10 {
		s.add(time.Second, 0)
	}
	s.now = epoch.Add(9*time.Minute - time.Second)
	require.Zero(t, s.sync(p), "M14.2")
	s.now = s.now.Add(time.Second)
	require.Equal(t, 1, s.sync(p))
	require.Equal(t, 9, s.sync(p))
	require.Equal(t, int32(2), RoundsOf(s.lease).Count)
}

// TestBackOffEnds: a healthy replacement, or time, has the owner begin anew (spec M14.3).
func TestBackOffEnds(t *testing.T) {
	t.Parallel()
	begun := func(t *testing.T) (*machineSet, *Policy) {
		t.Helper()
		s, p := newMachineSet(t), policy()
		s.add(time.Second, 0)
		s.now = epoch.Add(time.Second)
		require.Equal(t, 1, s.sync(p))
		return s, p
	}
	t.Run("M14.3 a healthy replacement", func(t *testing.T) {
		t.Parallel()
		s, p := begun(t)
		s.add(0, time.Minute)
		s.now = s.now.Add(time.Minute)
		s.sync(p)
		require.Nil(t, s.lease, "M14.4: deleted when n = 0")
		s.add(time.Second, 0)
		s.now = s.now.Add(time.Second)
		require.Equal(t, 1, s.sync(p), "at once")
	})
	t.Run("M14.3 a healthy one of before is no sign", func(t *testing.T) {
		t.Parallel()
		s, p := newMachineSet(t), policy()
		s.add(0, time.Second)
		s.add(10*time.Second, 0)
		s.now = epoch.Add(10 * time.Second)
		require.Equal(t, 1, s.sync(p))
		s.sync(p)
		require.NotNil(t, s.lease)
	})
	t.Run("M14.3 three caps", func(t *testing.T) {
		t.Parallel()
		s, p := begun(t)
		s.now = epoch.Add(time.Hour)
		s.sync(p)
		require.NotNil(t, s.lease)
		s.now = s.now.Add(time.Second)
		s.sync(p)
		require.Nil(t, s.lease)
	})
}

// TestBackOffProperties holds for all that providers do, and wherever the controller stops.
func TestBackOffProperties(t *testing.T) {
	t.Parallel()
	for name, crashes := range map[string]int{"M14 without a stop": 0, "M14.4 stopped at any action": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deleted, delayed := 0, 0
			for seed := range uint64(200) {
				random := rand.New(rand.NewPCG(1, seed))
				s, p := newMachineSet(t), policy()
				if crashes > 0 {
					s.crash = func() bool { return random.IntN(crashes) == 0 }
				}
				for s.now.Before(epoch.Add(3 * time.Hour)) {
					for len(s.machines) < 3 {
						fails := time.Duration(1+random.IntN(900)) * time.Second
						if random.IntN(12) == 0 {
							s.add(0, fails)
						} else {
							s.add(fails, 0)
						}
					}
					before := RoundsOf(s.lease).Count
					s.sync(p)
					require.LessOrEqual(t, RoundsOf(s.lease).Count, before+1, "M14.3: a sync begins one round")
					s.now = s.now.Add(time.Duration(1+random.IntN(60)) * time.Second)
				}
				for i := range s.lives {
					require.GreaterOrEqual(t, s.lives[i], s.delays[i], "M14.2: no Machine dies younger than its delay")
					if s.delays[i] > 0 {
						delayed++
					}
				}
				deleted += len(s.lives)
			}
			require.Greater(t, deleted, 1000, "the test itself")
			require.Greater(t, delayed, 1000, "the test itself")
		})
	}
}

// TestBackOffSurvivesStops: with and without stops between the writes, and with another process
// after each, Machines of one owner that fail at once end in the same round (spec M14.4, P8).
func TestBackOffSurvivesStops(t *testing.T) {
	t.Parallel()
	for stop := range 4 { // Before the lease, the last look, the deletion; never.
		t.Run(fmt.Sprintf("M14.4 stopped before action %d", stop), func(t *testing.T) {
			t.Parallel()
			s, p := newMachineSet(t), policy()
			s.add(30*time.Second, 0)
			s.now = epoch.Add(30 * time.Second)
			actions := 0
			s.crash = func() bool { actions++; return actions == stop+1 }
			if s.sync(p) == 0 {
				s.now = s.now.Add(10 * time.Second)
				require.Equal(t, 1, s.sync(p), "the next process deletes it at once")
			}
			require.Equal(t, int32(1), RoundsOf(s.lease).Count, "it is one round")
			s.crash = nil
			s.add(time.Second, 0)
			created := s.now
			for s.sync(p) == 0 {
				s.now = s.now.Add(time.Second)
			}
			require.Equal(t, 5*time.Minute, s.now.Sub(created))
			require.Equal(t, int32(2), RoundsOf(s.lease).Count)
		})
	}
}
