// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testreport reads the output of `go test -json`. It prints the tests that were skipped,
// and the slowest tests whose results do not come from Go's cache. It fails if a skipped test is
// not in a list of tests that may be skipped, or if nothing was run:
//
//	testreport -skips hack/skips.txt _output/*.json
package main

import (
	"bufio"
	"encoding/json"
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
	skips := flag.String("skips", "", "file with the tests that may be skipped: package and test, separated by a space")
	slowest := flag.Int("slowest", 20, "how many tests to print")
	flag.Parse()
	if err := run(os.Stdout, *skips, *slowest, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, skips string, slowest int, files []string) error {
	allowed, err := readSkips(skips)
	if err != nil {
		return err
	}
	var results []result
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
	return checkSkips(out, results, allowed)
}

// result is how a test ended, or a subtest.
type result struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
	// Cached means that the package has not changed since the test passed, so that it was not run.
	Cached bool
}

func (r result) name() string {
	return strings.TrimPrefix(r.Package, "github.com/nhc-controller/nhc-controller/") + " " + r.Test
}

// parse returns the results in the output of `go test -json`.
func parse(r io.Reader) ([]result, error) {
	var results []result
	cached := map[string]bool{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			for i := range results {
				results[i].Cached = cached[results[i].Package]
			}
			return results, nil
		}
		if err != nil {
			return nil, err
		}
		var event result
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		if event.Test == "" && strings.HasPrefix(event.Output, "ok ") && strings.Contains(event.Output, "(cached)") {
			cached[event.Package] = true
		}
		if event.Test != "" && slices.Contains([]string{"pass", "fail", "skip"}, event.Action) {
			results = append(results, event)
		}
	}
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
func printSlowest(out io.Writer, results []result, n int) {
	tests := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.Cached || strings.Contains(r.Test, "/") })
	slices.SortStableFunc(tests, func(a, b result) int { return int(1000 * (b.Elapsed - a.Elapsed)) })
	fmt.Fprintf(out, "The slowest of %d tests:\n", len(tests))
	for _, test := range tests[:min(n, len(tests))] {
		elapsed := time.Duration(test.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
		fmt.Fprintf(out, "%10s  %s\n", elapsed, test.name())
	}
}

// printCached prints how many packages were not tested because they have not changed.
func printCached(out io.Writer, results []result) {
	packages := map[string]bool{}
	for _, r := range results {
		if r.Cached {
			packages[r.Package] = true
		}
	}
	if len(packages) > 0 {
		fmt.Fprintf(out, "unchanged since their tests passed: %d packages\n", len(packages))
	}
}

// checkSkips prints the skipped tests, and fails if one may not be skipped.
func checkSkips(out io.Writer, results []result, allowed []string) error {
	if len(results) == 0 {
		return errors.New("no test was run")
	}
	var errs []error
	for _, r := range results {
		if r.Action != "skip" {
			continue
		}
		fmt.Fprintf(out, "skipped: %s\n", r.name())
		if !slices.Contains(allowed, r.name()) {
			errs = append(errs, fmt.Errorf("%s was skipped, and is not on the list of tests that may be", r.name()))
		}
	}
	return errors.Join(errs...)
}
