// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// exact is what the controller could not have seen when nothing is wrong: in virtual time,
// caches are behind by nothing, and a sync takes no longer than its requests.
var exact = rules.Tolerance{Cache: 10 * time.Millisecond, LiveRead: 50 * time.Millisecond, Sync: 400 * time.Millisecond}

func newJudge(config rules.Config) *rules.Judge {
	config.LeaseNamespace, config.Tolerance, config.Begin = leaseNamespace, exact, epoch
	return rules.NewJudge(config)
}

// feed gives the judge requests, then the changes that they made among others.
func (c *cluster) feed(requests []memapi.Request, changes []*memapi.Change) {
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
	}
	for _, change := range changes {
		event := rules.Change{Resource: change.Resource, Key: rules.KeyOf(change.Object), ResourceVersion: change.Version, Time: change.Time, Object: change.Object}
		if change.Type == watch.Deleted {
			event.Object = nil
		}
		c.noteStatus(change)
		c.judge.Apply(event)
		c.deadlines.Applied(event)
	}
}

// check stops the simulation if a rule is broken or something is late.
func (c *cluster) check() {
	c.follow()
	found := c.judge.Violations()
	found = append(found, c.deadlines.Missed(c.quietSince())...)
	found = append(found, c.deadlines.Overdue(time.Now(), c.quietSince())...)
	for _, r := range c.replicas {
		if r.clock.looped() {
			found = append(found, rules.Violation{Rule: "P3", Text: r.name + " reads its clock without end: it is woken for nothing"})
		}
	}
	if len(found) > 0 {
		panic(broken(found))
	}
}

// broken is what ends a simulation: rules that do not hold.
type broken []rules.Violation
