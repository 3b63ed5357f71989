// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"image/color"

	"gonum.org/v1/plot/plotter"
)

// chart is a picture of lines over the number of nodes.
type chart struct {
	name, title, unit string
	lines             []line
	// limit is a goal, or zero.
	limit float64
	// logarithmic is for values that differ much.
	logarithmic bool
}

type line struct {
	label  string
	points plotter.XYs
	color  color.Color
	dashed bool
}

// These can be told apart by those who see few colours, and on a white background.
var (
	blue   = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	orange = color.RGBA{R: 0xc8, G: 0x55, B: 0x0a, A: 0xff}
	grey   = color.RGBA{R: 0x6b, G: 0x6b, B: 0x6b, A: 0xff}
)

func charts(sizes []size) []chart {
	return []chart{
		latencyChart("latency", "Failure of a node until its remediation is seen, quiet cluster", sizes, func(s size) *latency { return s.Latency }),
		latencyChart("latency-busy", "Failure of a node until its remediation is seen, with heartbeats", sizes, func(s size) *latency { return s.Busy }),
		{
			name: "requests", title: "Requests per failure and recovery", unit: "requests",
			lines: []line{
				{label: "all but events", color: blue, points: points(sizes, func(s size) *float64 {
					if s.Latency == nil {
						return nil
					}
					return &s.Latency.RequestsPerFailure
				})},
				{label: "events", color: grey, dashed: true, points: points(sizes, func(s size) *float64 {
					if s.Latency == nil {
						return nil
					}
					return &s.Latency.EventsPerFailure
				})},
			},
		},
		{
			name: "memory", title: "Memory of the controller", unit: "MB (RSS)",
			lines: []line{
				{label: "idle", color: blue, points: points(sizes, func(s size) *float64 {
					if s.Idle == nil {
						return nil
					}
					return new(s.Idle.RSSBytes / 1e6)
				})},
				{label: "peak while 40 % of the nodes fail", color: orange, points: points(sizes, func(s size) *float64 {
					if s.Storm == nil {
						return nil
					}
					return new(s.Storm.PeakRSSBytes / 1e6)
				})},
			},
		},
		{
			name: "storm", title: "40 % of the nodes fail at once, and recover", unit: "time, relative to the control", limit: 1.5,
			lines: []line{
				{label: "until all are remediated", color: blue, points: points(sizes, func(s size) *float64 {
					if s.Storm == nil {
						return nil
					}
					return &s.Storm.CreateRatio
				})},
				{label: "until all is over", color: orange, points: points(sizes, func(s size) *float64 {
					if s.Storm == nil {
						return nil
					}
					return &s.Storm.RecoverRatio
				})},
			},
		},
	}
}

func latencyChart(name, title string, sizes []size, of func(size) *latency) chart {
	value := func(pick func(*latency) float64) plotter.XYs {
		return points(sizes, func(s size) *float64 {
			if of(s) == nil {
				return nil
			}
			return new(pick(of(s)))
		})
	}
	return chart{
		name: name, title: title, unit: "milliseconds", logarithmic: true,
		lines: []line{
			{label: "p99", color: blue, dashed: true, points: value(func(l *latency) float64 { return l.Controller.P99 })},
			{label: "p50", color: blue, points: value(func(l *latency) float64 { return l.Controller.P50 })},
			{label: "p99 of the control", color: grey, dashed: true, points: value(func(l *latency) float64 { return l.Control.P99 })},
			{label: "p50 of the control", color: grey, points: value(func(l *latency) float64 { return l.Control.P50 })},
		},
	}
}

// points returns the values of the sizes of which there is one.
func points(sizes []size, of func(size) *float64) plotter.XYs {
	var xys plotter.XYs
	for _, s := range sizes {
		if y := of(s); y != nil {
			xys = append(xys, plotter.XY{X: float64(s.nodes), Y: *y})
		}
	}
	return xys
}
