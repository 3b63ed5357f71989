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

// Comparison has the differences from another simulation of the same recording.
type Comparison struct {
	// Against is where the other configuration comes from, and Summary has its numbers.
	Against string  `json:"against"`
	Summary Summary `json:"summary"`
	// Differences are in order of time.
	Differences []Difference `json:"differences"`
}

// Differs is how a remediation differs.
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
	// After is how long after the start it began with the other configuration. An Additional one did
	// not begin there: it is when it begins here.
	After metav1.Duration `json:"after"`
	Node  string          `json:"node"`
	What  Differs         `json:"what"`
	// By is how much later or earlier it begins.
	By  *metav1.Duration `json:"by,omitempty"`
	Why string           `json:"why,omitempty"`
}

// Count returns how many differences there are of a kind.
func (c *Comparison) Count(what Differs) (n int) {
	for i := range c.Differences {
		if c.Differences[i].What == what {
			n++
		}
	}
	return n
}

// Compare returns the differences after a change of the configuration. The counterpart of a remediation is
// a remediation of the same node in an overlapping episode, of any NodeHealthCheck.
func Compare(against string, before, after *Result) *Comparison {
	c := &Comparison{Against: against, Summary: before.Summary, Differences: []Difference{}}
	episodes := map[string][]*Episode{}
	for _, episode := range after.Episodes {
		episodes[episode.Node] = append(episodes[episode.Node], episode)
	}
	paired := map[*Episode]bool{}
	for _, old := range before.Episodes {
		if old.Began == nil {
			continue
		}
		if difference := compareEpisode(old, episodes[old.Node], paired); difference != nil {
			c.Differences = append(c.Differences, *difference)
		}
	}
	for _, fresh := range after.Episodes {
		if fresh.Began != nil && !paired[fresh] {
			c.Differences = append(c.Differences, Difference{After: *fresh.Began, Node: fresh.Node, What: Additional, Why: "by NodeHealthCheck " + fresh.Check})
		}
	}
	slices.SortStableFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.After.Duration, b.After.Duration), cmp.Compare(a.Node, b.Node))
	})
	return c
}

// compareEpisode compares a remediation with its counterpart among the episodes of its node, which is
// paired then. It returns nil if nothing is different.
func compareEpisode(old *Episode, episodes []*Episode, paired map[*Episode]bool) *Difference {
	difference := &Difference{After: *old.Began, Node: old.Node, What: NotStarted, Why: "the node would not have been unhealthy for long enough, or not selected"}
	for _, fresh := range episodes {
		switch {
		case !overlap(old, fresh):
		case fresh.Began == nil:
			if fresh.Waits != "" {
				difference.Why = fresh.Waits
			}
		case paired[fresh]:
			difference.Why = "the remediation before would not have ended"
		default:
			paired[fresh] = true
			return compareBegun(old, fresh)
		}
	}
	return difference
}

// sameTime is the difference between two remediations that still counts as the same time: the API server
// keeps no fractions of a second.
const sameTime = time.Second

// compareBegun compares a remediation with its counterpart.
func compareBegun(old, fresh *Episode) *Difference {
	difference := &Difference{After: *old.Began, Node: old.Node}
	switch by := fresh.Began.Duration - old.Began.Duration; {
	case by >= sameTime:
		difference.What, difference.By, difference.Why = Later, &metav1.Duration{Duration: by}, fresh.Waits
	case by <= -sameTime:
		difference.What, difference.By = Earlier, &metav1.Duration{Duration: -by}
		if old.Waits != "" {
			difference.Why = "without the wait for " + old.Waits
		}
	case fresh.Steps != old.Steps:
		difference.What, difference.Why = OtherSteps, fmt.Sprintf("%d steps instead of %d", fresh.Steps, old.Steps)
	default:
		return nil
	}
	if shift := (fresh.Detected.Duration - old.Detected.Duration).Truncate(time.Second); difference.Why == "" && shift != 0 {
		difference.Why = fmt.Sprintf("unhealthy %s later", shift)
		if shift < 0 {
			difference.Why = fmt.Sprintf("unhealthy %s earlier", -shift)
		}
	}
	return difference
}

// overlap reports whether two episodes have an instant in common.
func overlap(a, b *Episode) bool {
	return (b.Ended == nil || a.Detected.Duration <= b.Ended.Duration) && (a.Ended == nil || b.Detected.Duration <= a.Ended.Duration)
}
