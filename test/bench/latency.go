// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"
)

// latencyOutcome is how soon remediations appear, and vanish.
type latencyOutcome struct {
	// From the moment at which a failure was sent until the remediation was seen.
	Controller distribution
	Control    distribution
	RatioP50   float64
	RatioP99   float64

	// From the moment at which a recovery was sent until the remediation was gone.
	Recovery        distribution
	RecoveryControl distribution

	*consumption

	// RequestsPerFailure are those of a failure and its recovery, without events.
	RequestsPerFailure float64
	EventsPerFailure   float64
}

// Goals of latency, as ratios to the control.
const (
	atMostP50 = 3.0
	atMostP99 = 6.0
)

// latencies are the times of all samples.
type latencies struct {
	controller, control       []time.Duration
	recovery, recoveryControl []time.Duration
}

func measureLatency(ctx context.Context, e *environment) (outcome, error) {
	control, err := e.startControl(ctx, "-group="+groupControl)
	if err != nil {
		return nil, err
	}
	l := &latencies{}
	consumed, err := e.consume(func() error {
		for i := range e.options.samples {
			if err := e.sampleLatency(ctx, l, i%2 == 0); err != nil {
				return err
			}
		}
		// The events of the last one are still on their way.
		return e.waitUntilIdle(ctx)
	})
	if err := errors.Join(err, control.end(ctx)); err != nil {
		return nil, err
	}
	r := &latencyOutcome{
		consumption: consumed,
		Controller:  distributionOf(l.controller), Control: distributionOf(l.control),
		Recovery: distributionOf(l.recovery), RecoveryControl: distributionOf(l.recoveryControl),
	}
	r.RatioP50, r.RatioP99 = ratio(r.Controller.P50, r.Control.P50), ratio(r.Controller.P99, r.Control.P99)
	requests, events := consumed.Requests.others, consumed.Requests.events
	r.RequestsPerFailure = float64(requests) / float64(e.options.samples)
	r.EventsPerFailure = float64(events) / float64(e.options.samples)
	return r, nil
}

// sampleLatency measures the controller and the control once each.
func (e *environment) sampleLatency(ctx context.Context, l *latencies, controlFirst bool) error {
	measured := func() error {
		node := nodeName(e.random.IntN(e.nodes))
		appeared, vanished, err := e.failAndRecover(ctx, node, true)
		l.controller, l.recovery = append(l.controller, appeared), append(l.recovery, vanished)
		return err
	}
	control := func() error {
		appeared, vanished, err := e.failAndRecover(ctx, controlName(e.random.IntN(controlNodes)), false)
		l.control, l.recoveryControl = append(l.control, appeared), append(l.recoveryControl, vanished)
		return err
	}
	if controlFirst {
		measured, control = control, measured
	}
	if err := measured(); err != nil {
		return err
	}
	return control()
}

// failAndRecover makes a node fail, and recover when its remediation was seen and, if
// someone writes a status, listed.
func (e *environment) failAndRecover(ctx context.Context, node string, listed bool) (appeared, vanished time.Duration, err error) {
	begin := time.Now()
	if err = e.setReady(ctx, node, false); err != nil {
		return
	}
	seen, err := e.awaitCR(ctx, node)
	if err != nil {
		return 0, 0, err
	}
	appeared = seen.Sub(begin)
	if listed {
		if err = e.tracker.waitFor(ctx, "the entry of "+node, func() bool { return e.tracker.listed[node] }); err != nil {
			return
		}
	}
	vanished, err = e.recover(ctx, node)
	return
}

// awaitCR returns when the remediation of a node was seen.
func (e *environment) awaitCR(ctx context.Context, node string) (at time.Time, err error) {
	err = e.tracker.waitFor(ctx, "the remediation of "+node, func() bool {
		at = e.tracker.crs[node]
		return !at.IsZero()
	})
	return at, err
}

// recover has a node recover, and returns after which time its remediation was gone.
// It waits until everything is.
func (e *environment) recover(ctx context.Context, node string) (time.Duration, error) {
	healed := time.Now()
	if err := e.setReady(ctx, node, true); err != nil {
		return 0, err
	}
	var gone time.Time
	err := e.tracker.waitFor(ctx, "the end of the remediation of "+node, func() bool {
		if _, there := e.tracker.crs[node]; !there && gone.IsZero() {
			gone = e.tracker.crGone
		}
		return e.tracker.clean(node)
	})
	return gone.Sub(healed), err
}

func (r *latencyOutcome) goals() []goal {
	goals := []goal{
		{Scenario: "latency", What: "failure to CR, p50 (control)", Value: r.Controller.P50, Control: new(r.Control.P50), Unit: "ms"},
		{Scenario: "latency", What: "failure to CR, p90 (control)", Value: r.Controller.P90, Control: new(r.Control.P90), Unit: "ms"},
		{Scenario: "latency", What: "failure to CR, max (control)", Value: r.Controller.Max, Control: new(r.Control.Max), Unit: "ms"},
		{Scenario: "latency", What: "ratio of p50", Value: r.RatioP50, AtMost: new(atMostP50)},
		{Scenario: "latency", What: "recovery to CR gone, p50 (control)", Value: r.Recovery.P50, Control: new(r.RecoveryControl.P50), Unit: "ms"},
		{Scenario: "latency", What: "requests per failure and recovery", Value: r.RequestsPerFailure},
		{Scenario: "latency", What: "events per failure and recovery", Value: r.EventsPerFailure},
	}
	if r.Controller.Count >= enoughForP99 {
		goals = append(goals,
			goal{Scenario: "latency", What: "failure to CR, p99 (control)", Value: r.Controller.P99, Control: new(r.Control.P99), Unit: "ms"},
			goal{Scenario: "latency", What: "ratio of p99", Value: r.RatioP99, AtMost: new(atMostP99)},
			goal{Scenario: "latency", What: "recovery to CR gone, p99 (control)", Value: r.Recovery.P99, Control: new(r.RecoveryControl.P99), Unit: "ms"})
	}
	return goals
}
