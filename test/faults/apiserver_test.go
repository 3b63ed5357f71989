// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/faultproxy"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// fault is a fault of the API server.
type fault struct {
	name string
	// extra is the additional tolerance of the judge: the controller cannot see more than
	// usual because of the fault.
	extra rules.Tolerance
	// begin begins it, and returns how it ends.
	begin func() (end func())
	// longer is how much longer than others it goes on.
	longer time.Duration
}

// TestAPIServer makes the API server, its etcd and the way to them fail, one fault after
// the other.
func TestAPIServer(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		proxy := e.startProxy("alone")
		e.env = pings()
		e.startAlone(proxy)
		l := e.usualLoad()
		faults := append(e.disruptions(proxy), e.outages(proxy)...)
		e.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for range numberOf(1, 3) {
			for _, fault := range faults {
				end := e.referee.BeginFault(fault.name, fault.extra)
				stop := fault.begin()
				l.run(t.Context(), lasting(700*time.Millisecond, 8*time.Second)+fault.longer)
				stop()
				e.awaitWatches(proxy)
				end()
			}
			e.requireOrder()
		}
		l.runUntilSeen(5)
		e.requireSettled()
		e.requireSeen(5, 3)
		t.Logf("faults injected by the proxy: %v", proxy.Faults())
		if *longForm { // A client that has received nothing since its watch began lists anew instead.
			require.Positive(t, proxy.Faults()[tooOld], "after the compaction")
		}
	})
}

// awaitWatches waits until the controller watches again: after a few failures, client-go waits for up to half a minute.
// Until then its caches are behind.
func (e *environment) awaitWatches(proxy *Proxy) {
	watching := func() bool { return proxy.Watching("nodes", "nodehealthchecks", "leases") }
	if !watching() {
		defer e.referee.BeginFault("there are no watches", rules.Tolerance{Cache: time.Minute})()
		patience.Eventually(e.t, "all watches", watching)
	}
}

// lateBy is how late events are. It is longer than the usual tolerance of the referee, so
// that it notices a decision by late events that could use a live read.
const lateBy = 3 * time.Second

// disruptions are faults on the way to the API server.
func (e *environment) disruptions(proxy *Proxy) []fault {
	disruption := func(name string, extra rules.Tolerance, now Disruption) fault {
		return fault{name: name, extra: extra, begin: func() func() {
			proxy.Set(now)
			return func() { proxy.Set(Disruption{}) }
		}}
	}
	// An answer that comes after an attempt or two makes syncs longer: client-go waits for
	// a second when it is told to.
	retried := rules.Tolerance{Sync: 5 * time.Second}
	late := func(resource string) fault {
		// Only caches are late. The last look at a node is not.
		return disruption("events of "+resource+" are late", rules.Tolerance{Cache: lateBy}, Disruption{Late: map[string]time.Duration{resource: lateBy}})
	}
	lateNodes := late("nodes") // A controller that trusts the cache alone creates CRs for nodes that have recovered.
	lateNodes.longer = lateBy
	once := func(name string, do func()) fault {
		return fault{name: name, extra: rules.Tolerance{Cache: 2 * time.Second}, begin: func() func() { do(); return func() {} }}
	}
	return []fault{
		disruption("errors", retried, Disruption{Refuse: 30, Codes: []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}}),
		disruption("conflicts", retried, Disruption{Refuse: 30, Codes: []int{http.StatusConflict}}),
		disruption("streams are reset", retried, Disruption{Reset: 25}),
		disruption("lost answers", retried, Disruption{Lose: 30}),
		disruption("GOAWAY", retried, Disruption{GoAway: 20}),
		disruption("cut off", rules.Tolerance{Cache: lasting(3*time.Second, 10*time.Second), Sync: 5 * time.Second}, Disruption{Way: faultproxy.Closed}),
		e.halfOpen(proxy),
		lateNodes, late("nodehealthchecks"), late("leases"), late("rebuilds"), late("reboots"),
		once("dropped watches", proxy.DropWatches),
		once("expired watches", proxy.ExpireWatches),
	}
}

// pings returns the environment of a controller that finds out sooner than others that its connection is
// dead. In the long form, it is nil: it takes client-go 45 seconds.
func pings() []string {
	if *longForm {
		return nil
	}
	return []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=2"}
}

// halfOpen has the connection of the controller be silent, while the API server can be reached by a new one. It ends
// when the controller has one: what it waits for on the old one never comes.
func (e *environment) halfOpen(proxy *Proxy) fault {
	found := lasting(4*time.Second, 45*time.Second)
	longest := found + 3*time.Second
	return fault{
		name: "a half-open connection", extra: rules.Tolerance{Cache: longest, LiveRead: longest, Sync: longest}, longer: found,
		begin: func() func() {
			proxy.Set(Disruption{Way: faultproxy.HalfOpen})
			return func() {
				patience.Eventually(e.t, "watches on a new connection", func() bool { return proxy.Watching("nodes", "nodehealthchecks") })
				proxy.Set(Disruption{})
			}
		},
	}
}

// outages are faults of the API server and of etcd themselves.
func (e *environment) outages(proxy *Proxy) []fault {
	longest := lasting(3*time.Second, 10*time.Second)
	// A server that hangs sends nothing, and finishes late what it has received.
	hanging := rules.Tolerance{Cache: longest, LiveRead: longest, Sync: longest}
	hang := func(component string, stop func() (goOn func(), err error)) fault {
		return fault{name: component + " hangs", extra: hanging, begin: func() func() {
			goOn, err := stop()
			require.NoError(e.t, err)
			e.t.Cleanup(goOn)
			return goOn
		}}
	}
	restarting := rules.Tolerance{Cache: 5 * time.Second, LiveRead: time.Second, Sync: 5 * time.Second}
	restart := func(name string, do func(context.Context) error) fault {
		return fault{name: name, extra: restarting, begin: func() func() { return e.meanwhile(name, do) }}
	}
	compacting := rules.Tolerance{Cache: 2 * longest, LiveRead: time.Second, Sync: 5 * time.Second}
	return []fault{
		restart("the API server restarts", e.RestartAPIServer),
		restart("etcd crashes and comes back", e.RestartEtcd),
		{name: "all before is compacted", extra: compacting, begin: func() func() { return e.compact(proxy) }},
		hang("the API server", e.HangAPIServer), hang("etcd", e.HangEtcd),
	}
}

// meanwhile does something while the load goes on.
func (e *environment) meanwhile(what string, do func(context.Context) error) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(e.t.Context(), patience.Limit)
		defer cancel()
		if err := do(ctx); err != nil {
			e.t.Errorf("%s: %v", what, err)
		}
	})
	return wg.Wait
}

// compact ends all watches, and makes the controller wait. When it may go on with them,
// all that it has seen is compacted, and the API server remembers nothing either: every
// watch begins with 410. Had the connection been broken instead, it would list at once.
func (e *environment) compact(proxy *Proxy) (end func()) {
	proxy.Set(Disruption{Refuse: 100, Codes: []int{http.StatusTooManyRequests}})
	proxy.DropWatches()
	return func() {
		defer proxy.Set(Disruption{})
		e.meanwhile("compacting", func(ctx context.Context) error {
			return errors.Join(e.Compact(ctx), e.RestartAPIServer(ctx))
		})()
	}
}
