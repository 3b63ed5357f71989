// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// scenario is one thing to measure. It finds all nodes healthy and no remediation,
// and leaves it so.
type scenario struct {
	name    string
	measure func(ctx context.Context, e *environment) (outcome, error)
}

// scenarios are performed in this order, the one that stops the controller last.
func scenarios() []scenario {
	return []scenario{
		{"idle", measureIdle},
		{"latency", measureLatency},
		{"storm", measureStorm},
		{"machines", measureMachines},
	}
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// outcome is what a scenario has measured.
type outcome interface {
	// goals returns what there is to say about it, row by row.
	goals() []goal
}

// measure performs the scenarios in a new cluster.
func measure(ctx context.Context, o *options, nodes int) (result *sizeResult, err error) {
	fmt.Printf("\n%d nodes\n", nodes)
	e, err := newEnvironment(ctx, o, nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	result = &sizeResult{Nodes: nodes, Outcomes: map[string]outcome{}}
	for _, s := range scenarios() {
		if !slices.Contains(o.scenarios, s.name) {
			continue
		}
		begin := time.Now()
		measured, err := e.perform(ctx, s)
		if err != nil {
			return result, fmt.Errorf("%s: %w", s.name, err)
		}
		result.Outcomes[s.name] = measured
		e.logf("%s: done after %.1f s", s.name, time.Since(begin).Seconds())
		printGoals(os.Stdout, "  ", measured.goals())
	}
	return result, nil
}

// perform performs one scenario.
func (e *environment) perform(ctx context.Context, s scenario) (outcome, error) {
	// Each has choices of its own, whichever were performed before.
	e.random = rand.New(rand.NewPCG(e.options.seed, uint64(slices.Index(scenarioNames(), s.name))))
	measured, err := s.measure(ctx, e)
	if err != nil && e.controller != nil {
		err = fmt.Errorf("%w\nlast lines of the controller's log:\n%s", err, e.controller.LogTail())
	}
	return measured, err
}
