// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// recovery is how long the controller may take until it acts again in time after requests
// have failed: the longest of its backoffs, and a moment.
const recovery = 65 * time.Second

// intercept decides what happens to a request of a replica. It is called from any goroutine.
func (c *cluster) intercept(r *replica) func(memapi.Request) memapi.Fault {
	return func(request memapi.Request) memapi.Fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		random := c.fate(&request, r.name)
		// No two requests arrive at the same instant, whichever goroutine runs first.
		fault := memapi.Fault{
			Before: time.Duration(1+random.IntN(8_000_000)) * time.Nanosecond,
			After:  time.Duration(1+random.IntN(2_000_000)) * time.Nanosecond,
		}
		fault.Before += c.slow[request.Verb+" "+request.Resource.Resource]
		fault.After += c.slow["answer to "+request.Verb+" "+request.Resource.Resource]
		if request.Verb == "list" || request.Verb == "watch" {
			fault.Before += c.slow[request.Resource.Resource] + c.slowFirst[request.Resource.Resource]
			delete(c.slowFirst, request.Resource.Resource)
		}
		if c.staleBy > 0 {
			fault.StaleBy = c.staleBy
		}
		if fault.Err = c.denial(&request); fault.Err != nil {
			return fault
		}
		if random.IntN(1000) < c.faultsOf(&request) {
			c.spoilRequest(&fault, &request, random)
		}
		if c.deathIn > 0 && r.leading.Load() {
			c.deathIn--
			if c.deathIn == 0 {
				c.dieAt(r, &fault, random)
			}
		}
		return fault
	}
}

// faultsOf returns how many of 1,000 such requests go wrong. Creations of CRs are few.
func (c *cluster) faultsOf(request *memapi.Request) int {
	if request.Verb == "create" && request.Resource.GroupVersion() == remediators {
		return 5 * c.faults
	}
	return c.faults
}

// spoilRequest has something happen to a request.
func (c *cluster) spoilRequest(fault *memapi.Fault, request *memapi.Request, random *rand.Rand) {
	resource := request.Resource.GroupResource()
	what := ""
	switch n := random.IntN(12); n {
	case 0, 1:
		what, fault.Lost = "lost answer", true
	case 2:
		what, fault.Err = "broken connection", errors.New("connection refused")
	case 3:
		what, fault.Err = "500", apierrors.NewInternalError(errors.New("simulated"))
	case 4:
		what, fault.Err = "503", apierrors.NewServiceUnavailable("simulated")
	case 5:
		what, fault.Err = "504", apierrors.NewTimeoutError("simulated", 0)
	case 6:
		what, fault.Err = "429", apierrors.NewTooManyRequests("simulated", 1)
	case 7:
		what, fault.Err = "409", apierrors.NewConflict(resource, request.Name, errors.New("simulated"))
		if request.Verb != "update" && request.Verb != "patch" {
			what, fault.Err = "500", apierrors.NewInternalError(errors.New("simulated"))
		}
	case 8, 9:
		what, fault.Before = "late request", time.Duration(random.IntN(5000))*time.Millisecond
	case 10:
		what, fault.After = "late answer", time.Duration(random.IntN(5000))*time.Millisecond
	case 11:
		what, fault.Before = "hanging request", 50*time.Second
	}
	c.happened["request: "+what]++
	c.disturbed = time.Now().Add(fault.Before + fault.After + recovery)
}

// slowDown has lists and watches of a resource take longer to arrive, until that is zero.
func (c *cluster) slowDown(gvr schema.GroupVersionResource, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow[gvr.Resource] = by
}

// slowRequests has requests with a verb, for a resource, take longer to arrive.
func (c *cluster) slowRequests(what string, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow[what] = by
}

// slowDownFirst makes the next list or watch of a resource take longer to arrive.
func (c *cluster) slowDownFirst(gvr schema.GroupVersionResource, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowFirst[gvr.Resource] = by
}

// deny has a webhook deny requests, or no longer: those with a verb, for a resource.
func (c *cluster) deny(what string, denied bool) {
	c.mu.Lock()
	c.denied[what] = denied
	c.mu.Unlock()
	c.log("a webhook denies to %s: %t", what, denied)
}

// refuseStatus has a webhook deny the status of NodeHealthChecks for a while, in which other things happen.
func (c *cluster) refuseStatus() {
	const status = "update nodehealthchecks"
	if c.denied[status] {
		return
	}
	c.deny(status, true)
	c.count("denied status")
	for end := time.Now().Add(oneOf(c, 5*time.Second, time.Minute, 5*time.Minute)); time.Now().Before(end); {
		c.event()
		c.sleep(time.Duration(1+c.random.IntN(40)) * time.Second)
	}
	c.deny(status, false)
}

// denial is the answer of a webhook that denies such a request.
func (c *cluster) denial(request *memapi.Request) error {
	if !c.denied[request.Verb+" "+request.Resource.Resource] {
		return nil
	}
	if request.Verb == "patch" {
		c.happened["denied annotation"]++
	}
	err := apierrors.NewForbidden(request.Resource.GroupResource(), request.Name, errors.New("simulated"))
	err.ErrStatus.Message = `admission webhook "v.example.com" denied the request: simulated`
	return err
}

// dieAt has the process die before the request is carried out, or after.
func (c *cluster) dieAt(r *replica, fault *memapi.Fault, random *rand.Rand) {
	*fault = memapi.Fault{Before: fault.Before, After: time.Millisecond}
	if random.IntN(2) == 0 {
		c.happened["death before a request"]++
		r.client.Kill()
		return
	}
	c.happened["death after a request"]++
	fault.Then = r.client.Kill
}

// disturb records that something is wrong, or was, that the controller recovers from in its
// own time, so that nothing is late before that.
func (c *cluster) disturb(what string, until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.happened[what]++
	if end := time.Now().Add(until); end.After(c.disturbed) {
		c.disturbed = end
	}
}

// count records that something has happened that is to be simulated.
func (c *cluster) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.happened[what]++
}

// quietSince is when the controller has recovered from all that went wrong.
func (c *cluster) quietSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults > 0 || c.lagging != nil {
		return time.Now()
	}
	return c.disturbed
}

// setFaults has a number of 1,000 requests fail from now on.
func (c *cluster) setFaults(faults int) {
	c.mu.Lock()
	before := c.faults
	c.faults = faults
	c.mu.Unlock()
	switch {
	case before == 0 && faults > 0:
		c.window = c.judge.BeginFault(time.Now(), "requests fail", rules.Tolerance{Cache: 2 * time.Minute, LiveRead: time.Minute, Sync: 2 * time.Minute})
	case before > 0 && faults == 0:
		c.judge.EndFault(time.Now(), c.window)
		c.disturb("requests failed", recovery)
	}
}

// excused has something happen that makes the controller see less for a while.
func (c *cluster) excused(what string, behind time.Duration) {
	c.disturb(what, behind)
	c.judge.EndFault(time.Now(), c.judge.BeginFault(time.Now(), what, rules.Tolerance{Cache: behind, Sync: behind}))
}

// watched are the resources whose watches may be late or end.
func (c *cluster) watched() []schema.GroupVersionResource {
	all := []schema.GroupVersionResource{nodes, nhcs, leases}
	for i := range c.kinds {
		all = append(all, c.kinds[i].crs(), c.kinds[i].templates())
	}
	if c.machines != nil {
		all = append(all, c.machines.gvr(), mhcs)
	}
	if c.budgeted {
		all = append(all, budgets)
	}
	return all
}

// delayWatches has the watches of one resource lag, or no longer.
func (c *cluster) delayWatches() {
	if c.lagging != nil {
		c.endLag()
		return
	}
	c.beginLag(oneOf(c, c.watched()...), oneOf(c, 100*time.Millisecond, time.Second, 5*time.Second, 45*time.Second))
}

// endLag has all watches be in time again.
func (c *cluster) endLag() {
	for _, r := range c.replicas {
		r.client.Delay(*c.lagging, 0)
	}
	c.judge.EndFault(time.Now(), c.lag)
	c.lagging = nil
	c.disturb("watches lagged", recovery)
}

// recoverUnseen has a node recover right before it would be remediated, and the watch be
// late: only the live read shows it.
func (c *cluster) recoverUnseen(node string) {
	if c.lagging != nil {
		c.endLag()
	}
	c.setReady(node, corev1.ConditionUnknown)
	c.sleep(oneOf(c, 29*time.Second, 89*time.Second))
	c.beginLag(nodes, 5*time.Second)
	c.heal(node)
	c.sleep(oneOf(c, 3*time.Second, 10*time.Second))
}

// replaceUnseen replaces a CR by a CR of another owner with its name, and has its node recover,
// while the watch is late. The deletion must not hit the new CR.
func (c *cluster) replaceUnseen(cr *rules.CR) {
	if c.lagging != nil {
		c.endLag()
	}
	r := c.of(cr)
	c.beginLag(r.crs(), 5*time.Second)
	c.letGo(cr)
	c.server.Delete("somebody", r.crs(), keyOf(cr))
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": remediators.String(), "kind": r.kind, "metadata": map[string]any{}}}
	object.SetNamespace(cr.Namespace)
	object.SetName(cr.Name)
	_, _ = c.server.Create("somebody", r.crs(), object) // The old one may still be there.
	c.heal(cr.Node)
	c.sleep(oneOf(c, 3*time.Second, 10*time.Second))
}

// beginLag has the watches of a resource lag, for all replicas.
func (c *cluster) beginLag(gvr schema.GroupVersionResource, by time.Duration) {
	c.lagging, c.lagBy = &gvr, by
	for _, r := range c.replicas {
		r.client.Delay(gvr, c.lagBy)
	}
	c.lag = c.judge.BeginFault(time.Now(), "watches of "+gvr.Resource+" are late by "+c.lagBy.String(), rules.Tolerance{Cache: c.lagBy + 31*time.Second, Sync: 31 * time.Second})
	c.disturb("late events of "+gvr.Resource, recovery)
}

// endWatches ends the watches of one resource.
func (c *cluster) endWatches() {
	gvr, gone := oneOf(c, c.watched()...), c.chance(50)
	c.excused("watches end", 35*time.Second)
	if gone && c.chance(50) {
		c.server.Compact()
	}
	for _, r := range c.replicas {
		r.client.EndWatches(gvr, gone)
	}
}

// anyLag reports whether watches are late now.
func (c *cluster) anyLag() bool { return c.lagging != nil }

// reap ends the remains of processes that have died.
func (c *cluster) reap() {
	c.replicas = slices.DeleteFunc(c.replicas, func(r *replica) bool {
		if r.client.Dead() {
			r.die(c.ctx)
			c.log("%s is dead", r.name)
			c.excused("death", 5*time.Second)
			return true
		}
		return false
	})
}
