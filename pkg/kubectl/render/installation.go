// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Installation prints what is wrong with an installation, then what could not be told, then what is well.
func Installation(printer *terminal.Printer, report *view.Installation) {
	sections := sections{printer: printer}
	if report.Works() {
		sections.lines([][]terminal.Cell{{{Text: "The installation works.", Style: terminal.Good}}})
	}
	var problems, unread [][]terminal.Cell
	well := terminal.Table{Header: []string{"CHECKED", "FOUND"}}
	for _, part := range report.Parts {
		for _, problem := range part.Problems {
			problems = append(problems, []terminal.Cell{{Text: part.Name + ": ", Style: terminal.Bad}, terminal.Text(problem)})
		}
		for _, reason := range part.Unread {
			unread = append(unread, []terminal.Cell{{Text: fmt.Sprintf("%s: not checked. ", part.Name), Style: terminal.Warning}, terminal.Text(reason)})
		}
		if len(part.Problems)+len(part.Unread) == 0 {
			well.Add(terminal.Text(part.Name), terminal.Text(part.Found))
		}
	}
	sections.lines(problems)
	sections.lines(unread)
	sections.table("In order", well)
}
