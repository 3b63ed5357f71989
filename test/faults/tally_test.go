// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// tally sums up what the runs of each test have seen. Its methods may be called from
// any goroutine.
type tally struct {
	mu    sync.Mutex
	tests map[string]*sum
	// checked are how often each rule was checked.
	checked map[string]int
}

// sum is that of the runs of a test.
type sum struct {
	runs, faults, injected, events, checks, creations, deletions, violations int
}

// total is the tally of this run of the tests.
var total = tally{tests: map[string]*sum{}, checked: map[string]int{}}

// of returns the sum of a test, which a subtest belongs to. t.mu must be held.
func (t *tally) of(name string) *sum {
	test, _, _ := strings.Cut(name, "/")
	if t.tests[test] == nil {
		t.tests[test] = &sum{}
	}
	return t.tests[test]
}

// add adds a run.
func (t *tally) add(name string, figures rules.Figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(name)
	s.runs++
	s.faults += figures.Faults
	s.events += figures.Events
	s.checks += figures.Total()
	s.creations += figures.Creations
	s.deletions += figures.Deletions
	s.violations += figures.Violations
	for rule, n := range figures.Checks {
		t.checked[rule] += n
	}
}

// addInjected adds what a proxy has done to requests, answers and watches.
func (t *tally) addInjected(name string, faults map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range faults {
		t.of(name).injected += n
	}
}

// unchecked returns the rules that no run has checked.
func (t *tally) unchecked() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return rules.Unchecked(t.checked)
}

// print prints a line per test, and one for all.
func (t *tally) print(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "test\truns\tfaults\trequests hit\tchanges judged\trules checked\tCRs created\tdeleted\tviolations\t")
	row := func(name string, s *sum) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, s.runs, s.faults, s.injected, s.events, s.checks, s.creations, s.deletions, s.violations)
	}
	all := &sum{}
	for _, name := range slices.Sorted(maps.Keys(t.tests)) {
		s := t.tests[name]
		row(name, s)
		all.runs += s.runs
		all.faults += s.faults
		all.injected += s.injected
		all.events += s.events
		all.checks += s.checks
		all.creations += s.creations
		all.deletions += s.deletions
		all.violations += s.violations
	}
	row("all", all)
	return table.Flush()
}
