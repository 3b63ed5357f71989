// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strconv"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// gauge is a number and its limit. The text says the same.
type gauge struct {
	Label string
	Text  cell
	// Fill is the width of the bar, and Limit the place of the line that it must not pass, in percent.
	Fill, Limit string
	Class       string
	// Drawn is false without numbers.
	Drawn bool
}

// room is how many percent of a gauge are below the limit.
const room = 80

// newGauge returns a gauge. A limit of zero leaves room for nothing.
func newGauge(label string, text cell, value, limit int) gauge {
	g := gauge{Label: label, Text: text, Class: text.Class, Drawn: true, Limit: strconv.Itoa(room)}
	switch {
	case value <= 0:
		g.Fill = "0"
	case limit <= 0:
		g.Fill = "100"
	default:
		g.Fill = percent(min(1, float64(value)/float64(limit)*room/100))
	}
	if limit <= 0 {
		g.Limit = "0"
	}
	return g
}

// percent returns a fraction in percent, in a form that attributes have.
func percent(fraction float64) string { return strconv.FormatFloat(fraction*100, 'f', 2, 64) }

// gauges are the gate and, during a storm, the storm of a NodeHealthCheck.
func gauges(r *request, check *view.Check) []gauge {
	gate := gauge{Label: "Gate", Text: styled(view.GateOf(check))}
	if effective := check.EffectiveGate(); effective != nil && !effective.NoNodes {
		gate = newGauge("Gate", gate.Text, effective.NotHealthy, effective.MaxNotHealthy)
	}
	if check.Storm == nil {
		return []gauge{gate}
	}
	storm := gauge{Label: "Storm", Text: cell{Text: view.StormOf(check, r.now), Class: "warning"}}
	if check.Gate != nil && check.Storm.CalmAt != nil {
		storm = newGauge("Storm", storm.Text, check.Gate.NotHealthy, *check.Storm.CalmAt)
	}
	return []gauge{gate, storm}
}

// card is a NodeHealthCheck in short.
type card struct {
	Name   cell
	State  cell
	Counts string
	Gauges []gauge
	Notes  []view.Cell
}

func newCard(r *request, check *view.Check) card {
	c := card{Name: cell{Text: check.Name, Link: checkLink(check.Name)}, State: styled(view.StateOf(check)), Gauges: gauges(r, check), Counts: "no nodes counted yet"}
	if check.Gate != nil {
		c.Counts = fmt.Sprintf("%d of %d nodes healthy, %d unhealthy, %d under remediation", check.HealthyNodes, check.ObservedNodes, check.UnhealthyNodes, check.RemediatingNodes)
	}
	for _, note := range view.Notes(check, true, r.now) {
		if check.Storm == nil || note.Text != view.StormOf(check, r.now) { // The gauge says it.
			c.Notes = append(c.Notes, note)
		}
	}
	return c
}
