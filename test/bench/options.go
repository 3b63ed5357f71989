// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// options are the flags.
type options struct {
	sizes          []int
	controller     string
	controllerArgs []string
	scenarios      []string
	samples        int
	rounds         int
	duration       time.Duration
	seed           uint64
	strict         bool
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	sizes := flags.String("nodes", "200,1000", "Sizes of the clusters, in nodes. Each gets a control plane of its own.")
	flags.StringVar(&o.controller, "controller", "", "Executable of the controller (default NHC_CONTROLLER, or bin/nhc-controller).")
	controllerArgs := flags.String("controller-args", "", "Further arguments of the controller, separated by spaces.")
	wanted := flags.String("scenarios", "all", "Which to measure: "+strings.Join(scenarioNames(), ",")+".")
	flags.IntVar(&o.samples, "samples", 100, "Failures that latency measures, and as many controls.")
	flags.IntVar(&o.rounds, "rounds", 3, "Rounds of storm, each with a control. The medians count.")
	flags.DurationVar(&o.duration, "duration", 20*time.Second, "How long idle measures.")
	flags.BoolVar(&o.strict, "strict", false, "Exit with 1 if a goal is missed.")
	flags.Uint64Var(&o.seed, "seed", 1, "Seed of all choices.")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments: %s", strings.Join(flags.Args(), " "))
	}
	o.controllerArgs = strings.Fields(*controllerArgs)
	return o, errors.Join(o.setSizes(*sizes), o.setScenarios(*wanted), o.check())
}

func (o *options) setSizes(list string) error {
	for size := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(size))
		if err != nil || n < 10 {
			return fmt.Errorf("-nodes: %q is not a size of at least 10 nodes", size)
		}
		o.sizes = append(o.sizes, n)
	}
	return nil
}

func (o *options) setScenarios(list string) error {
	if list == "all" {
		o.scenarios = scenarioNames()
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(scenarioNames(), name) {
			return fmt.Errorf("-scenarios: there is no %q", name)
		}
		o.scenarios = append(o.scenarios, name)
	}
	return nil
}

// check finds the controller, so that its absence is reported at once.
func (o *options) check() error {
	if o.samples < 1 || o.rounds < 1 || o.duration < time.Second {
		return errors.New("numbers must be at least 1, and -duration at least 1s")
	}
	path := o.controller
	if path == "" {
		var err error
		if path, err = deploy.Executable(); err != nil {
			return err
		}
	}
	var err error
	o.controller, err = exec.LookPath(path)
	if err != nil {
		return fmt.Errorf("looking for the controller: %w", err)
	}
	// It runs in another directory.
	o.controller, err = filepath.Abs(o.controller)
	return err
}
