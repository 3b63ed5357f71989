// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// report is what is drawn of the file of a benchmark.
type report struct {
	Date  time.Time
	Sizes []struct {
		Nodes    int
		Outcomes outcomes
	}
}

// outcomes are those of one size. What was not measured is nil.
type outcomes struct {
	Idle    *struct{ RSSBytes float64 }
	Latency *latency
	Busy    *latency
	Storm   *struct {
		CreateRatio, RecoverRatio, PeakRSSBytes float64
	}
}

type latency struct {
	Controller, Control                  struct{ P50, P99 float64 }
	RequestsPerFailure, EventsPerFailure float64
}

// size is what is known of one size.
type size struct {
	nodes int
	outcomes
}

// read merges the files. What was measured later replaces what was measured before.
func read(paths []string) ([]size, error) {
	var reports []report
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r report
		if err := json.Unmarshal(content, &r); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		reports = append(reports, r)
	}
	slices.SortStableFunc(reports, func(a, b report) int { return a.Date.Compare(b.Date) })
	known := map[int]*size{}
	for _, r := range reports {
		for _, measured := range r.Sizes {
			s := known[measured.Nodes]
			if s == nil {
				s = &size{nodes: measured.Nodes}
				known[measured.Nodes] = s
			}
			s.Idle = cmp.Or(measured.Outcomes.Idle, s.Idle)
			s.Latency = cmp.Or(measured.Outcomes.Latency, s.Latency)
			s.Busy = cmp.Or(measured.Outcomes.Busy, s.Busy)
			s.Storm = cmp.Or(measured.Outcomes.Storm, s.Storm)
		}
	}
	var sizes []size
	for _, nodes := range slices.Sorted(maps.Keys(known)) {
		sizes = append(sizes, *known[nodes])
	}
	return sizes, nil
}
