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

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// usualLoad creates nodes and NodeHealthChecks, and returns the load on them.
func (e *environment) usualLoad() *load {
	e.t.Helper()
	n := numberOf(24, 60)
	e.createNodes(n)
	e.createNHCs(usualNHCs()...)
	e.mark("load")
	return &load{e: e, nodes: n, gap: 10 * time.Millisecond, spares: []*v1alpha1.NodeHealthCheck{
		newNHC("spare-ladder", pools[:2], laddered), newNHC("spare", pools[1:], withTemplate(templates[1])),
	}}
}

// TestKilled kills the controller at random instants, and right before and after one of
// its next writes (P8), also those about Machines and budgets. The next process goes on as if nothing had happened.
func TestKilled(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		m := &killedController{e: e, proxy: e.startProxy("killedController"), random: rand.New(rand.NewPCG(seed, 3))}
		require.NoError(t, m.start())
		e.createMachines(3)
		l := e.usualLoad()
		ctx, cancel := context.WithCancel(t.Context())
		m.wg.Go(func() { m.run(ctx) })
		l.run(t.Context(), lasting(7*time.Second, 2*time.Minute))
		for m.timesStarted() <= numberOf(2, 20) { // On a busy machine it takes long to be killed and to come back.
			l.run(t.Context(), time.Second)
		}
		cancel()
		m.wg.Wait()
		m.proxy.OnWrite(nil)
		require.NoError(t, m.restart())
		l.runUntilSeen(5)
		e.requireSettled()
		e.requireSeen(5, 3)
		e.requireSeenMachines(1)
	})
}

// killedController is a controller that is killed and comes back.
type killedController struct {
	e      *environment
	proxy  *Proxy
	random *rand.Rand
	wg     sync.WaitGroup

	mu      sync.Mutex
	process *localkube.Process
	starts  int
}

func (m *killedController) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts++
	m.e.referee.Led()
	var err error
	m.process, err = m.e.launch(m.e.processName(fmt.Sprintf("life-%d", m.starts)), m.proxy, "--leader-elect=false")
	return err
}

// timesStarted returns how many times it was started.
func (m *killedController) timesStarted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.starts
}

func (m *killedController) present() *localkube.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// restart starts the controller again if it is dead.
func (m *killedController) restart() error {
	select {
	case <-m.present().Exited():
		return m.start()
	default:
		return nil
	}
}

// run kills the controller again and again.
func (m *killedController) run(ctx context.Context) {
	for ctx.Err() == nil {
		if m.random.IntN(3) == 0 {
			m.wait(ctx, time.Duration(m.random.IntN(2000))*time.Millisecond)
			m.kill("at a random instant")
		} else {
			m.killAt(ctx, 1+m.random.IntN(12), m.random.IntN(2) == 0)
		}
		if err := m.restart(); err != nil { //nolint:contextcheck // A controller outlives what kills it.
			m.e.t.Errorf("starting the controller: %v", err)
			return
		}
	}
}

func (m *killedController) wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (m *killedController) kill(when string) {
	m.e.referee.Fault("the controller is killed %s", when)
	if err := m.present().Kill(); err != nil {
		m.e.t.Errorf("killing the controller: %v", err)
	}
}

// killAt kills the controller at its n-th write from now: before the API server gets it,
// or when it has carried it out. It does not wait for ever.
func (m *killedController) killAt(ctx context.Context, n int, carriedOut bool) {
	killed, over := make(chan struct{}), false
	var mu sync.Mutex // Guards over. A kill that has begun has to end first: until then restart takes the controller for alive.
	m.proxy.OnWrite(func(write int, done bool) bool {
		mu.Lock()
		defer mu.Unlock()
		if write != n || done != carriedOut || over {
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
	mu.Lock()
	defer mu.Unlock()
	over = true
}
