// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/nhc-controller/nhc-controller/test/meter"
)

// consumption is what the controller used over a span of time.
type consumption struct {
	Seconds   float64
	RSS       int64 // At the end.
	PeakRSS   int64 // Since the last reset.
	CPU       float64
	Cores     float64
	ReadBytes int64
	Requests  requestCounts
	// LeaderRequests are those about the lease of the leader.
	LeaderRequests int
}

// consume measures what the controller uses while something happens.
func (e *environment) consume(happens func() error) (*consumption, error) {
	before, err := meter.UsageOf(e.controller.Pid())
	if err != nil {
		return nil, err
	}
	if err := happens(); err != nil {
		return nil, err
	}
	after, err := meter.UsageOf(e.controller.Pid())
	if err != nil {
		return nil, err
	}
	all, err := e.cluster.RequestsSince(before.At)
	if err != nil {
		return nil, err
	}
	requests, leader := between(all, before.At, after.At)
	c := &consumption{
		Seconds: after.At.Sub(before.At).Seconds(),
		RSS:     after.RSS, PeakRSS: after.Peak,
		CPU: (after.CPU - before.CPU).Seconds(), ReadBytes: after.Read - before.Read,
		Requests: countRequests(requests), LeaderRequests: leader,
	}
	c.Cores = c.CPU / c.Seconds
	return c, nil
}

type idleOutcome struct {
	*consumption

	StartPeakRSS int64 // While the caches were filled.
	Limit        int64 // Of the memory.
	Watched      []string
}

// measureIdle measures a controller that has nothing to do.
func measureIdle(ctx context.Context, e *environment) (outcome, error) {
	start, err := meter.UsageOf(e.controller.Pid())
	if err != nil {
		return nil, err
	}
	r := &idleOutcome{StartPeakRSS: start.Peak, Limit: e.limit}
	if r.consumption, err = e.consume(func() error { return sleep(ctx, e.options.duration) }); err != nil {
		return nil, err
	}
	all, err := e.cluster.Requests()
	r.Watched = watched(all)
	return r, err
}

func (r *idleOutcome) goals() []goal {
	without, events := r.Requests.others, r.Requests.events
	return []goal{
		{Scenario: "idle", What: "memory (RSS)", Value: megabytes(r.RSS), Unit: "MB"},
		{Scenario: "idle", What: "peak memory after the start", Value: megabytes(r.StartPeakRSS), Unit: "MB", AtMost: new(megabytes(r.Limit))},
		{Scenario: "idle", What: "CPU", Value: r.Cores, Unit: "cores"},
		{Scenario: "idle", What: "requests", Value: float64(without + events), AtMost: new(0.0)},
		{Scenario: "idle", What: "requests for the leader lease", Value: float64(r.LeaderRequests) / r.Seconds, Unit: "/s"},
		leasesWatched("idle", r.Watched),
	}
}

// leasesWatched requires that no client watches the leases of kubelets. Thousands of them
// change every second.
func leasesWatched(scenario string, watched []string) goal {
	n := 0
	for _, what := range watched {
		if what == "leases" || strings.HasPrefix(what, "leases in kube-node-lease") {
			n++
		}
	}
	return goal{Scenario: scenario, What: "watches of kubelet leases", Value: float64(n), AtMost: new(0.0)}
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
