// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

const (
	// standby is how long a twin exists before it leads, and lifetime how long it leads at least.
	standby, lifetime = 5 * time.Second, time.Minute
	// still is for how long both processes have to write nothing before they are compared, unless that takes longer than
	// patience.
	still, patience = 3 * time.Second, time.Minute
)

// twin is a second process of the controller, on a copy of all that is stored. Where it differs from the leader, what
// the controller does depends on something that only one of the two knows. The twin knows no rule.
type twin struct {
	server  *memapi.Server
	replica *replica
	events  atomic.Int64
	// begun is when the copy was made, and changes how many changes the leader's server had then.
	begun   time.Time
	changes int
	// lastUID is the last uid that was given until then.
	lastUID string
	// misreported are the Nodes that have a time from a wrong clock.
	misreported sets.Set[string]
}

// compareTwin makes the leader and a twin live for a minute in which no other client acts, and compares what they do. It
// does not while budgets count a node that is gone: only the leader knows the labels of the node (spec B3.2).
func (c *cluster) compareTwin(when string, life time.Duration) {
	leader := c.leader()
	if leader == nil || c.budgeted && c.anyGone() {
		return
	}
	x := c.copyTwin()
	defer x.replica.die(c.ctx)
	time.Sleep(standby)
	x.replica.lead(c.ctx, c.t, c.workers)
	c.liveWith(x, life)
	c.seen["twins"]++
	if found := x.differences(c, leader, life); len(found) > 0 {
		panic(broken{rules.Violation{Rule: "P8", Text: when + ": a process that begins to lead does not do what the leader does:\n" + strings.Join(found, "\n")}})
	}
}

// copyTwin copies what is stored, and starts a process on it.
func (c *cluster) copyTwin() *twin {
	x := &twin{server: c.server.Clone(), changes: len(c.server.Changes(0)), begun: time.Now(), lastUID: string(c.server.LastUID())}
	x.events.Store(c.events.Load()) // Names of events are new.
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(c.seed, uint64(x.changes)))
	r := &replica{name: "twin"}
	r.client = x.server.NewClient(r.name, func(memapi.Request) memapi.Fault {
		mu.Lock()
		defer mu.Unlock()
		// No two requests arrive at the same instant.
		return memapi.Fault{Before: time.Duration(1+random.IntN(8_000_000)) * time.Nanosecond, After: time.Duration(1+random.IntN(2_000_000)) * time.Nanosecond}
	})
	r.prepare(c.ctx, c.t, c.machines != nil, func(controller string) *recorder {
		return &recorder{server: x.server, controller: controller, client: r.client, count: &x.events}
	})
	x.replica, x.misreported = r, c.misreportedNodes()
	return x
}

// liveWith lets a minute pass, and some more while either process writes.
func (c *cluster) liveWith(x *twin, life time.Duration) {
	time.Sleep(life)
	synctest.Wait()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if last := lastChange(append(c.server.Changes(x.changes), x.server.Changes(0)...)); time.Since(last) > still {
			break
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
	c.check()
}

// lastChange returns the time of the last of some changes.
func lastChange(changes []*memapi.Change) time.Time {
	var last time.Time
	for _, change := range changes {
		if change.Time.After(last) {
			last = change.Time
		}
	}
	return last
}

// differences describes what the leader and its twin did differently.
func (x *twin) differences(c *cluster, leader *replica, life time.Duration) []string {
	var found []string
	ours, theirs := x.courses(c.server.Changes(x.changes)), x.courses(x.server.Changes(0))
	for _, key := range union(ours, theirs) {
		if diff := compareCourses(ours[key], theirs[key]); diff != "" {
			found = append(found, key+":\n"+diff)
		}
	}
	if life < lifetime { // What was due while the twin did not lead, it tells and counts otherwise.
		return found
	}
	said, saidByTwin := x.told(c.server.Changes(x.changes)), x.told(x.server.Changes(0))
	for _, event := range union(said, saidByTwin) {
		if a, b := said[event], saidByTwin[event]; a != b {
			found = append(found, fmt.Sprintf("event %d times, and by the twin %d times: %s", a, b, event))
		}
	}
	gauges, gaugesOfTwin := gaugesOf(c.t, leader), gaugesOf(c.t, x.replica)
	for _, name := range union(gauges, gaugesOfTwin) {
		if a, b := gauges[name], gaugesOfTwin[name]; a != b && !excepts(name) {
			found = append(found, fmt.Sprintf("gauge %v, and of the twin %v: %s", a, b, name))
		}
	}
	return found
}

// union returns the keys of both maps in order.
func union[V any](a, b map[string]V) []string {
	all := map[string]bool{}
	for _, m := range []map[string]V{a, b} {
		for key := range m {
			all[key] = true
		}
	}
	return sorted(all)
}
