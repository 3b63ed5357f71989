// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// usualLoad creates nodes and NodeHealthChecks, and returns the load on them.
func (w *world) usualLoad() *load {
	w.t.Helper()
	n := numberOf(24, 60)
	w.createNodes(n)
	w.createNHCs(usualNHCs()...)
	w.mark("load")
	return &load{w: w, nodes: n, gap: 10 * time.Millisecond, spares: overlapping(2)}
}

// TestKilled kills the controller at random instants, and right before and after one of
// its next writes (P8). Whoever comes next goes on as if nothing had been.
func TestKilled(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		m := &mortal{w: w, proxy: w.startProxy("mortal"), random: rand.New(rand.NewPCG(seed, 3))}
		require.NoError(t, m.start())
		l := w.usualLoad()
		ctx, cancel := context.WithCancel(t.Context())
		m.wg.Go(func() { m.run(ctx) })
		l.run(t.Context(), lasting(7*time.Second, 2*time.Minute))
		cancel()
		m.wg.Wait()
		m.proxy.OnWrite(nil)
		require.NoError(t, m.revive())
		w.requireSettled()
		w.requireSeen(5, 3)
		require.Greater(t, m.lives, numberOf(2, 20), "it was killed")
	})
}

// mortal is a controller that is killed and comes back.
type mortal struct {
	w      *world
	proxy  *Proxy
	random *rand.Rand
	wg     sync.WaitGroup

	mu      sync.Mutex
	process *localkube.Process
	lives   int
}

func (m *mortal) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lives++; m.lives > 1 {
		m.w.referee.Restarted()
	}
	var err error
	m.process, err = m.w.launch(m.w.processName(fmt.Sprintf("life-%d", m.lives)), m.proxy, "--leader-elect=false")
	return err
}

func (m *mortal) present() *localkube.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// revive starts the controller again if it is dead.
func (m *mortal) revive() error {
	select {
	case <-m.present().Exited():
		return m.start()
	default:
		return nil
	}
}

// run kills the controller again and again.
func (m *mortal) run(ctx context.Context) {
	for ctx.Err() == nil {
		if m.random.IntN(3) == 0 {
			m.wait(ctx, time.Duration(m.random.IntN(2000))*time.Millisecond)
			m.kill("at a random instant")
		} else {
			m.killAt(ctx, 1+m.random.IntN(12), m.random.IntN(2) == 0)
		}
		if err := m.revive(); err != nil { //nolint:contextcheck // A controller outlives what kills it.
			m.w.t.Errorf("starting the controller: %v", err)
			return
		}
	}
}

func (m *mortal) wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (m *mortal) kill(when string) {
	m.w.referee.Fault("the controller is killed %s", when)
	if err := m.present().Kill(); err != nil {
		m.w.t.Errorf("killing the controller: %v", err)
	}
}

// killAt kills the controller at its n-th write from now: before the API server gets it,
// or when it has carried it out. It does not wait for ever.
func (m *mortal) killAt(ctx context.Context, n int, carriedOut bool) {
	killed := make(chan struct{})
	m.proxy.OnWrite(func(write int, done bool) bool {
		if write != n || done != carriedOut {
			return false
		}
		m.kill(fmt.Sprintf("at write %d, carried out: %t", n, carriedOut))
		close(killed)
		return true
	})
	select {
	case <-killed:
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
	m.proxy.OnWrite(nil)
}
