// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
)

// Lint prints what was found: first the objects with findings, then a line for each of the others.
func Lint(printer *terminal.Printer, report *lint.Report) {
	sections := sections{printer: printer}
	var rest [][]terminal.Cell
	for i := range report.Objects {
		object := &report.Objects[i]
		switch {
		case object.Skipped:
			rest = append(rest, []terminal.Cell{terminal.Text(title(object) + ": "), {Text: "skipped, " + object.Reason, Style: terminal.Faint}})
		case len(object.Findings) == 0:
			rest = append(rest, []terminal.Cell{terminal.Text(title(object) + ": "), {Text: "ok", Style: terminal.Good}})
		default:
			sections.table(title(object), found(object.Findings))
		}
	}
	sections.lines(rest)
	var last [][]terminal.Cell
	switch {
	case report.Linted() == 0:
		last = append(last, []terminal.Cell{terminal.Text("There is nothing to lint: no NodeHealthCheck, MachineHealthCheck or RemediationBudget.")})
	default:
		last = append(last, []terminal.Cell{terminal.Text(report.Summary())})
	}
	if report.Offline {
		last = append(last, []terminal.Cell{terminal.Text("No cluster was asked: what depends on nodes, templates and permissions is not checked.")})
	}
	sections.lines(append(last, missing(report.Missing)...))
}

// title names an object and its file.
func title(object *lint.Object) string {
	name := object.Name
	if object.Namespace != "" {
		name = object.Namespace + "/" + name
	}
	name = strings.TrimSpace(object.Kind + " " + name)
	if object.Source == "" || name == "" {
		return cmp.Or(name, object.Source)
	}
	return object.Source + ": " + name
}

func found(findings []lint.Finding) terminal.Table {
	table := terminal.Table{Header: []string{"SEVERITY", "FIELD", "WHAT, AND WHAT TO DO"}}
	inFile := slices.ContainsFunc(findings, func(finding lint.Finding) bool { return finding.Line > 0 })
	if inFile {
		table.Header = slices.Insert(table.Header, 1, "LINE")
	}
	for _, finding := range findings {
		style := terminal.Warning
		if finding.Severity == lint.Error {
			style = terminal.Bad
		}
		text := finding.What
		if len(finding.Also) > 0 {
			text += " (also " + strings.Join(finding.Also, ", ") + ")"
		}
		if finding.Do != "" {
			text = strings.TrimRight(text, ".") + ". " + strings.ToUpper(finding.Do[:1]) + finding.Do[1:] + "."
		}
		row := []terminal.Cell{{Text: string(finding.Severity), Style: style}, terminal.Text(cmp.Or(finding.Field, unknown)), terminal.Text(text)}
		if inFile {
			row = slices.Insert(row, 1, terminal.Text(strconv.Itoa(finding.Line)))
		}
		table.Add(row...)
	}
	return table
}
