// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// recentEvents is how many events are printed: the newest ones.
const recentEvents = 10

// Explanation prints what is known about one node, with all checks if it is wide.
func Explanation(printer *terminal.Printer, e *view.Explanation, wide bool) {
	now := e.Time.Time
	sections := sections{printer: printer}
	sections.lines(summary(e))
	sections.problem(e.Leader, now)
	sections.table("Conditions of the Node", Conditions(e))
	for i := range e.Checks {
		explainCheck(&sections, e, &e.Checks[i], wide)
	}
	sections.table("NodeHealthChecks that do not select the node", Others(e))
	if lease := Lease(e); lease != "" {
		sections.lines([][]terminal.Cell{{{Text: "Lease: ", Style: terminal.Heading}, terminal.Text(lease)}})
	}
	sections.table("Recent events", Events(e))
	sections.lines(missing(e.Missing))
}

// Conditions is a table of the conditions of the Node.
func Conditions(e *view.Explanation) terminal.Table {
	table := terminal.Table{Header: []string{"TYPE", "STATUS", "FOR", "REASON"}}
	for i := range e.Conditions {
		table.Rows = append(table.Rows, condition(&e.Conditions[i], e.Time.Time))
	}
	return table
}

// Others is a table of the NodeHealthChecks that do not select the node.
func Others(e *view.Explanation) terminal.Table {
	table := terminal.Table{Header: []string{"NAME", "BECAUSE"}}
	for _, other := range e.Others {
		table.Add(terminal.Text(other.Name), terminal.Text(other.Because))
	}
	return table
}

// Events is a table of the newest events.
func Events(e *view.Explanation) terminal.Table {
	table := terminal.Table{Header: []string{"AGO", "TYPE", "REASON", "NOTE"}}
	for _, event := range e.Events[max(0, len(e.Events)-recentEvents):] {
		note := event.Note
		if event.Count > 1 {
			note += " (" + strconv.Itoa(int(event.Count)) + " times)"
		}
		table.Add(terminal.Text(Ago(&event.Time, e.Time.Time)), terminal.Text(event.Type), terminal.Text(event.Reason), terminal.Text(note))
	}
	return table
}

func summary(e *view.Explanation) [][]terminal.Cell {
	text := "Node " + e.Node
	if e.ControlPlane {
		text += ", of the control plane"
	}
	lines := [][]terminal.Cell{{{Text: text, Style: terminal.Heading}}}
	if e.Deleted {
		lines = append(lines, []terminal.Cell{{Text: "The Node does not exist.", Style: terminal.Bad}})
	}
	if e.Held {
		lines = append(lines, []terminal.Cell{{Text: "It is held: kubectl nhc release " + e.Node + " ends that.", Style: terminal.Warning}})
	}
	for _, note := range e.Notes {
		lines = append(lines, []terminal.Cell{{Text: note, Style: terminal.Warning}})
	}
	if len(e.Checks) == 0 && !e.Unreadable {
		lines = append(lines, []terminal.Cell{{Text: "No NodeHealthCheck selects it, so nothing happens when it is unhealthy.", Style: terminal.Bad}})
	}
	return lines
}

// condition is a row with a condition.
func condition(c *view.Condition, now time.Time) []terminal.Cell {
	because := Because(c.Reason, c.Message)
	if c.Doubt != "" {
		because = strings.TrimPrefix(because+"; ", unknown+"; ") + c.Doubt
	}
	return []terminal.Cell{terminal.Text(c.Type), terminal.Text(c.Status), terminal.Text(Ago(c.Since, now)), terminal.Text(because)}
}

func explainCheck(sections *sections, e *view.Explanation, check *view.CheckOfNode, wide bool) {
	now := e.Time.Time
	sections.begin()
	printer := sections.printer
	title := "NodeHealthCheck " + check.Name
	if !check.Selected {
		title += ", which does not select the node any more"
	}
	printer.Line(0, terminal.Cell{Text: title, Style: terminal.Heading})
	printer.Line(2, terminal.Text("Health: "), Health(check, now))
	if check.Decision != nil {
		target := view.Target{Decision: check.Decision, HealthySince: check.HealthySince}
		printer.Line(2, terminal.Text("Decision: "), State(check.Decision), terminal.Text(", "+Why(&target, now)))
	}
	printer.Line(2, terminal.Text("Next: "), terminal.Text(WhatNext(e, check, now)))
	sections.table("Conditions that "+check.Name+" looks at", Rules(check, now))
	if wide || (check.State == health.Unhealthy.String() && len(check.Remediations) == 0) {
		sections.table(AskedTitle(check), Answers(check, wide))
	}
	sections.table("Steps of "+check.Name, StepsOf(check, now))
	sections.table("Conditions of the remediation objects", RemediationConditions(check, now))
}

// Rules is a table of the unhealthyConditions, compared with the node.
func Rules(check *view.CheckOfNode, now time.Time) terminal.Table {
	table := terminal.Table{Header: []string{"UNHEALTHY IF", "FOR", "IS", "EXPIRES"}}
	for i := range check.Rules {
		table.Rows = append(table.Rows, rule(&check.Rules[i], now))
	}
	return table
}

// Health says what a NodeHealthCheck makes of the conditions of the node.
func Health(check *view.CheckOfNode, now time.Time) terminal.Cell {
	if check.NeverReported {
		return terminal.Cell{Text: "not healthy: it has never reported", Style: terminal.Warning}
	}
	switch check.State {
	case health.SoonUnhealthy.String():
		return terminal.Cell{Text: "becomes unhealthy in " + In(check.Unhealthy, now), Style: terminal.Warning}
	case health.Unhealthy.String():
		return terminal.Cell{Text: "unhealthy since " + SinceWhen(check.Unhealthy, now), Style: terminal.Bad}
	case "":
		return terminal.Cell{Text: "not known without the Node", Style: terminal.Warning}
	default:
		return terminal.Cell{Text: "healthy", Style: terminal.Good}
	}
}

func rule(rule *view.Rule, now time.Time) []terminal.Cell {
	is := terminal.Cell{Text: cmp.Or(rule.Status, "not there"), Style: terminal.Good}
	expires := terminal.Text(unknown)
	if rule.Matches {
		is = terminal.Cell{Text: rule.Status + " for " + Ago(rule.Since, now), Style: terminal.Warning}
		if rule.Doubt != "" {
			is.Text += " (" + rule.Doubt + ")"
		}
		expires = terminal.Text("never: it has no lastTransitionTime")
		if rule.Expires != nil {
			expires = terminal.Text(Clock(rule.Expires, now) + ", " + timeTo(rule.Expires.Time, now))
		}
	}
	return []terminal.Cell{terminal.Text(rule.Condition), terminal.Text(rule.Duration), is, expires}
}

func timeTo(t, now time.Time) string {
	if t.After(now) {
		return "in " + t.Sub(now).Round(time.Second).String()
	}
	return now.Sub(t).Round(time.Second).String() + " ago"
}

// AskedTitle is the title of Answers. What refuses a next step refuses nothing that runs.
func AskedTitle(check *view.CheckOfNode) string {
	if len(check.Remediations) > 0 {
		return "What " + check.Name + " asks before it begins a next step, in this order"
	}
	return "What " + check.Name + " asks before it creates a remediation object, in this order"
}

// Answers is a table of the checks before a remediation object is created, without those that are passed unless
// all are wanted.
func Answers(check *view.CheckOfNode, all bool) terminal.Table {
	table := terminal.Table{Header: []string{"CHECK", "ANSWER", "WITH"}}
	for _, asked := range check.Asked {
		if asked.Answer == view.Passed && !all {
			continue
		}
		answer := terminal.Cell{Text: "passed", Style: terminal.Good}
		switch asked.Answer {
		case view.Refused:
			answer = terminal.Cell{Text: "REFUSED", Style: terminal.Bad}
		case view.NotAsked:
			answer = terminal.Cell{Text: "not asked", Style: terminal.Faint}
		}
		table.Add(terminal.Text(string(asked.Reason)), answer, terminal.Text(asked.Message))
	}
	return table
}

// StepsOf is a table of the steps of a NodeHealthCheck, with the remediation objects of the node.
func StepsOf(check *view.CheckOfNode, now time.Time) terminal.Table {
	table := terminal.Table{Header: []string{"STEP", "TEMPLATE", "TIMEOUT", "REMEDIATION OBJECT"}}
	for i, step := range check.Steps {
		var objects []string
		for j := range check.Remediations {
			if r := &check.Remediations[j]; isOf(r, &check.Steps[i]) {
				objects = append(objects, remediation(r, now))
			}
		}
		table.Add(terminal.Text(strconv.Itoa(i+1)), terminal.Text(step.Kind+" "+strings.TrimPrefix(step.Template, "/")), terminal.Text(cmp.Or(step.Timeout, unknown)),
			terminal.Text(cmp.Or(strings.Join(objects, "; "), unknown)))
	}
	return table
}

// remediation tells about a remediation object.
func remediation(r *view.Remediation, now time.Time) string {
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

// RemediationConditions is a table of the conditions of the remediation objects.
func RemediationConditions(check *view.CheckOfNode, now time.Time) terminal.Table {
	table := terminal.Table{Header: []string{"OBJECT", "TYPE", "STATUS", "FOR", "REASON"}}
	for i := range check.Remediations {
		r := &check.Remediations[i]
		for j := range r.Conditions {
			table.Add(append([]terminal.Cell{terminal.Text(r.Resource.Kind + "/" + r.Resource.Name)}, condition(&r.Conditions[j], now)...)...)
		}
	}
	return table
}

// Lease says who holds the lease of the node, nothing if there is none.
func Lease(e *view.Explanation) string {
	if e.Lease == nil {
		return ""
	}
	now := e.Time.Time
	text := fmt.Sprintf("%s is held by %q", e.Lease.Name, e.Lease.Holder)
	switch {
	case e.Lease.Ends == nil:
		text += ", without an end"
	case e.Lease.Valid:
		text += ", until " + Clock(e.Lease.Ends, now) + " (" + In(e.Lease.Ends, now) + ")"
	default:
		text += ", but is over since " + SinceWhen(e.Lease.Ends, now)
	}
	return text
}
