// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/meter"
)

// stormOutcome is what happens when many nodes fail at once, and recover.
type stormOutcome struct {
	Failing int // Nodes.
	Rounds  []stormRound

	// Medians of the rounds, in seconds.
	Create         float64
	CreateControl  float64
	CreateRatio    float64
	CRsGone        float64
	CRsGoneControl float64
	Recover        float64
	RecoverControl float64
	RecoverRatio   float64

	PeakRSS         int64
	Limit           int64 // Of the memory.
	CPU             float64
	RequestsPerNode float64
	EventsPerNode   float64
	StatusWrites    float64
	ObjectBytes     int
}

// stormRound is one storm, and the control before it. All times are in seconds.
type stormRound struct {
	Controller wave
	Control    wave

	// Usage is that of the controller until the status did not change any more. Events
	// may still be on their way.
	Usage *consumption
	// ObjectBytes is the size of the NodeHealthCheck, in JSON, when all remediations
	// were there, and Listed the number of nodes in its status.
	ObjectBytes int
	Listed      int
}

// wave is a failure of many nodes, and their recovery.
type wave struct {
	Flips   float64 // Until all failures were written.
	Create  float64 // From the first failure until the last remediation.
	Heals   float64 // Until all recoveries were written.
	CRsGone float64 // From the first recovery until the last remediation was gone.
	Recover float64 // From the first recovery until nothing was left.
}

const (
	stormPercent  = 40
	atMostInStorm = 1.5
	// reactors are how many nodes the control works on at a time, as many as the
	// controller does.
	reactors = 32
)

// measureStorm lets the control and the controller have the same storm. One is stopped while
// the other works: there are always as many watches of all nodes.
func measureStorm(ctx context.Context, e *environment) (outcome, error) {
	r := &stormOutcome{Failing: max(1, e.nodes*stormPercent/100), Limit: e.limit}
	for i := range e.options.rounds {
		victims := e.random.Perm(e.nodes)[:r.Failing]
		var round stormRound
		// The second one finds a database with more history: they take turns.
		storms := []func(context.Context, []int, *stormRound) error{e.controlStorm, e.controllerStorm}
		if i%2 == 1 {
			slices.Reverse(storms)
		}
		for _, storm := range storms {
			if err := storm(ctx, victims, &round); err != nil {
				return nil, fmt.Errorf("round %d: %w", i+1, err)
			}
		}
		e.logf("storm: round %d: %.2f s until all were remediated (control %.2f s), %.2f s until all was over (control %.2f s)", i+1,
			round.Controller.Create, round.Control.Create, round.Controller.Recover, round.Control.Recover)
		r.Rounds = append(r.Rounds, round)
	}
	r.summarize()
	if e.controller == nil {
		return r, e.startController(ctx)
	}
	return r, nil
}

func (e *environment) controlStorm(ctx context.Context, victims []int, round *stormRound) error {
	e.stopController()
	control, err := e.startControl(ctx, minimal, "-preflight", fmt.Sprintf("-workers=%d", reactors))
	if err != nil {
		return err
	}
	round.Control, err = e.wave(ctx, victims, func() error { return nil })
	return errors.Join(err, control.end(ctx))
}

func (e *environment) controllerStorm(ctx context.Context, victims []int, round *stormRound) error {
	e.stopController()
	if err := e.startController(ctx); err != nil {
		return err
	}
	if err := meter.ResetPeak(e.controller.Pid()); err != nil {
		return err
	}
	var err error
	round.Usage, err = e.consume(func() error {
		if round.Controller, err = e.wave(ctx, victims, func() error { return e.inspect(ctx, round) }); err != nil {
			return err
		}
		return e.awaitQuietStatus(ctx)
	})
	return err
}

// inspect reads the NodeHealthCheck while all remediations are there and it does
// not change any more.
func (e *environment) inspect(ctx context.Context, round *stormRound) error {
	if err := e.awaitQuietStatus(ctx); err != nil {
		return err
	}
	raw, err := e.admin.nhc.RemediationV1alpha1().RESTClient().Get().Resource("nodehealthchecks").Name(nhcName).
		VersionedParams(&metav1.GetOptions{}, metav1.ParameterCodec).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("reading the NodeHealthCheck: %w", err)
	}
	round.ObjectBytes = len(raw)
	e.tracker.read(func() { round.Listed = len(e.tracker.listed) })
	return nil
}

// awaitQuietStatus waits until the status has not changed for a while: the controller writes
// it when it has handled the last of many nodes. Each node has several events, which may
// still be on their way for minutes.
func (e *environment) awaitQuietStatus(ctx context.Context) error {
	const enough = 3 * time.Second
	begin := time.Now()
	for {
		var seen time.Time
		e.tracker.read(func() { seen = e.tracker.statusSeen })
		if time.Since(begin) > enough && time.Since(seen) > enough {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// wave has nodes fail, calls meanwhile when all have a remediation, and has them
// recover.
func (e *environment) wave(ctx context.Context, victims []int, meanwhile func() error) (wave, error) {
	var r wave
	t := e.tracker
	flip := func(ready bool) (begin time.Time, took float64, err error) {
		begin = time.Now()
		err = sideBySide(ctx, len(victims), writers, func(ctx context.Context, i int) error {
			return e.setReady(ctx, nodeName(victims[i]), ready)
		})
		return begin, time.Since(begin).Seconds(), err
	}
	begin, took, err := flip(false)
	if err != nil {
		return r, err
	}
	r.Flips = took
	var last time.Time
	err = t.waitFor(ctx, "all remediations", func() bool { return len(t.crs) >= len(victims) })
	t.read(func() {
		for _, at := range t.crs {
			if at.After(last) {
				last = at
			}
		}
	})
	if err != nil {
		return r, err
	}
	r.Create = last.Sub(begin).Seconds()
	if err := meanwhile(); err != nil {
		return r, err
	}
	if begin, r.Heals, err = flip(true); err != nil {
		return r, err
	}
	if err := t.waitFor(ctx, "the end of all remediations", t.allClean); err != nil {
		return r, err
	}
	t.read(func() {
		r.CRsGone = t.crGone.Sub(begin).Seconds()
		last = slices.MaxFunc([]time.Time{t.crGone, t.leaseGone, t.statusSeen}, time.Time.Compare)
	})
	r.Recover = last.Sub(begin).Seconds()
	return r, nil
}

func (r *stormOutcome) summarize() {
	of := func(value func(stormRound) float64) float64 {
		var values []float64
		for _, round := range r.Rounds {
			values = append(values, value(round))
		}
		return median(values)
	}
	r.Create, r.CreateControl = of(func(s stormRound) float64 { return s.Controller.Create }), of(func(s stormRound) float64 { return s.Control.Create })
	r.Recover, r.RecoverControl = of(func(s stormRound) float64 { return s.Controller.Recover }), of(func(s stormRound) float64 { return s.Control.Recover })
	r.CRsGone, r.CRsGoneControl = of(func(s stormRound) float64 { return s.Controller.CRsGone }), of(func(s stormRound) float64 { return s.Control.CRsGone })
	r.CreateRatio, r.RecoverRatio = ratio(r.Create, r.CreateControl), ratio(r.Recover, r.RecoverControl)
	r.CPU = of(func(s stormRound) float64 { return s.Usage.CPU })
	r.StatusWrites = of(func(s stormRound) float64 { return float64(s.Usage.Requests.statusWrites) })
	r.RequestsPerNode = of(func(s stormRound) float64 { return float64(s.Usage.Requests.others) / float64(r.Failing) })
	r.EventsPerNode = of(func(s stormRound) float64 { return float64(s.Usage.Requests.events) / float64(r.Failing) })
	for _, round := range r.Rounds {
		r.PeakRSS, r.ObjectBytes = max(r.PeakRSS, round.Usage.PeakRSS), max(r.ObjectBytes, round.ObjectBytes)
	}
}

func (r *stormOutcome) goals() []goal {
	return []goal{
		{Scenario: "storm", What: "nodes that fail at once", Value: float64(r.Failing)},
		{Scenario: "storm", What: "first failure to last CR (control)", Value: r.Create, Control: new(r.CreateControl), Unit: "s"},
		{Scenario: "storm", What: "ratio of these", Value: r.CreateRatio, AtMost: new(atMostInStorm)},
		{Scenario: "storm", What: "first recovery to CRs gone (control)", Value: r.CRsGone, Control: new(r.CRsGoneControl), Unit: "s"},
		{Scenario: "storm", What: "first recovery to all gone (control)", Value: r.Recover, Control: new(r.RecoverControl), Unit: "s"},
		{Scenario: "storm", What: "ratio of these", Value: r.RecoverRatio, AtMost: new(atMostInStorm)},
		{Scenario: "storm", What: "peak memory", Value: megabytes(r.PeakRSS), Unit: "MB", AtMost: new(megabytes(r.Limit))},
		{Scenario: "storm", What: "CPU", Value: r.CPU, Unit: "s"},
		{Scenario: "storm", What: "requests per node", Value: r.RequestsPerNode},
		{Scenario: "storm", What: "events per node so far", Value: r.EventsPerNode},
		{Scenario: "storm", What: "status writes", Value: r.StatusWrites},
		{Scenario: "storm", What: "nodes in its status", Value: float64(r.Rounds[len(r.Rounds)-1].Listed)},
		{Scenario: "storm", What: "size of the NodeHealthCheck", Value: float64(r.ObjectBytes) / 1000, Unit: "kB"},
	}
}
