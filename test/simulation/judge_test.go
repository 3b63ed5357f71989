// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// exact is what the controller could not have seen when nothing is wrong: in virtual time,
// caches are behind by nothing, and a sync takes no longer than its requests.
var exact = rules.Tolerance{Cache: 10 * time.Millisecond, LiveRead: 50 * time.Millisecond, Sync: 400 * time.Millisecond}

// newJudge returns a judge.
func newJudge(config rules.Config) *rules.Judge {
	config.LeaseNamespace, config.Tolerance, config.Exact, config.Begin = leaseNamespace, exact, true, epoch
	return rules.NewJudge(config)
}

// feed gives the judge requests, then the changes that they made among others.
func (c *cluster) feed(requests []memapi.Request, changes []*memapi.Change) {
	for _, change := range changes {
		if c.machines != nil && change.Resource == c.machines.gvr() && change.Type == watch.Added {
			c.replaced++
		}
	}
	for i := range requests {
		r := &requests[i]
		if *verbose {
			c.t.Logf("%s %s %s %s %s/%s: %d", clockOf(r.Received), r.User, r.Verb, r.Resource.Resource, r.Namespace, r.Name, r.Code)
		}
		request := rules.Request{
			Time: r.Received, Answered: r.Answered, User: controllerUser, UserAgent: r.User, Verb: r.Verb,
			Group: r.Resource.Group, Resource: r.Resource.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
			Code: int32(r.Code), UID: r.UID,
		}
		if r.Version > 0 {
			request.ResourceVersion = strconv.FormatUint(r.Version, 10)
		}
		c.judge.AddRequests(request)
		c.countWrite(r)
	}
	for _, change := range changes {
		if *verbose {
			c.t.Logf("%s %s: %s %s %s", clockOf(change.Time), change.User, change.Type, change.Resource.Resource, rules.KeyOf(change.Object))
		}
		event := rules.Change{Resource: change.Resource, Key: rules.KeyOf(change.Object), ResourceVersion: change.Version, Time: change.Time, Object: change.Object}
		if change.Type == watch.Deleted {
			event.Object = nil
		}
		c.noteStatus(change)
		c.judge.Apply(event)
	}
}

// mostWrites is how often a process may write the status of one object within a second. 300 seeds
// had at most 5: a sync writes twice at most, and the few objects of a cluster do not change that often.
const mostWrites = 15

// mostHourly is how often an object is written within an hour in which others only end what is over, and
// mostRenewals how often a lease is. 30 seeds had at most 9 and 25. A budget that opens and closes every five
// minutes changes decisions 24 times, and each is written twice at most.
const mostHourly, mostRenewals, mostScheduled = 30, 70, 2 * 24

// countHourly finds objects that are written again and again while something waits.
func (c *cluster) countHourly(r *memapi.Request) {
	if hour := r.Received.Unix() / 3600; hour != c.hour {
		c.hour, c.hourly, c.replaced = hour, map[string]int{}, 0
	}
	key, most := r.Verb+" "+r.Resource.Resource+" "+r.Name, mostHourly
	switch r.Resource {
	case leases:
		most = mostRenewals
	case mhcs:
		most += c.replaced // In a cluster of 150 nodes, one generation of replacements after the other may fail to join.
	}
	if c.budgeted && r.Resource != leases {
		most += mostScheduled
	}
	if c.hourly[key]++; c.hourly[key] > most {
		c.looping = key
	}
}

// writes reports whether a request changes something.
func writes(r *memapi.Request) bool {
	return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" && r.Resource.Group != "authorization.k8s.io"
}

// countWrite finds a status that is written again and again.
func (c *cluster) countWrite(r *memapi.Request) {
	if second := r.Received.Unix(); second != c.second {
		c.second, c.writes, c.extra = second, map[string]int{}, map[string]int{}
	}
	if c.settling && writes(r) {
		c.countHourly(r)
	}
	if r.Verb == "update" && r.Subresource == "status" {
		key := r.User + " " + r.Resource.Resource + " " + r.Name
		if r.Resource == mhcs {
			var written v1beta1.MachineHealthCheck
			require.NoError(c.t, json.Unmarshal(r.Body, &written))
			c.extra[key] = max(c.extra[key], rules.ExtraWrites(&written.Status))
		}
		if c.writes[key]++; c.writes[key] > mostWrites+c.extra[key] {
			c.looping = key
		}
	}
}

// check stops the simulation if a rule is broken or something is late.
func (c *cluster) check() {
	if c.unjudged {
		return
	}
	c.follow()
	c.countExcused()
	found := c.judge.Violations()
	found = append(found, c.deadlines.Missed(c.quietSince())...)
	found = append(found, c.deadlines.Overdue(time.Now(), c.quietSince())...)
	if c.looping != "" {
		found = append(found, rules.Violation{Rule: "P3", Text: c.looping + ": it is written without end"})
	}
	if len(found) > 0 {
		panic(broken(found))
	}
}

// countExcused counts the seconds since the last check, and those of them in which nothing could be late.
func (c *cluster) countExcused() {
	now, quiet := time.Now(), c.quietSince()
	c.seen[allSeconds] += int(now.Sub(c.checked).Seconds())
	if quiet.After(now) {
		quiet = now
	}
	c.seen[excusedSeconds] += int(max(0, quiet.Sub(c.checked)).Seconds())
	c.checked = now
}

const allSeconds, excusedSeconds = "seconds", "seconds in which delays are excused"

// broken ends a simulation: it has the rules that do not hold.
type broken []rules.Violation
