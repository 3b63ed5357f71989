// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	seeds  int
	only   string
	faults bool
	matrix string
	rows   string
}

func main() {
	var o options
	flag.IntVar(&o.seeds, "seeds", 200, "the number of seeds that the simulation tries for a bug")
	flag.StringVar(&o.only, "only", "", "a regular expression: plant only bugs whose name or rule it matches")
	flag.BoolVar(&o.faults, "faults", true, "run the failure tests where the simulation notices nothing")
	flag.StringVar(&o.matrix, "matrix", "", "show which of these layers notice each bug, such as unit,simulation,scenarios,integration,failure (the last two take minutes for a bug)")
	flag.StringVar(&o.rows, "rows", "", "a file to which the matrix adds its rows, and whose bugs it does not try again: so a stopped run goes on where it was")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run plants the bugs one after the other.
func run(ctx context.Context, o options) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	dir, err := os.MkdirTemp("", "planted-bugs-")
	if err != nil {
		return fmt.Errorf("making a directory for the builds: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	planted := slices.DeleteFunc(allBugs(), func(bug bug) bool { return !only.MatchString(bug.name) && !only.MatchString(bug.rule) })
	if len(planted) == 0 {
		return fmt.Errorf("no bug has a name or a rule that matches %q", o.only)
	}
	if o.matrix != "" {
		chosen, err := chooseLayers(o.matrix)
		if err != nil {
			return err
		}
		return matrix(ctx, planted, chosen, o.rows, root, dir)
	}
	survivors := []string{}
	for _, bug := range planted {
		p := &plant{bug: &bug, root: root, dir: dir}
		caught, err := p.try(ctx, o)
		notBuilt := (*commandError)(nil) // The others are planted all the same.
		switch {
		case errors.As(err, &notBuilt):
			survivors, caught = append(survivors, bug.name), "DOES NOT BUILD: "+notBuilt.output
		case err != nil:
			return fmt.Errorf("planting %q: %w", bug.name, err)
		case caught == "":
			survivors, caught = append(survivors, bug.name), "SURVIVED"
		}
		fmt.Printf("%-6s %-70s %s\n", bug.rule, bug.name, caught)
	}
	fmt.Printf("%d of %d planted bugs were caught\n", len(planted)-len(survivors), len(planted))
	if len(survivors) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(survivors, "; "))
	}
	return nil
}

// plant is one bug that is being tried.
type plant struct {
	bug       *bug
	root, dir string
	overlay   string
}

// try returns which test caught the bug and how fast, empty if none did.
func (p *plant) try(ctx context.Context, o options) (string, error) {
	if err := p.writeOverlay(); err != nil {
		return "", err
	}
	if p.bug.unit != "" || p.bug.integration != "" {
		return p.tryTests(ctx)
	}
	simulation := filepath.Join(p.dir, "simulation.test")
	if err := p.buildSimulation(ctx, simulation); err != nil {
		return "", err
	}
	caught, err := p.caughtBy(ctx, "simulation", "test/simulation", simulation, "-test.run=^TestSimulation$", "-test.failfast", "-simulation.first=1", fmt.Sprintf("-simulation.seeds=%d", o.seeds))
	if caught != "" || err != nil || !o.faults {
		return caught, err
	}
	controller, err := p.build(ctx)
	if err != nil {
		return "", err
	}
	return p.caughtBy(ctx, "failure tests", "", "env", "NHC_CONTROLLER="+controller, "go", "test", "-count=1", "-timeout=1h", "./test/faults")
}

// tryTests does the same with the tests that the bug names.
func (p *plant) tryTests(ctx context.Context) (string, error) {
	controller, err := p.build(ctx) // What cannot be built is not caught.
	if err != nil {
		return "", err
	}
	if p.bug.unit != "" {
		return p.caughtBy(ctx, "unit tests", "", "go", "test", "-count=1", "-overlay", p.overlay, "-run="+p.bug.run, "./"+p.bug.unit)
	}
	return p.caughtBy(ctx, "integration tests", "", "env", "NHC_CONTROLLER="+controller, "go", "test", "-count=1", "-timeout=10m", "-parallel=10", "-run="+p.bug.integration, "./test/integration")
}

// buildSimulation builds the simulation with the bug.
func (p *plant) buildSimulation(ctx context.Context, program string) error {
	if err := p.command(ctx, "", "go", "test", "-c", "-overlay", p.overlay, "-o", program, "./test/simulation"); err != nil {
		return fmt.Errorf("building: %w", err)
	}
	return nil
}

// build returns a controller with the bug.
func (p *plant) build(ctx context.Context) (string, error) {
	controller := filepath.Join(p.dir, "nhc-controller")
	if err := p.command(ctx, "", "go", "build", "-overlay", p.overlay, "-o", controller, "./cmd/nhc-controller"); err != nil {
		return "", fmt.Errorf("building: %w", err)
	}
	return controller, nil
}

// writeOverlay writes what replaces the source file in a build.
func (p *plant) writeOverlay() error {
	source, err := p.bug.source(p.root)
	if err != nil {
		return err
	}
	mutated := filepath.Join(p.dir, "mutated.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(p.root, p.bug.file): mutated}})
	if err != nil {
		return fmt.Errorf("encoding the overlay: %w", err)
	}
	p.overlay = filepath.Join(p.dir, "overlay.json")
	return errors.Join(os.WriteFile(mutated, source, 0o600), os.WriteFile(p.overlay, overlay, 0o600))
}

// commandError is a command that has failed by itself.
type commandError struct{ output string }

func (e *commandError) Error() string { return e.output }

// command runs a command in a directory of the repository.
func (p *plant) command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(p.root, dir)
	output, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		return &commandError{output: string(output)}
	}
	if err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// caughtBy runs tests, and returns what they have noticed and when, empty if nothing.
func (p *plant) caughtBy(ctx context.Context, tests, dir, name string, args ...string) (string, error) {
	begun := time.Now()
	err := p.command(ctx, dir, name, args...)
	failure := (*commandError)(nil)
	if !errors.As(err, &failure) {
		return "", err
	}
	return fmt.Sprintf("%s, %.0f s: %s", tests, time.Since(begun).Seconds(), firstViolation(failure.output)), nil
}

// violation finds the rule that was broken in the output of a test: a line that names one.
var violation = regexp.MustCompile(`(?m)^.*\b(?:[BM]?[0-9]{1,2}[a-d]?\.[0-9]{1,2}|P[0-9]+): .*$`)

// firstViolation returns the first line of an output that names a broken rule, or else the
// first one that names a failure.
func firstViolation(output string) string {
	line := violation.FindString(output)
	if line == "" {
		_, rest, _ := strings.Cut(output, "--- FAIL")
		line, _, _ = strings.Cut(string(bytes.TrimSpace([]byte(rest))), "\n")
	}
	line = strings.TrimSpace(line)
	return line[:min(len(line), 120)]
}
