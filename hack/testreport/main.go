// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testreport reads the output of `go test -json`. While tests run, it prints their results, and the output of
// those that fail, and keeps what it read in a file:
//
//	go test -json ./... | testreport -keep _output/tests/unit.json
//
// Afterwards it sums up what was kept: the skipped tests, the slowest tests whose results do not come from Go's
// cache, and how many tests passed and failed. It fails if a test failed, if a skipped test is not in a list of tests that
// may be skipped, or if nothing was run:
//
//	testreport -skips hack/skips.txt _output/tests/*.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	keep := flag.String("keep", "", "follow the tests on standard input, and keep their events in this file")
	each := flag.Bool("tests", false, "with -keep: print a line for each test, not for each package")
	skips := flag.String("skips", "", "file with the tests that may be skipped: package and test, separated by a space")
	slowest := flag.Int("slowest", 10, "how many tests to print")
	flag.Parse()
	var err error
	if *keep != "" {
		err = followInto(*keep, os.Stdin, os.Stdout, *each)
	} else {
		err = run(os.Stdout, *skips, *slowest, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, skips string, slowest int, files []string) error {
	allowed, err := readSkips(skips)
	if err != nil {
		return err
	}
	var results []event
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		found, err := parse(file)
		file.Close()
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		results = append(results, found...)
	}
	printSlowest(out, results, slowest)
	printCached(out, results)
	return errors.Join(checkSkips(out, results, allowed), printSum(out, results))
}

// parse returns how the tests ended, and the packages that failed without a failed test.
func parse(r io.Reader) ([]event, error) {
	var results []event
	cached, failed := map[string]bool{}, map[string]bool{}
	err := read(r, func(e *event) error {
		switch {
		case e.isCached():
			cached[e.Package] = true
		case e.Test != "" && e.isResult():
			failed[e.Package] = failed[e.Package] || e.Action == fail
			results = append(results, *e)
		case e.Action == fail && !failed[e.Package]: // It did not compile, or panicked outside of a test.
			results = append(results, *e)
		}
		return nil
	})
	for i := range results {
		results[i].Cached = cached[results[i].Package]
	}
	return results, err
}

// readSkips returns the lines of a file that are no comments.
func readSkips(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var allowed []string
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			allowed = append(allowed, line)
		}
	}
	return allowed, nil
}

// printSlowest prints the tests that took longest, without subtests.
func printSlowest(out io.Writer, results []event, n int) {
	tests := slices.DeleteFunc(slices.Clone(results), func(e event) bool { return e.Cached || strings.Contains(e.Test, "/") })
	slices.SortStableFunc(tests, func(a, b event) int { return int(1000 * (b.Elapsed - a.Elapsed)) })
	fmt.Fprintf(out, "The slowest of %d tests:\n", len(tests))
	for _, test := range tests[:min(n, len(tests))] {
		fmt.Fprintf(out, "%10s  %s\n", test.elapsed(), test.name())
	}
}

func (e *event) elapsed() time.Duration {
	return time.Duration(e.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
}

// printCached prints how many packages were not tested because they have not changed.
func printCached(out io.Writer, results []event) {
	packages := map[string]bool{}
	for i := range results {
		if results[i].Cached {
			packages[results[i].Package] = true
		}
	}
	if len(packages) > 0 {
		fmt.Fprintf(out, "unchanged since their tests passed: %d packages\n", len(packages))
	}
}

// checkSkips prints the skipped tests, and fails if one may not be skipped.
func checkSkips(out io.Writer, results []event, allowed []string) error {
	if len(results) == 0 {
		return errors.New("no test was run")
	}
	var errs []error
	for i := range results {
		if results[i].Action != skip {
			continue
		}
		name := results[i].name()
		fmt.Fprintf(out, "skipped: %s\n", name)
		if !slices.Contains(allowed, name) {
			errs = append(errs, fmt.Errorf("%s was skipped, and is not on the list of tests that may be", name))
		}
	}
	return errors.Join(errs...)
}

// printSum prints the line that ends a run, after the names of what failed.
func printSum(out io.Writer, results []event) error {
	sum := map[string]int{}
	for i := range results {
		sum[results[i].Action]++
		if results[i].Action == fail {
			fmt.Fprintf(out, "failed: %s\n", results[i].name())
		}
	}
	line := fmt.Sprintf("%d passed, %d failed", sum[pass], sum[fail])
	if sum[skip] > 0 {
		line += fmt.Sprintf(", %d skipped", sum[skip])
	}
	fmt.Fprintln(out, line)
	if sum[fail] > 0 {
		return errors.New("tests failed")
	}
	return nil
}
