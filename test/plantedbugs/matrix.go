// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// layer is a kind of tests. The matrix runs all of them with each bug.
type layer struct {
	name string
	// needs is a program that is built with the bug: the simulation, the controller, or nothing.
	needs string
	// dir is relative to the root of the repository, and command has the paths of the program and of the overlay.
	dir     string
	command func(program, overlay string) []string
}

var layers = []layer{
	{name: "unit", command: func(_, overlay string) []string {
		return []string{"go", "test", "-vet=off", "-timeout=10m", "-overlay=" + overlay, "./pkg/...", "./cmd/..."}
	}},
	{name: "simulation", needs: "simulation.test", dir: "test/simulation", command: func(program, _ string) []string {
		return []string{program, "-test.cpu=4", "-test.timeout=10m", "-test.failfast", "-test.run=^TestSimulation$", "-simulation.first=1", "-simulation.seeds=200"}
	}},
	{name: "scenarios", needs: "simulation.test", dir: "test/simulation", command: func(program, _ string) []string {
		return []string{program, "-test.cpu=4", "-test.timeout=10m", "-test.failfast", "-test.skip=^TestSimulation$"}
	}},
	{name: "integration", needs: "nhc-controller", command: func(program, _ string) []string {
		return []string{"env", "NHC_CONTROLLER=" + program, "go", "test", "-count=1", "-timeout=1h", "-parallel=32", "./test/integration"}
	}},
	{name: "failure", needs: "nhc-controller", command: func(program, _ string) []string {
		return []string{"env", "NHC_CONTROLLER=" + program, "go", "test", "-count=1", "-timeout=1h", "./test/faults"}
	}},
}

// chooseLayers returns the layers of a list of names.
func chooseLayers(names string) ([]layer, error) {
	var chosen []layer
	for name := range strings.SplitSeq(names, ",") {
		known := len(chosen)
		for _, l := range layers {
			if l.name == name {
				chosen = append(chosen, l)
			}
		}
		if len(chosen) == known {
			return nil, fmt.Errorf("there is no layer %q", name)
		}
	}
	return chosen, nil
}

// matrix prints which of the layers notice each bug. Before that, none of them may notice anything without a bug. It
// leaves out the bugs that have a row in a file, and adds the others.
func matrix(ctx context.Context, planted []bug, chosen []layer, rows, root, dir string) error {
	file, known, err := openRows(rows)
	if err != nil {
		return err
	}
	defer file.Close()
	planted = slices.DeleteFunc(planted, func(bug bug) bool { return strings.Contains(known, rowOf(&bug)) })
	if len(planted) == 0 {
		return nil
	}
	none := planted[0]
	none.name, none.rule, none.new = "no bug", "", none.old
	byLayer, byNumber := map[string]int{}, map[int]int{}
	for i, bug := range append([]bug{none}, planted...) {
		p := &plant{bug: &bug, root: root, dir: dir}
		row := []string{rowOf(&bug)}
		noticed := 0
		for _, l := range chosen {
			begun := time.Now()
			is, err := p.noticed(ctx, l)
			notBuilt := (*commandError)(nil) // The others are planted all the same.
			switch {
			case errors.As(err, &notBuilt):
				row = append(row, l.name+" does not build")
			case err != nil:
				return fmt.Errorf("planting %q: %w", bug.name, err)
			case is:
				noticed++
				byLayer[l.name]++
				row = append(row, fmt.Sprintf("%s %.0fs", l.name, time.Since(begun).Seconds()))
			default:
				row = append(row, l.name+" -")
			}
		}
		fmt.Println(strings.Join(row, "  "))
		if i == 0 && noticed > 0 {
			return errors.New("tests fail without a bug")
		}
		if i > 0 {
			byNumber[noticed]++
			fmt.Fprintln(file, strings.Join(row, "  "))
		}
	}
	for _, l := range chosen {
		fmt.Printf("%s: %d of %d\n", l.name, byLayer[l.name], len(planted))
	}
	for number := range len(chosen) + 1 {
		fmt.Printf("noticed by %d layers: %d\n", number, byNumber[number])
	}
	return nil
}

// rowOf is how the row of a bug begins.
func rowOf(bug *bug) string { return fmt.Sprintf("%-6s %-70s ", bug.rule, bug.name) }

// openRows opens the file of rows, and reads what it has.
func openRows(name string) (*os.File, string, error) {
	if name == "" {
		name = os.DevNull
	}
	known, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return nil, "", fmt.Errorf("reading the rows: %w", err)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("opening the rows: %w", err)
	}
	return file, string(known), nil
}

// noticed reports whether a test of a layer fails with the bug. Tests that only take too long do not count.
func (p *plant) noticed(ctx context.Context, l layer) (bool, error) {
	if err := p.writeOverlay(); err != nil {
		return false, err
	}
	program := filepath.Join(p.dir, l.needs)
	var err error
	switch l.needs {
	case "simulation.test":
		err = p.buildSimulation(ctx, program)
	case "nhc-controller":
		program, err = p.build(ctx)
	}
	if err != nil {
		return false, err
	}
	command := l.command(program, p.overlay)
	err = p.command(ctx, l.dir, command[0], command[1:]...)
	failure := (*commandError)(nil)
	switch {
	case !errors.As(err, &failure):
		return false, err
	case strings.Contains(failure.output, "[build failed]"):
		return false, failure
	}
	return !strings.Contains(failure.output, "panic: test timed out") || strings.Contains(failure.output, "--- FAIL"), nil
}
