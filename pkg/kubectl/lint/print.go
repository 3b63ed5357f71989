// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Print prints what was found: first the objects with findings, then a line for each of the others.
func (r *Report) Print(printer *view.Printer) {
	sections := view.Sections{Printer: printer}
	var rest [][]view.Cell
	for i := range r.Objects {
		object := &r.Objects[i]
		switch {
		case object.Skipped:
			rest = append(rest, []view.Cell{view.Text(object.Title() + ": "), {Text: "skipped, " + object.Reason, Style: view.Faint}})
		case len(object.Findings) == 0:
			rest = append(rest, []view.Cell{view.Text(object.Title() + ": "), {Text: "ok", Style: view.Good}})
		default:
			sections.Tables(found(object))
		}
	}
	sections.Lines(rest)
	last := []string{r.Summary()}
	if r.Linted() == 0 {
		last = []string{"There is nothing to lint: no NodeHealthCheck, MachineHealthCheck or RemediationBudget."}
	}
	if r.Offline {
		last = append(last, "No cluster was asked: what depends on nodes and templates is not checked.")
	}
	sections.Lines(append(view.Lines(last...), view.Partial(r.Missing)...))
}

// Title names an object and its file.
func (o *Object) Title() string {
	name := strings.TrimSpace(o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
	if o.Source == "" || name == "" {
		return cmp.Or(name, o.Source)
	}
	return o.Source + ": " + name
}

// found is a table of the findings about an object.
func found(object *Object) view.Table {
	findings := object.Findings
	table := view.Table{Title: object.Title(), Header: []string{"SEVERITY", "FIELD", "WHAT, AND WHAT TO DO"}}
	inFile := slices.ContainsFunc(findings, func(finding Finding) bool { return finding.Line > 0 })
	if inFile {
		table.Header = slices.Insert(table.Header, 1, "LINE")
	}
	for _, finding := range findings {
		style := view.Warning
		if finding.Severity == Error {
			style = view.Bad
		}
		text := finding.What
		if len(finding.Also) > 0 {
			text += " (also " + strings.Join(finding.Also, ", ") + ")"
		}
		if finding.Do != "" {
			text = strings.TrimRight(text, ".") + ". " + strings.ToUpper(finding.Do[:1]) + finding.Do[1:] + "."
		}
		row := []view.Cell{{Text: string(finding.Severity), Style: style}, view.Text(cmp.Or(finding.Field, view.Unknown)), view.Text(text)}
		if inFile {
			row = slices.Insert(row, 1, view.Text(strconv.Itoa(finding.Line)))
		}
		table.Add(row...)
	}
	return table
}
