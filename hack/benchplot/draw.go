// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 16 * vg.Centimeter
	height = 9 * vg.Centimeter
)

// draw returns the picture as SVG, or nil if there is nothing to draw. Its background
// is white, whatever the page around it is.
func (c chart) draw() ([]byte, error) {
	p := plot.New()
	p.Title.Text = c.title
	p.BackgroundColor = color.White
	p.X.Label.Text, p.Y.Label.Text = "nodes", c.unit
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(2)
	p.Title.Padding = vg.Points(6)
	sans(p)
	p.Add(plotter.NewGrid())
	ticks := map[float64]bool{}
	for _, l := range c.lines {
		if err := l.add(p, ticks); err != nil {
			return nil, err
		}
	}
	if len(ticks) == 0 {
		return nil, nil
	}
	if c.limit > 0 {
		if err := addLimit(p, c.limit); err != nil {
			return nil, err
		}
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, sizesAt(ticks)
	// A single size would be an axis without length.
	p.X.Min, p.X.Max = p.X.Min*0.9, p.X.Max*1.3
	p.Y.Max *= 1.5 // Room for the legend.
	if c.logarithmic {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min, p.Y.Max = p.Y.Min*0.6, p.Y.Max*2.5
	} else {
		p.Y.Min = 0
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(width, height))
	p.Draw(draw.New(canvas))
	var svg bytes.Buffer
	_, err := canvas.WriteTo(&svg)
	return svg.Bytes(), err
}

func (l line) add(p *plot.Plot, ticks map[float64]bool) error {
	if len(l.points) == 0 {
		return nil
	}
	curve, marks, err := plotter.NewLinePoints(l.points)
	if err != nil {
		return err
	}
	curve.Color, curve.Width = l.color, vg.Points(1.6)
	marks.Color, marks.Radius, marks.Shape = l.color, vg.Points(2.6), draw.CircleGlyph{}
	if l.dashed {
		curve.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	p.Add(curve, marks)
	p.Legend.Add(l.label, curve, marks)
	for _, point := range l.points {
		ticks[point.X] = true
	}
	return nil
}

// addLimit draws the goal that values are meant to stay below.
func addLimit(p *plot.Plot, limit float64) error {
	curve, err := plotter.NewLine(plotter.XYs{{X: p.X.Min * 0.9, Y: limit}, {X: p.X.Max * 1.3, Y: limit}})
	if err != nil {
		return err
	}
	curve.Color, curve.Width = color.Black, vg.Points(1)
	curve.Dashes = []vg.Length{vg.Points(2), vg.Points(2)}
	p.Add(curve)
	p.Legend.Add("goal", curve)
	return nil
}

// sizesAt marks the sizes that were measured, and nothing between them.
func sizesAt(sizes map[float64]bool) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for nodes := range sizes {
		ticks = append(ticks, plot.Tick{Value: nodes, Label: strconv.FormatFloat(nodes, 'f', -1, 64)})
	}
	return ticks
}

// sans sets all text in a font that every browser has a kind of.
func sans(p *plot.Plot) {
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.Legend.TextStyle.Font,
		&p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
	} {
		f.Variant = "Sans"
	}
}
