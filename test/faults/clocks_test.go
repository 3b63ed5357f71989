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
