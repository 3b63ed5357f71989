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

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// trouble is a fault of the API server.
type trouble struct {
	name string
	// extra is what the controller cannot see because of it, beyond what is so anyway.
	extra rules.Tolerance
	// begin begins it, and returns how it ends.
	begin func() (end func())
	// longer is how much longer than others it goes on.
	longer time.Duration
}

// TestAPIServer has the API server, its etcd and the way to them fail, one fault after
// the other.
func TestAPIServer(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		proxy := w.startProxy("alone")
		w.startAlone(proxy)
		l := w.usualLoad()
		troubles := append(w.weathers(proxy), w.outages(proxy)...)
		w.random.Shuffle(len(troubles), func(i, j int) { troubles[i], troubles[j] = troubles[j], troubles[i] })
		for range numberOf(1, 3) {
			for _, trouble := range troubles {
				end := w.referee.BeginFault(trouble.name, trouble.extra)
				stop := trouble.begin()
				l.run(t.Context(), lasting(700*time.Millisecond, 8*time.Second)+trouble.longer)
				stop()
				end()
			}
			w.requireOrder()
		}
		w.requireSettled()
		w.requireSeen(5, 3)
		t.Logf("faults injected by the proxy: %v", proxy.Faults())
		if *longForm { // Whoever has received nothing since its watch began lists anew instead.
			require.Positive(t, proxy.Faults()[tooOld], "after the compaction")
		}
	})
}

// lateBy is how late events are. It is longer than what the referee tolerates anyway, so
// that a decision by what is late, and need not be, is noticed.
const lateBy = 3 * time.Second

// weathers are faults on the way to the API server.
func (w *world) weathers(proxy *Proxy) []trouble {
	weather := func(name string, extra rules.Tolerance, now Weather) trouble {
		return trouble{name: name, extra: extra, begin: func() func() {
			proxy.Set(now)
			return func() { proxy.Set(Weather{}) }
		}}
	}
	// An answer that comes after an attempt or two makes syncs longer: client-go waits for
	// a second when it is told to.
	retried := rules.Tolerance{Sync: 5 * time.Second}
	late := func(resource string) trouble {
		// Only caches are late. The last look at a node is not.
		return weather("events of "+resource+" are late", rules.Tolerance{Cache: lateBy}, Weather{Late: map[string]time.Duration{resource: lateBy}})
	}
	lateNodes := late("nodes") // Whoever goes by the cache alone creates CRs for nodes that have recovered.
	lateNodes.longer = lateBy
	once := func(name string, do func()) trouble {
		return trouble{name: name, extra: rules.Tolerance{Cache: 2 * time.Second}, begin: func() func() { do(); return func() {} }}
	}
	return []trouble{
		weather("errors", retried, Weather{Refuse: 30, Codes: []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}}),
		weather("conflicts", retried, Weather{Refuse: 30, Codes: []int{http.StatusConflict}}),
		weather("broken connections", retried, Weather{Break: 25}),
		weather("lost answers", retried, Weather{Lose: 30}),
		weather("cut off", rules.Tolerance{Cache: lasting(3*time.Second, 10*time.Second), Sync: 5 * time.Second}, Weather{Cut: true}),
		lateNodes, late("nodehealthchecks"), late("leases"), late("rebuilds"), late("reboots"),
		once("dropped watches", proxy.DropWatches),
		once("expired watches", proxy.ExpireWatches),
	}
}

// outages are faults of the API server and of etcd themselves.
func (w *world) outages(proxy *Proxy) []trouble {
	longest := lasting(3*time.Second, 10*time.Second)
	// Whoever hangs sends nothing, and finishes late what it has received.
	hanging := rules.Tolerance{Cache: longest, LiveRead: longest, Sync: longest}
	hang := func(component string, stop func() (goOn func(), err error)) trouble {
		return trouble{name: component + " hangs", extra: hanging, begin: func() func() {
			goOn, err := stop()
			require.NoError(w.t, err)
			w.t.Cleanup(goOn)
			return goOn
		}}
	}
	restarting := rules.Tolerance{Cache: 5 * time.Second, LiveRead: time.Second, Sync: 5 * time.Second}
	restart := func(name string, do func(context.Context) error) trouble {
		return trouble{name: name, extra: restarting, begin: func() func() { return w.meanwhile(name, do) }}
	}
	compacting := rules.Tolerance{Cache: 2 * longest, LiveRead: time.Second, Sync: 5 * time.Second}
	return []trouble{
		restart("the API server restarts", w.RestartAPIServer),
		restart("etcd crashes and comes back", w.RestartEtcd),
		{name: "all before is compacted", extra: compacting, begin: func() func() { return w.compact(proxy) }},
		hang("the API server", w.HangAPIServer), hang("etcd", w.HangEtcd),
	}
}

// meanwhile does something while the load goes on.
func (w *world) meanwhile(what string, do func(context.Context) error) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), patience)
		defer cancel()
		if err := do(ctx); err != nil {
			w.t.Errorf("%s: %v", what, err)
		}
	})
	return wg.Wait
}

// compact ends all watches, and has the controller wait. When it may go on with them,
// all that it has seen is compacted, and the API server remembers nothing either: every
// watch begins with 410. Had the connection been broken instead, it would list at once.
func (w *world) compact(proxy *Proxy) (end func()) {
	proxy.Set(Weather{Refuse: 100, Codes: []int{http.StatusTooManyRequests}})
	proxy.DropWatches()
	return func() {
		defer proxy.Set(Weather{})
		w.meanwhile("compacting", func(ctx context.Context) error {
			return errors.Join(w.Compact(ctx), w.RestartAPIServer(ctx))
		})()
	}
}
