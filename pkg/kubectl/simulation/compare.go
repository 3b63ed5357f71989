// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Comparison is what differs between two simulations of the same nodes.
type Comparison struct {
	// Against names the rules of the first simulation.
	Against string `json:"against"`
	// Before and After are the numbers of remediations.
	Before int `json:"before"`
	After  int `json:"after"`
	// Differences are in order of time.
	Differences []Difference `json:"differences"`
	// Summary has the numbers of both.
	Summary Summary `json:"summary"`
}

// Differs is what differs between two remediations.
type Differs string

// All differences.
const (
	NotStarted Differs = "would not have started"
	Additional Differs = "would have started, too"
	Later      Differs = "would have started later"
	Earlier    Differs = "would have started earlier"
	OtherSteps Differs = "would have had other steps"
)

// Difference is about one remediation.
type Difference struct {
	// After is when it began, after the start: in the first simulation, or if it began only in the
	// second one, there.
	After metav1.Duration `json:"after"`
	Node  string          `json:"node"`
	What  Differs         `json:"what"`
	// By is how much later or earlier.
	By  *metav1.Duration `json:"by,omitempty"`
	Why string           `json:"why,omitempty"`
}

// Compare compares the remediations of two simulations. A remediation has its counterpart in the
// same node, whichever NodeHealthCheck it is of, at a time that overlaps.
func Compare(against string, before, after *Result) *Comparison {
	c := &Comparison{Against: against, Before: remediations(before), After: remediations(after), Summary: before.Summary, Differences: []Difference{}}
	candidates := map[string][]*Episode{}
	for _, episode := range after.Episodes {
		candidates[episode.Node] = append(candidates[episode.Node], episode)
	}
	paired := map[*Episode]bool{}
	for _, old := range before.Episodes {
		if old.Began != nil {
			c.compare(old, candidates[old.Node], paired)
		}
	}
	for _, episode := range after.Episodes {
		if episode.Began != nil && !paired[episode] {
			c.Differences = append(c.Differences, Difference{After: *episode.Began, Node: episode.Node, What: Additional, Why: "by " + episode.Check})
		}
	}
	slices.SortStableFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.After.Duration, b.After.Duration), cmp.Compare(a.Node, b.Node))
	})
	return c
}

// remediations returns how many remediations have begun.
func remediations(result *Result) (n int) {
	for _, episode := range result.Episodes {
		if episode.Began != nil {
			n++
		}
	}
	return n
}

// compare compares a remediation with its counterpart among the episodes of its node.
func (c *Comparison) compare(old *Episode, candidates []*Episode, paired map[*Episode]bool) {
	difference := Difference{After: *old.Began, Node: old.Node}
	var waiting *Episode
	for _, fresh := range candidates {
		if !overlap(old, fresh) || paired[fresh] {
			continue
		}
		if fresh.Began == nil {
			waiting = fresh
			continue
		}
		paired[fresh] = true
		if difference.compareBegun(old, fresh) {
			c.Differences = append(c.Differences, difference)
		}
		return
	}
	difference.What, difference.Why = NotStarted, "the node would not have been unhealthy for long enough, or would still have been under remediation"
	if waiting != nil {
		difference.Why = waiting.Waits
	}
	c.Differences = append(c.Differences, difference)
}

// compareBegun compares two remediations, and reports whether they differ.
func (d *Difference) compareBegun(old, fresh *Episode) bool {
	switch by := fresh.Began.Duration - old.Began.Duration; {
	case by > 0:
		d.What, d.By, d.Why = Later, &metav1.Duration{Duration: by}, fresh.Waits
		if d.Why == "" {
			d.Why = "unhealthy " + (fresh.Detected.Duration - old.Detected.Duration).Truncate(time.Second).String() + " later"
		}
	case by < 0:
		d.What, d.By, d.Why = Earlier, &metav1.Duration{Duration: -by}, old.Waits
		if d.Why != "" {
			d.Why = "without waiting for " + old.Waits
		}
	case fresh.Steps != old.Steps:
		d.What, d.Why = OtherSteps, fmt.Sprintf("%d instead of %d", fresh.Steps, old.Steps)
	default:
		return false
	}
	return true
}

// overlap reports whether two episodes have an instant in common.
func overlap(a, b *Episode) bool {
	return (b.Ended == nil || a.Detected.Duration < b.Ended.Duration) && (a.Ended == nil || b.Detected.Duration < a.Ended.Duration)
}
