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
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// beyondTolerance is longer than what the controller may not have seen in quiet times: what
// it does then, it knows better.
var beyondTolerance = rules.Quiet.Cache + time.Second

// beyondSync is the same for what only a sync reports. The judge does not see when that sync began.
var beyondSync = beyondTolerance + rules.Quiet.Sync

// By how much the clock of the controller is ahead of all others, so that nothing begins by it (23d.2), or behind
// them. A clock that is behind by a minute takes leases for such from the future (14.3).
const (
	ahead  = 4 * time.Minute
	behind = -50 * time.Second
)

// TestClocks has the clock of the controller be far from all others, in both directions.
// Nothing may begin or end sooner because of it; with a clock that is behind it is late.
func TestClocks(t *testing.T) {
	if !*longForm {
		t.Skip("the short form does not wait until the controller is built with another clock")
	}
	executable := buildClock(t)
	for name, test := range map[string]func(*environment){
		"behind, and nodes are healthy":  (*environment).testHealthyByClock,
		"behind, under load":             (*environment).testLoadByClock,
		"behind, in a storm":             (*environment).testStormByClock,
		"behind the holder of a lease":   (*environment).testLeaseByClock,
		"behind the next controller":     (*environment).testHandoverByClock,
		"ahead":                          (*environment).testUntrustedClock,
		"set":                            (*environment).testSetClock,
		"each replica has another clock": (*environment).testReplicasByClock,
	} {
		t.Run(name, func(t *testing.T) {
			forEachSeed(t, func(t *testing.T, seed uint64) {
				e := newEnvironment(t, seed)
				e.executable = executable
				test(e)
			})
		})
	}
}

// setClock has those that are started from now on be ahead of all others, and returns their
// clock.
func (e *environment) setClock(off time.Duration) clock {
	e.t.Helper()
	c := newClock(e.t)
	c.set(e.t, off)
	e.env = []string{clockEnv + "=" + string(c)}
	return c
}

// startByClock starts a controller with a clock that is ahead, or behind, and makes sure that it is.
func (e *environment) startByClock(off time.Duration) (*localkube.Process, clock) {
	e.t.Helper()
	c := e.setClock(off)
	name := e.processName("right")
	switch {
	case off < 0:
		name = e.processName("behind")
	case off > 0:
		name = e.processName("ahead")
	}
	process := e.start(name, nil, shortLease...)
	patience.Eventually(e.t, name+" leads", func() bool {
		lease, err := e.kube.CoordinationV1().Leases(deploy.Namespace).Get(e.t.Context(), deploy.LeaderLease, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || !strings.HasPrefix(*lease.Spec.HolderIdentity, name+"_") {
			return false
		}
		wrong := time.Until(lease.Spec.RenewTime.Time) - off
		require.Less(e.t, wrong.Abs(), 20*time.Second, "the clock of the controller")
		return true
	})
	return process, c
}

// byAnyClock are NodeHealthChecks whose steps only end by reports of remediators.
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

// failLongAgo has a node fail, and says that it failed long ago.
func (e *environment) failLongAgo(i int) {
	e.t.Helper()
	require.NoError(e.t, e.setReady(e.t.Context(), nodeName(i), "False", longAgo()))
}

// testHealthyByClock has nodes that are healthy, or have an hour to become so, and that
// changed long ago, now and in the future.
func (e *environment) testHealthyByClock() {
	e.startByClock(behind)
	e.createNodes(18)
	waiting := newNHC("waiting", pools, laddered)
	waiting.Spec.UnhealthyConditions = unhealthyAfter(time.Hour)
	e.createNHCs(waiting)
	for range 3 {
		for i := range 18 {
			switch i % 6 {
			case 1:
				require.NoError(e.t, e.setReady(e.t.Context(), nodeName(i), "True", time.Now()))
			case 2:
				require.NoError(e.t, e.setReady(e.t.Context(), nodeName(i), "True", time.Now().Add(2*ahead)))
			case 3:
				e.fail(i)
			case 4:
				require.NoError(e.t, e.setReady(e.t.Context(), nodeName(i), "Unknown", time.Now().Add(2*ahead)))
			}
		}
		time.Sleep(beyondTolerance)
	}
	e.requireSettled()
	require.Zero(e.t, e.referee.Figures().Creations, "7.3: nothing is unhealthy by any clock")
}

// testLoadByClock has nodes that have failed long ago.
func (e *environment) testLoadByClock() {
	e.startByClock(behind)
	const n = 36
	e.createNodes(n)
	time.Sleep(-behind) // Nothing lasts for longer than its Node, which is in the future until then (7.2).
	e.createNHCs(append(byAnyClock(), newNHC("overlapping", pools[:2], withTemplate(templates[2]), withMinHealthy("30%")))...)
	l := &load{e: e, nodes: n, gap: 10 * time.Millisecond, only: onNodes, past: true}
	l.run(e.t.Context(), 20*time.Second)
	e.requireSettled()
	e.requireSeen(20, 10)
}

// testStormByClock has a storm that is to be calm for a while.
func (e *environment) testStormByClock() {
	e.startByClock(behind)
	e.createNodes(9)
	const cooldown = 6 * time.Second
	e.createNHCs(newNHC("stormy", pools, withMinHealthy("70%"), func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.StormCooldownDuration = &metav1.Duration{Duration: cooldown}
	}))
	active := func() bool {
		nhc, err := e.nhc.RemediationV1alpha1().NodeHealthChecks().Get(e.t.Context(), "stormy", metav1.GetOptions{})
		require.NoError(e.t, err)
		return meta.IsStatusConditionTrue(nhc.Status.Conditions, v1alpha1.ConditionStormActive)
	}
	time.Sleep(beyondTolerance)
	e.remediators.rest(true)
	for i := range 9 {
		e.failLongAgo(i)
	}
	patience.Eventually(e.t, "a storm", active)
	e.remediators.rest(false)
	healed := time.Now()
	e.healAll()
	patience.Eventually(e.t, "the end of the storm", func() bool { return !active() })
	// A start is cut to whole seconds.
	require.GreaterOrEqual(e.t, time.Since(healed), cooldown-time.Second, "9.5: it has to be calm for the whole time")
	e.requireSettled()
}

// requireCreatedLater requires that a CR was created so long after an instant at least,
// and that all ends well.
func (e *environment) requireCreatedLater(cr *unstructured.Unstructured, than time.Time, by time.Duration, rule string) {
	e.t.Helper()
	created := cr.GetCreationTimestamp()
	require.GreaterOrEqual(e.t, created.Sub(than.Truncate(time.Second)), by, rule)
	e.requireOrder()
	e.remediators.rest(false)
	e.requireSettled()
}

// testLeaseByClock has another operator, whose clock is right, hold the lease of a node.
func (e *environment) testLeaseByClock() {
	e.startByClock(behind)
	e.remediators.rest(true)
	const i = 4
	e.createNodes(i + 1)
	e.createNHCs(newNHC("classic", pools))
	const held = 15 * time.Second
	taken := time.Now()
	require.NoError(e.t, e.takeLease(e.t.Context(), nodeName(i), held))
	e.failLongAgo(i)
	time.Sleep(held) // It respects the lease for longer.
	require.Empty(e.t, e.crsFor(i), "14.3: a lease is respected as long as it is valid")
	require.NoError(e.t, e.kube.CoordinationV1().Leases("medik8s-leases").Delete(e.t.Context(), "node-"+nodeName(i), metav1.DeleteOptions{}))
	e.requireCreatedLater(e.eventuallyCR(kindNames[2], nodeName(i)), taken, held, "14.3: a lease is respected as long as it is valid")
}

// testHandoverByClock has a controller go on with what another one has begun whose clock
// was far from its own.
func (e *environment) testHandoverByClock() {
	before, _ := e.startByClock(behind)
	e.remediators.rest(true)
	const contested = 4
	e.createNodes(contested + 1)
	e.createNHCs(newNHC("one", pools), newNHC("other", pools, withTemplate(templates[3])))
	e.failLongAgo(contested)
	patience.Eventually(e.t, "a CR of one of both", func() bool { return len(e.crsFor(contested)) > 0 })
	e.referee.Fault("the controller is killed, another one with another clock is started")
	require.NoError(e.t, before.Kill())
	e.startByClock(0)
	time.Sleep(beyondSync)
	require.Len(e.t, e.crsFor(contested), 1, "11.5: who remediates a node goes on")
	e.requireOrder()
	e.remediators.rest(false)
	e.requireSettled()
}

// testSetClock has the clock be set while nodes fail: nothing begins by a clock that is ahead, and the way back
// ends no duration sooner.
func (e *environment) testSetClock() {
	_, clock := e.startByClock(0)
	e.remediators.rest(true)
	const i, lasting = 4, 15 * time.Second
	e.createNodes(i + 1)
	waiting := newNHC("waiting", pools)
	waiting.Spec.UnhealthyConditions = unhealthyAfter(lasting)
	e.createNHCs(waiting)
	failed := time.Now()
	e.fail(i)
	time.Sleep(time.Second)
	e.referee.Fault("the clock is ahead by %v", ahead)
	clock.set(e.t, ahead)
	time.Sleep(lasting)
	require.Empty(e.t, e.crsFor(i), "23d.2: nothing begins")
	clock.set(e.t, 0)
	e.requireCreatedLater(e.eventuallyCR(kindNames[2], nodeName(i)), failed, lasting, "7.3: a condition has to last")
}

// testUntrustedClock has nodes that have failed long ago by any clock.
func (e *environment) testUntrustedClock() {
	e.startByClock(ahead)
	const n = 6
	e.createNodes(n)
	e.createNHCs(byAnyClock()...)
	for i := range n {
		e.failLongAgo(i)
	}
	time.Sleep(beyondTolerance)
	require.Zero(e.t, e.referee.Figures().Creations, "nothing begins by such a clock")
	e.healAll()
}

// crsFor returns the CRs for a node.
func (e *environment) crsFor(i int) []string {
	e.t.Helper()
	var found []string
	for _, kind := range kindNames {
		for _, cr := range e.crs(kind) {
			if cr.GetAnnotations()[v1alpha1.AnnotationNodeName] == nodeName(i) {
				found = append(found, kind+" "+cr.GetName())
			}
		}
	}
	return found
}

// testReplicasByClock has replicas whose clocks are apart. It kills the leader until each
// replica has led.
func (e *environment) testReplicasByClock() {
	r := &replicas{e: e, running: map[string]*replica{}, clocks: []time.Duration{behind, 0, behind / 2}}
	r.follow()
	for range r.clocks {
		r.start()
	}
	const n = 36
	e.createNodes(n)
	e.createNHCs(byAnyClock()...)
	l := &load{e: e, nodes: n, gap: 10 * time.Millisecond, only: onNodes, past: true}
	ctx, cancel := context.WithCancel(e.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx, time.Hour) })
	for range len(r.clocks) - 1 {
		leader := r.eventuallyLeader("")
		time.Sleep(3 * time.Second) // Let it work.
		r.killLeader(leader)
		r.eventuallyLeader(leader.name)
	}
	time.Sleep(3 * time.Second)
	cancel()
	wg.Wait()
	e.requireSettled()
	e.requireSeen(20, 10)
	r.requireOneWriter()
}

// setClock has the replica of this name be ahead. It is to be started yet.
func (r *replicas) setClock(name string, off time.Duration) {
	r.e.setClock(off)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ahead == nil {
		r.ahead = map[string]time.Duration{}
	}
	r.ahead[name] = off
}

// eventuallyCR waits until there is a CR of a kind for a node.
func (e *environment) eventuallyCR(kind, node string) *unstructured.Unstructured {
	e.t.Helper()
	var found *unstructured.Unstructured
	patience.Eventually(e.t, "a "+kind+" for node "+node, func() bool {
		list, err := e.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).List(e.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range list.Items {
			if list.Items[i].GetAnnotations()[v1alpha1.AnnotationNodeName] == node {
				found = &list.Items[i]
			}
		}
		return found != nil
	})
	return found
}

// crs returns the CRs of a kind.
func (e *environment) crs(kind string) []*unstructured.Unstructured {
	e.t.Helper()
	list, err := e.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	crs := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		crs = append(crs, &list.Items[i])
	}
	return crs
}
