// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// boot starts a process as a standby.
func (c *cluster) boot() *replica {
	c.born++
	name := fmt.Sprintf("replica-%d", c.born)
	r := &replica{name: name}
	r.client = c.server.NewClient(name, c.intercept(r))
	r.prepare(c.ctx, c.t, c.machines != nil, func(controller string) *recorder {
		return &recorder{server: c.server, controller: controller, client: r.client, count: &c.events}
	})
	if c.lagging != nil {
		r.client.Delay(*c.lagging, c.lagBy)
	}
	c.replicas = append(c.replicas, r)
	c.log("%s starts", name)
	return r
}

// leader returns the process that leads, nil if none does.
func (c *cluster) leader() *replica {
	if i := slices.IndexFunc(c.replicas, func(r *replica) bool { return r.leading.Load() }); i >= 0 {
		return c.replicas[i]
	}
	return nil
}

// elect has a process lead if none does.
func (c *cluster) elect() {
	c.reap()
	if c.leader() != nil {
		return
	}
	if len(c.replicas) == 0 {
		c.boot()
	}
	next := oneOf(c, c.replicas...)
	c.log("%s leads", next.name)
	c.excused("leader change", 3*time.Second)
	c.judge.Led(time.Now())
	c.judge.Started(time.Now())
	c.reading(next.stale, func() { next.lead(c.ctx, c.t, c.workers) })
}

// handOver makes the leader stop in order, or die, and another one follow, at once or when
// the lease has expired.
func (c *cluster) handOver() {
	leader := c.leader()
	if leader == nil {
		return
	}
	switch c.random.IntN(3) {
	case 0:
		c.mu.Lock()
		c.deathIn = 1 + c.random.IntN(6)
		c.mu.Unlock()
		return // It dies at one of its next requests.
	case 1:
		leader.die(c.ctx)
		c.count("death between requests")
	default:
		leader.stop()
		leader.client.Kill()
		c.count("graceful stop")
	}
	c.replicas = slices.DeleteFunc(c.replicas, func(r *replica) bool { return r == leader })
	c.log("%s is gone", leader.name)
	if c.chance(50) {
		stale := oneOf(c, 0, 0, time.Second, 30*time.Second, 5*time.Minute)
		c.boot().stale = stale
	}
	if c.chance(50) {
		c.disturb("no leader", 17*time.Second)
		time.Sleep(time.Duration(c.random.IntN(16000)) * time.Millisecond)
	}
}

// reading has a process lead whose first lists may be stale.
func (c *cluster) reading(stale time.Duration, lead func()) {
	if stale == 0 {
		lead()
		return
	}
	c.mu.Lock()
	c.staleBy = stale
	c.mu.Unlock()
	lead()
	window := c.judge.BeginFault(time.Now(), "first lists are stale by "+stale.String(), rules.Tolerance{Cache: stale})
	time.Sleep(100 * time.Millisecond)
	c.mu.Lock()
	c.staleBy = 0
	c.mu.Unlock()
	c.judge.EndFault(time.Now(), window)
	c.disturb("stale first list", 35*time.Second)
}

// shutDown ends all processes.
func (c *cluster) shutDown() {
	for _, r := range c.replicas {
		if r.leading.Load() && !r.client.Dead() {
			r.stop()
		}
		r.die(c.ctx)
	}
	c.replicas = nil
}
