// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// recentEvents is how many events are printed: the newest ones.
const recentEvents = 10

// Print prints an explanation of one node.
func (e *Explanation) Print(printer *Printer) {
	now := e.Time.Time
	sections := Sections{Printer: printer}
	sections.Lines(summary(e))
	sections.problem(e.Leader, now)
	for i := range e.Checks {
		sections.Part(e.PartOf(&e.Checks[i]))
	}
	sections.Tables(Others(e), Conditions(e))
	if lease := LeaseOf(e); lease != "" {
		sections.Lines([][]Cell{{{Text: "Lease: ", Style: Heading}, Text(lease)}})
	}
	sections.Tables(Events(e))
	sections.Lines(Partial(e.Missing))
}

// Conditions is a table of the conditions of the Node.
func Conditions(e *Explanation) Table {
	table := Table{Title: "Conditions of the Node", Header: []string{"TYPE", "STATUS", "FOR", "REASON"}}
	for i := range e.Conditions {
		table.Rows = append(table.Rows, condition(&e.Conditions[i], e.Time.Time))
	}
	return table
}

// Others is a table of the NodeHealthChecks that do not select the node.
func Others(e *Explanation) Table {
	table := Table{Title: "NodeHealthChecks that do not select the node", Header: []string{"NAME", "BECAUSE"}}
	for _, other := range e.Others {
		table.Add(Text(other.Name), Text(other.Because))
	}
	return table
}

// Events is a table of the newest events.
func Events(e *Explanation) Table {
	table := Table{Title: "Recent events", Header: []string{"AGO", "TYPE", "REASON", "NOTE"}}
	for _, event := range e.Events[max(0, len(e.Events)-recentEvents):] {
		last, count := lastSeen(&event)
		if count > 1 {
			event.Message += " (" + strconv.Itoa(int(count)) + " times)"
		}
		table.Add(Text(Ago(instant(last), e.Time.Time)), Text(event.Type), Text(event.Reason), Text(event.Message))
	}
	return table
}

func summary(e *Explanation) [][]Cell {
	text := "Node " + e.Node
	if e.ControlPlane {
		text += ", of the control plane"
	}
	lines := [][]Cell{{{Text: text, Style: Heading}}}
	if e.Stopped != "" { // The dashboard says so on every page.
		lines = append(lines, []Cell{{Text: e.Stopped, Style: Bad}})
	}
	return append(lines, eachOnALine(NodeNotes(e))...)
}

// NodeNotes are notes about the node that do not depend on a health check.
func NodeNotes(e *Explanation) (notes []Cell) {
	if e.Deleted {
		notes = append(notes, Cell{Text: "The Node does not exist.", Style: Bad})
	}
	if e.Held {
		notes = append(notes, Cell{Text: "It is paused" + because(e.PauseReason) + ". kubectl nhc resume node/" + e.Node + " ends that.", Style: Warning})
	}
	for _, note := range e.Notes {
		notes = append(notes, Cell{Text: note, Style: Warning})
	}
	if len(e.Checks) == 0 && !e.Unreadable {
		notes = append(notes, Cell{Text: "No NodeHealthCheck selects it, so nothing happens when it is unhealthy.", Style: Bad})
	}
	return notes
}

// condition is a row with a condition.
func condition(c *Condition, now time.Time) []Cell {
	because := Because(c.Reason, c.Message)
	if c.Doubt != "" {
		because = strings.TrimPrefix(because+"; ", Unknown+"; ") + c.Doubt
	}
	return []Cell{Text(c.Type), Text(c.Status), Text(Ago(c.Since, now)), Text(because)}
}

// PartOf says what a NodeHealthCheck makes of the node.
func (e *Explanation) PartOf(check *CheckOfNode) Part {
	now := e.Time.Time
	part := Part{Title: "NodeHealthCheck " + check.Name, Fields: []Field{{"Health", judged(check, now)}}}
	if !check.Selected {
		part.Title += ", which does not select the node any more"
	}
	if check.Decision != nil {
		part.Fields = append(part.Fields, Field{"Decision", decided(&v1alpha1.UnhealthyNode{Decision: check.Decision, ConditionsHealthyTimestamp: check.HealthySince}, now)})
	}
	if next := WhatNext(e, check, now); next != "" {
		part.Fields = append(part.Fields, Field{"Next", Text(next)})
	}
	for _, note := range check.Notes {
		part.Fields = append(part.Fields, Field{"Note", Cell{Text: note, Style: Warning}})
	}
	part.Tables = []Table{rulesOf(check), stepsOf(check, now), remediationConditions(check, now)}
	return part
}

// decided is a decision with its reason.
func decided(entry *v1alpha1.UnhealthyNode, now time.Time) Cell {
	decision := State(entry.Decision)
	decision.Text += ", " + Why(entry, now)
	return decision
}

// judged says how a NodeHealthCheck judges the conditions of the node.
func judged(check *CheckOfNode, now time.Time) Cell {
	if check.NeverReported {
		return Cell{Text: "not healthy: it has never reported", Style: Warning}
	}
	switch check.State {
	case health.SoonUnhealthy.String():
		return Cell{Text: "becomes unhealthy in " + In(check.Unhealthy, now) + ": " + check.Trigger, Style: Warning}
	case health.Unhealthy.String():
		return Cell{Text: "unhealthy since " + SinceWhen(check.Unhealthy, now) + ": " + check.Trigger, Style: Bad}
	case "":
		return Cell{Text: "not known without the Node", Style: Warning}
	default:
		return Cell{Text: "healthy", Style: Good}
	}
}

// stepsOf is a table of the steps of a NodeHealthCheck, with the remediation objects of the node.
func stepsOf(check *CheckOfNode, now time.Time) Table {
	table := Table{Title: "Steps of " + check.Name, Header: []string{"STEP", "TEMPLATE", "TIMEOUT", "REMEDIATION OBJECT"}}
	for i, step := range check.Steps {
		var objects []string
		for j := range check.Remediations {
			if r := &check.Remediations[j]; isOf(r, &check.Steps[i]) {
				objects = append(objects, remediationObject(r, now))
			}
		}
		table.Add(Text(strconv.Itoa(i+1)), Text(step.Kind+" "+strings.TrimPrefix(step.Template, "/")), Text(cmp.Or(step.Timeout, Unknown)),
			Text(cmp.Or(strings.Join(objects, "; "), Unknown)))
	}
	return table
}

// remediationObject tells about a remediation object.
func remediationObject(r *Remediation, now time.Time) string {
	text := r.Resource.Name + ", created " + Ago(&r.Started, now) + " ago"
	switch {
	case r.TimedOut != nil:
		text += ", over for " + Ago(r.TimedOut, now)
	case r.Deleting:
		text += ", being deleted"
	case !r.Known:
		text += ", not readable"
	}
	return text
}

// remediationConditions is a table of the conditions of the remediation objects.
func remediationConditions(check *CheckOfNode, now time.Time) Table {
	table := Table{Title: "Conditions of the remediation objects", Header: []string{"OBJECT", "TYPE", "STATUS", "FOR", "REASON"}}
	for i := range check.Remediations {
		r := &check.Remediations[i]
		for j := range r.Conditions {
			table.Add(append([]Cell{Text(r.Resource.Kind + "/" + r.Resource.Name)}, condition(&r.Conditions[j], now)...)...)
		}
	}
	return table
}

// LeaseOf says who holds the lease of the node, nothing if there is none.
func LeaseOf(e *Explanation) string {
	if e.Lease == nil {
		return ""
	}
	now := e.Time.Time
	text := fmt.Sprintf("%s is held by %q", e.Lease.Name, remediation.LeaseHolder(e.Lease))
	end, complete := remediation.LeaseEnd(e.Lease)
	switch ends := instant(end); {
	case !complete:
		text += ", without an end"
	case remediation.LeaseValid(e.Lease, now):
		text += ", until " + Clock(ends, now) + " (" + In(ends, now) + ")"
	default:
		text += ", but is over since " + SinceWhen(ends, now)
	}
	return text
}
