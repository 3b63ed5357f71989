// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// kindOfRequest groups requests by what they are about.
type kindOfRequest struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"` // With the subresource.
}

// requestCount is how many requests there were of a kind.
type requestCount struct {
	kindOfRequest

	Count   int     `json:"count"`
	PerNode float64 `json:"perNode,omitempty"` // Or per failure and recovery.
	Failed  int     `json:"failed,omitempty"`
}

// requestCounts are the requests of a controller by kind, most frequent first.
type requestCounts []requestCount

// breakdown counts requests. per is the number of nodes, or zero.
func breakdown(requests []localkube.Request, per int) requestCounts {
	counts := map[kindOfRequest]*requestCount{}
	for i := range requests {
		r := &requests[i]
		kind := kindOfRequest{r.Verb, r.Resource}
		if r.Resource == "" {
			kind.Resource = r.URI
		}
		if r.Subresource != "" {
			kind.Resource += "/" + r.Subresource
		}
		if counts[kind] == nil {
			counts[kind] = &requestCount{kindOfRequest: kind}
		}
		counts[kind].Count++
		if r.Code >= 400 {
			counts[kind].Failed++
		}
	}
	var result requestCounts
	for _, c := range counts {
		if per > 0 {
			c.PerNode = float64(c.Count) / float64(per)
		}
		result = append(result, *c)
	}
	slices.SortFunc(result, func(a, b requestCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return result
}

// total counts all requests but events, and the events.
func (c requestCounts) total() (withoutEvents, events int) {
	for _, count := range c {
		if count.Resource == "events" {
			events += count.Count
		} else {
			withoutEvents += count.Count
		}
	}
	return withoutEvents, events
}

// statusWrites counts the writes of the status of NodeHealthChecks.
func (c requestCounts) statusWrites() int {
	n := 0
	for _, count := range c {
		if count.Resource == "nodehealthchecks/status" {
			n += count.Count
		}
	}
	return n
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
