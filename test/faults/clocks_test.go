// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// By how much the clock of the controller is ahead of all others, or behind them. A clock
// that is behind by a minute takes leases for such from the future (14.3).
const (
	ahead  = 4 * time.Minute
	behind = -50 * time.Second
	// tooFarAhead is more than the controller makes up for.
	tooFarAhead = 10 * time.Minute
)

// otherwise returns the clock that is wrong in the other direction.
func otherwise(off time.Duration) time.Duration { return ahead + behind - off }

// TestClocks has the clock of the controller be far from all others, in both directions.
// Nothing may begin or end sooner because of it; with a clock that is behind it is late.
func TestClocks(t *testing.T) {
	if !*longForm {
		t.Skip("the short form does not wait until the controller is built with another clock")
	}
	executable := buildClock(t)
	parts := []struct {
		name string
		test func(w *world, off time.Duration)
		// onlyAhead leaves out the clock that is behind: it would take too long.
		onlyAhead bool
	}{
		{"healthy", (*world).testHealthyByClock, false},
		{"young", (*world).testYoungByClock, true},
		{"load", (*world).testLoadByClock, false},
		{"storm", (*world).testStormByClock, false},
		{"step", (*world).testStepByClock, true},
		{"lease", (*world).testLeaseByClock, false},
		{"handover", (*world).testHandoverByClock, false},
	}
	for _, part := range parts {
		for name, off := range map[string]time.Duration{"ahead": ahead, "behind": behind} {
			if part.onlyAhead && off < 0 {
				continue
			}
			t.Run(part.name+"/"+name, func(t *testing.T) {
				forEachSeed(t, func(t *testing.T, seed uint64) {
					w := newWorld(t, seed)
					w.executable = executable
					part.test(w, off)
				})
			})
		}
	}
	t.Run("too far ahead", func(t *testing.T) {
		forEachSeed(t, func(t *testing.T, seed uint64) {
			w := newWorld(t, seed)
			w.executable = executable
			w.testUntrustedClock()
		})
	})
	t.Run("set", func(t *testing.T) {
		forEachSeed(t, func(t *testing.T, seed uint64) {
			w := newWorld(t, seed)
			w.executable = executable
			w.testSetClock()
		})
	})
	t.Run("replicas", func(t *testing.T) {
		forEachSeed(t, func(t *testing.T, seed uint64) {
			w := newWorld(t, seed)
			w.executable = executable
			w.testReplicasByClock()
		})
	})
}

// setClock has those that are started from now on be ahead of all others, and returns their
// clock.
func (w *world) setClock(off time.Duration) clock {
	w.t.Helper()
	c := newClock(w.t)
	c.set(w.t, off)
	w.env = []string{clockEnv + "=" + string(c)}
	return c
}

// startAhead starts a controller with a clock that is ahead, and makes sure that it is.
func (w *world) startAhead(off time.Duration) *localkube.Process {
	w.t.Helper()
	process, _ := w.startByClock(off)
	return process
}

// startByClock does the same and returns the clock as well.
func (w *world) startByClock(off time.Duration) (*localkube.Process, clock) {
	w.t.Helper()
	c := w.setClock(off)
	name := w.processName("ahead")
	if off < 0 {
		name = w.processName("behind")
	}
	process := w.start(name, nil, shortLease...)
	w.eventually(name+" leads", func() bool {
		lease, err := w.kube.CoordinationV1().Leases(deploy.Namespace).Get(w.t.Context(), deploy.LeaderLease, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || !strings.HasPrefix(*lease.Spec.HolderIdentity, name+"_") {
			return false
		}
		wrong := time.Until(lease.Spec.RenewTime.Time) - off
		require.Less(w.t, wrong.Abs(), 20*time.Second, "the clock of the controller")
		return true
	})
	return process, c
}

// byAnyClock are NodeHealthChecks whose steps end by what remediators say alone.
func byAnyClock() []*v1alpha1.NodeHealthCheck {
	return []*v1alpha1.NodeHealthCheck{
		newNHC("classic", pools[:1], withMinHealthy("51%")),
		newNHC("ladder", pools[1:2], laddered, withTimeouts(time.Hour), withMaxUnhealthy("70%")),
		newNHC("delayed", pools[2:], withTemplate(templates[3]), withMinHealthy("40%"), withDelay(4*time.Second)),
	}
}

func withTimeouts(d time.Duration) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) {
		for i := range spec.EscalatingRemediations {
			spec.EscalatingRemediations[i].Timeout.Duration = d
		}
	}
}

// failLongAgo has a node fail as of long ago.
func (w *world) failLongAgo(i int) {
	w.t.Helper()
	require.NoError(w.t, w.setReady(w.t.Context(), nodeName(i), "False", longAgo()))
}

// testHealthyByClock has nodes that are healthy, or have an hour to become so, and that
// changed long ago, now and in the future.
func (w *world) testHealthyByClock(off time.Duration) {
	w.startAhead(off)
	w.createNodes(18)
	patient := newNHC("patient", pools, laddered)
	patient.Spec.UnhealthyConditions = unhealthyAfter(time.Hour)
	w.createNHCs(patient)
	for range 3 {
		for i := range 18 {
			switch i % 6 {
			case 1:
				require.NoError(w.t, w.setReady(w.t.Context(), nodeName(i), "True", time.Now()))
			case 2:
				require.NoError(w.t, w.setReady(w.t.Context(), nodeName(i), "True", time.Now().Add(2*ahead)))
			case 3:
				w.fail(i)
			case 4:
				require.NoError(w.t, w.setReady(w.t.Context(), nodeName(i), "Unknown", time.Now().Add(2*ahead)))
			}
		}
		time.Sleep(outOfSight)
	}
	w.requireSettled()
	require.Zero(w.t, w.referee.Figures().Creations, "7.3: nothing is unhealthy by any clock")
}

// testLoadByClock has nodes that have failed long ago.
func (w *world) testLoadByClock(off time.Duration) {
	w.startAhead(off)
	const n = 36
	w.createNodes(n)
	w.createNHCs(append(byAnyClock(), newNHC("overlapping", pools[:2], withTemplate(templates[2]), withMinHealthy("30%")))...)
	l := &load{w: w, nodes: n, gap: 10 * time.Millisecond, only: onNodes, past: true}
	l.run(w.t.Context(), 20*time.Second)
	w.requireSettled()
	w.requireSeen(20, 10)
}

// testStormByClock has a storm that is to be calm for a while.
func (w *world) testStormByClock(off time.Duration) {
	w.startAhead(off)
	w.createNodes(9)
	const cooldown = 6 * time.Second
	w.createNHCs(newNHC("stormy", pools, withMinHealthy("70%"), func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.StormCooldownDuration = &metav1.Duration{Duration: cooldown}
	}))
	active := func() bool {
		nhc, err := w.nhc.RemediationV1alpha1().NodeHealthChecks().Get(w.t.Context(), "stormy", metav1.GetOptions{})
		require.NoError(w.t, err)
		return meta.IsStatusConditionTrue(nhc.Status.Conditions, v1alpha1.ConditionStormActive)
	}
	time.Sleep(outOfSight)
	w.staff.rest(true)
	for i := range 9 {
		w.failLongAgo(i)
	}
	w.eventually("a storm", active)
	w.staff.rest(false)
	healed := time.Now()
	w.healAll()
	w.eventually("the end of the storm", func() bool { return !active() })
	// A start is cut to whole seconds.
	require.GreaterOrEqual(w.t, time.Since(healed), cooldown-time.Second, "9.5: it has to be calm for the whole time")
	w.requireSettled()
}

// testStepByClock has a step that ends by its timeout.
func (w *world) testStepByClock(off time.Duration) {
	w.startAhead(off)
	w.staff.rest(true)
	const i = 4
	w.createNodes(i + 1)
	w.createNHCs(newNHC("ladder", pools, laddered))
	w.failLongAgo(i)
	first := w.eventuallyCR(kindNames[0], nodeName(i))
	second := w.eventuallyCR(kindNames[1], nodeName(i))
	w.requireCreatedLater(second, first.GetCreationTimestamp().Time, time.Minute, "13.3: a step has its time")
}

// requireCreatedLater requires that a CR was created so long after an instant at least,
// and that all ends well.
func (w *world) requireCreatedLater(cr *unstructured.Unstructured, than time.Time, by time.Duration, rule string) {
	w.t.Helper()
	created := cr.GetCreationTimestamp()
	require.GreaterOrEqual(w.t, created.Sub(than.Truncate(time.Second)), by, rule)
	w.requireOrder()
	w.staff.rest(false)
	w.requireSettled()
}

// testLeaseByClock has another operator, whose clock is right, hold the lease of a node.
func (w *world) testLeaseByClock(off time.Duration) {
	w.startAhead(off)
	w.staff.rest(true)
	const i = 4
	w.createNodes(i + 1)
	w.createNHCs(newNHC("classic", pools))
	const held = 15 * time.Second
	taken := time.Now()
	require.NoError(w.t, w.takeLease(w.t.Context(), nodeName(i), held))
	w.failLongAgo(i)
	if off < 0 { // It respects the lease for longer.
		time.Sleep(held)
		require.Empty(w.t, w.crsFor(i), "14.3: a lease is respected as long as it is valid")
		require.NoError(w.t, w.kube.CoordinationV1().Leases("medik8s-leases").Delete(w.t.Context(), "node-"+nodeName(i), metav1.DeleteOptions{}))
	}
	w.requireCreatedLater(w.eventuallyCR(kindNames[2], nodeName(i)), taken, held, "14.3: a lease is respected as long as it is valid")
}

// testYoungByClock has nodes fail that are to be unhealthy after a while.
func (w *world) testYoungByClock(off time.Duration) {
	w.startAhead(off)
	const n, patience = 6, 15 * time.Second
	w.createNodes(n)
	patient := newNHC("patient", pools)
	patient.Spec.UnhealthyConditions = unhealthyAfter(patience)
	w.createNHCs(patient)
	w.staff.rest(true)
	failed := time.Now()
	for i := range n {
		w.fail(i)
	}
	w.requireCreatedLater(w.eventuallyCR(kindNames[2], nodeName(n-1)), failed, patience, "7.3: a condition has to last")
}

// testHandoverByClock has a controller go on with what another one has begun whose clock
// was far from its own.
func (w *world) testHandoverByClock(off time.Duration) {
	before := w.startAhead(off)
	w.staff.rest(true)
	const contested = 4
	w.createNodes(contested + 1)
	w.createNHCs(newNHC("one", pools), newNHC("other", pools, withTemplate(templates[3])))
	w.failLongAgo(contested)
	w.eventually("a CR of one of both", func() bool { return len(w.crsFor(contested)) > 0 })
	w.referee.Fault("the controller is killed, another one with another clock is started")
	require.NoError(w.t, before.Kill())
	w.startAhead(otherwise(off))
	time.Sleep(outOfAnySight)
	require.Len(w.t, w.crsFor(contested), 1, "11.5: who remediates a node goes on")
	w.requireOrder()
	w.staff.rest(false)
	w.requireSettled()
}

// testSetClock has the clock be set while nodes fail: neither a jump nor the way back ends a
// duration sooner.
func (w *world) testSetClock() {
	_, clock := w.startByClock(0)
	w.staff.rest(true)
	const n, lasting = 6, 15 * time.Second
	w.createNodes(n)
	patient := newNHC("patient", pools)
	patient.Spec.UnhealthyConditions = unhealthyAfter(lasting)
	w.createNHCs(patient)
	for j, off := range []time.Duration{ahead, behind, 0} {
		i := len(pools) + j // The first ones are of the control plane.
		failed := time.Now()
		w.fail(i)
		time.Sleep(time.Second)
		w.referee.Fault("the clock is ahead by %v", off)
		clock.set(w.t, off)
		cr := w.eventuallyCR(kindNames[2], nodeName(i))
		created := cr.GetCreationTimestamp()
		require.GreaterOrEqual(w.t, created.Sub(failed.Truncate(time.Second)), lasting, "7.3: a condition has to last")
		w.requireOrder()
	}
	w.staff.rest(false)
	w.requireSettled()
}

// testUntrustedClock has nodes that have failed long ago by any clock.
func (w *world) testUntrustedClock() {
	w.startAhead(tooFarAhead)
	const n = 6
	w.createNodes(n)
	w.createNHCs(byAnyClock()...)
	for i := range n {
		w.failLongAgo(i)
	}
	time.Sleep(outOfSight)
	require.Zero(w.t, w.referee.Figures().Creations, "nothing begins by such a clock")
	w.healAll()
}

// crsFor returns the CRs for a node.
func (w *world) crsFor(i int) []string {
	w.t.Helper()
	var found []string
	for _, kind := range kindNames {
		for _, cr := range w.crs(kind) {
			if cr.GetAnnotations()[v1alpha1.AnnotationNodeName] == nodeName(i) {
				found = append(found, kind+" "+cr.GetName())
			}
		}
	}
	return found
}

// testReplicasByClock has replicas whose clocks are apart, of which the leader is killed
// until each of them has led.
func (w *world) testReplicasByClock() {
	r := &replicas{w: w, running: map[string]*replica{}, clocks: []time.Duration{behind, 0, ahead}}
	r.follow()
	for range r.clocks {
		r.start()
	}
	const n = 36
	w.createNodes(n)
	w.createNHCs(byAnyClock()...)
	l := &load{w: w, nodes: n, gap: 10 * time.Millisecond, only: onNodes, past: true}
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx, time.Hour) })
	for range len(r.clocks) - 1 {
		leader := r.eventuallyLeader("")
		time.Sleep(3 * time.Second) // Let it work.
		w.referee.Fault("leader %s is killed", leader.name)
		require.NoError(w.t, leader.process.Kill())
		r.mu.Lock()
		delete(r.running, leader.name)
		r.mu.Unlock()
		r.eventuallyLeader(leader.name)
	}
	time.Sleep(3 * time.Second)
	cancel()
	wg.Wait()
	w.requireSettled()
	w.requireSeen(20, 10)
	r.requireOneWriter()
}

// setClock has the replica of this name be ahead. It is to be started yet.
func (r *replicas) setClock(name string, off time.Duration) {
	r.w.setClock(off)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ahead == nil {
		r.ahead = map[string]time.Duration{}
	}
	r.ahead[name] = off
}
