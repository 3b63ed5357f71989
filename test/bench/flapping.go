// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/meter"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// flappingOutcome is what happens to nodes that fail and recover all the time.
type flappingOutcome struct {
	Flapping       int     `json:"flapping"` // Nodes.
	FlipsPerSecond float64 `json:"flipsPerSecond"`
	// Created is the number of remediations, Late those of them whose creation was sent
	// although the recovery of the node had been visible for longer than watchTolerance.
	Created int            `json:"created"`
	Late    []lateCreation `json:"late"`
	// PreflightRecovered is the controller's own count of remediations that it refrained
	// from because a live read found the node healthy, -1 if it does not report them.
	PreflightRecovered float64 `json:"preflightRecovered"`

	*consumption
}

// lateCreation is a remediation for a node that had recovered.
type lateCreation struct {
	at time.Time

	Node         string  `json:"node"`
	Milliseconds float64 `json:"milliseconds"` // Since the recovery was visible.
	// SinceRead is how long before the controller had asked for the node live, and
	// SinceAnswer how long before the API server had answered, in milliseconds. Both
	// are zero if it had not.
	SinceRead   float64 `json:"sinceRead"`
	SinceAnswer float64 `json:"sinceAnswer"`
}

const (
	flappingPercent = 10
	// watchTolerance is how much later than the bench the controller may see a recovery.
	watchTolerance = 50 * time.Millisecond
	// Flapping nodes pause at random between these.
	minPause, maxPause = 100 * time.Millisecond, 600 * time.Millisecond
)

// history is when a node failed and recovered.
type history struct {
	mu sync.Mutex
	// failures were about to be sent, recoveries were seen. A node fails first, and the
	// one of a number is followed by the other of the same number: what is seen may lag
	// behind what is sent next.
	failures, recoveries map[string][]time.Time
	ready                map[string]bool // As the watch has seen it.
	flips                int
}

func newHistory() *history {
	return &history{failures: map[string][]time.Time{}, recoveries: map[string][]time.Time{}, ready: map[string]bool{}}
}

func (h *history) failing(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures[node] = append(h.failures[node], time.Now())
}

func (h *history) saw(node *corev1.Node) {
	at, ready := time.Now(), isReady(node)
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, known := h.ready[node.Name]; known && before == ready {
		return
	}
	h.ready[node.Name] = ready
	h.flips++
	if ready {
		h.recoveries[node.Name] = append(h.recoveries[node.Name], at)
	}
}

// late returns the creations that were sent although the recovery of the node could
// long be seen, and no new failure had even been sent.
func (h *history) late(creations []localkube.Request) []lateCreation {
	late := []lateCreation{}
	for _, r := range creations {
		failures, recoveries := h.failures[r.Name], h.recoveries[r.Name]
		i := countBefore(failures, r.Time) - 1 // The failure that it can be about.
		if i < 0 || i >= len(recoveries) {
			continue
		}
		if after := r.Time.Sub(recoveries[i]); after > watchTolerance {
			late = append(late, lateCreation{at: r.Time, Node: r.Name, Milliseconds: milliseconds(after)})
		}
	}
	return late
}

// addReads adds when the controller had read the nodes.
func addReads(late []lateCreation, requests []localkube.Request) {
	for i := range late {
		l := &late[i]
		for _, r := range requests { // In order.
			if r.Verb == "get" && r.Resource == "nodes" && r.Name == l.Node && r.Time.Before(l.at) {
				l.SinceRead, l.SinceAnswer = milliseconds(l.at.Sub(r.Time)), milliseconds(l.at.Sub(r.Answered))
			}
		}
	}
}

// countBefore returns how many of the ordered times are before another.
func countBefore(times []time.Time, than time.Time) int {
	n, _ := slices.BinarySearchFunc(times, than, time.Time.Compare)
	return n
}

// measureFlapping counts the remediations that come too late.
func measureFlapping(ctx context.Context, e *environment) (outcome, error) {
	h := newHistory()
	stopWatch, err := e.watchNodes(ctx, e.admin, h.saw)
	if err != nil {
		return nil, err
	}
	defer stopWatch()
	recoveredBefore := e.preflightRecovered(ctx)
	r := &flappingOutcome{Flapping: max(1, e.nodes*flappingPercent/100)}
	begin := time.Now()
	r.consumption, err = e.consume(0, func() error {
		if err := e.flap(ctx, h, e.random.Perm(e.nodes)[:r.Flapping]); err != nil {
			return err
		}
		return e.waitUntilIdle(ctx)
	})
	if err != nil {
		return nil, err
	}
	if err := e.tracker.waitFor(ctx, "the end of all remediations", e.tracker.allClean); err != nil {
		return nil, err
	}
	if r.PreflightRecovered = e.preflightRecovered(ctx); r.PreflightRecovered >= 0 && recoveredBefore > 0 {
		r.PreflightRecovered -= recoveredBefore
	}
	all, err := e.cluster.Requests()
	if err != nil {
		return nil, err
	}
	own, _ := between(all, begin, time.Now())
	creations := slices.DeleteFunc(slices.Clone(own), func(request localkube.Request) bool {
		return request.Verb != "create" || request.Resource != remediator.Resource.Resource || request.Code >= 300
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Created, r.Late = len(creations), h.late(creations)
	addReads(r.Late, own)
	r.FlipsPerSecond = float64(h.flips) / e.options.duration.Seconds()
	return r, nil
}

// flap has nodes fail and recover at random for a while, and leaves them healthy.
func (e *environment) flap(ctx context.Context, h *history, nodes []int) error {
	until := time.Now().Add(e.options.duration)
	slots := make(chan struct{}, writers) // Many at a time would only wait for each other.
	return sideBySide(ctx, len(nodes), len(nodes), func(ctx context.Context, i int) error {
		random := rand.New(rand.NewPCG(e.options.seed, uint64(i)))
		node := nodeName(nodes[i])
		for ready := false; ; ready = !ready {
			if err := sleep(ctx, minPause+time.Duration(random.Int64N(int64(maxPause-minPause)))); err != nil {
				return err
			}
			if !ready && time.Now().After(until) {
				return nil
			}
			slots <- struct{}{}
			err := e.flip(ctx, h, node, ready)
			<-slots
			if err != nil {
				return err
			}
		}
	})
}

func (e *environment) flip(ctx context.Context, h *history, node string, ready bool) error {
	if ready {
		return e.setReady(ctx, node, true)
	}
	h.failing(node)
	return e.setReady(ctx, node, false)
}

func (r *flappingOutcome) goals() []goal {
	goals := []goal{
		{Scenario: "flapping", What: "nodes that flap", Value: float64(r.Flapping)},
		{Scenario: "flapping", What: "flips", Value: r.FlipsPerSecond, Unit: "/s"},
		{Scenario: "flapping", What: "CRs created", Value: float64(r.Created)},
		{Scenario: "flapping", What: fmt.Sprintf("CRs created > %s after a visible recovery", watchTolerance), Value: float64(len(r.Late)), AtMost: new(0.0)},
		{Scenario: "flapping", What: "CPU until all was over", Value: r.CPU, Unit: "s"},
		{Scenario: "flapping", What: "status writes", Value: float64(r.Requests.statusWrites())},
	}
	if r.PreflightRecovered >= 0 {
		goals = append(goals, goal{Scenario: "flapping", What: "found recovered by the preflight", Value: r.PreflightRecovered})
	}
	return goals
}

const preflightMetric = "nhc_last_look_recovered_total"

// preflightRecovered returns how often the preflight of the controller has found a
// node healthy, and -1 if it serves no metrics where this bench can find them.
func (e *environment) preflightRecovered(ctx context.Context) float64 {
	body, err := meter.Scrape(ctx, e.controller, e.cluster.AdminConfig().BearerToken)
	if err != nil {
		return -1
	}
	return meter.Sum(body, preflightMetric)
}
