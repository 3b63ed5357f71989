// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// requestCounts are the requests of a controller. others are those that are no events.
type requestCounts struct{ others, events, statusWrites int }

func countRequests(requests []localkube.Request) (c requestCounts) {
	for i := range requests {
		switch r := &requests[i]; {
		case r.Resource == "events":
			c.events++
		case r.Resource == "nodehealthchecks" && r.Subresource == "status":
			c.statusWrites++
			c.others++
		default:
			c.others++
		}
	}
	return c
}

// isLeaderLease reports whether a request is about the lease of the leader.
func isLeaderLease(r localkube.Request) bool {
	return r.Resource == "leases" && r.Namespace == deploy.Namespace
}

// between returns the requests of the controller in a span of time, without those
// about the lease of the leader, and the number of these.
func between(requests []localkube.Request, begin, end time.Time) (others []localkube.Request, leader int) {
	for _, r := range requests {
		switch {
		case r.User != deploy.User || r.Time.Before(begin) || r.Time.After(end):
		case isLeaderLease(r):
			leader++
		default:
			others = append(others, r)
		}
	}
	return others, leader
}

// watched returns what the controller has watched, with the namespace if it was only
// that.
func watched(requests []localkube.Request) []string {
	what := map[string]bool{}
	for _, r := range requests {
		if r.User != deploy.User || r.Verb != "watch" || r.Code >= 400 {
			continue
		}
		name := r.Resource
		if r.Namespace != "" {
			name += " in " + r.Namespace
		}
		what[name] = true
	}
	return slices.Sorted(maps.Keys(what))
}
