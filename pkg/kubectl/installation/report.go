// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"fmt"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Report has the findings about an installation, in the order in which to repair it.
type Report struct {
	Parts []*Part `json:"parts"`
}

// Part is one part of an installation.
type Part struct {
	Name string `json:"name"`
	// Problems are what is wrong, and what to do about it.
	Problems []string `json:"problems,omitempty"`
	// Unread says why a part could not be checked.
	Unread []string `json:"unread,omitempty"`
	// Found says what was found.
	Found string `json:"found,omitempty"`
}

// Count returns the number of problems, and of parts that could not be checked.
func (r *Report) Count() (problems, unread int) {
	for _, part := range r.Parts {
		problems += len(part.Problems)
		unread += len(part.Unread)
	}
	return problems, unread
}

// Works reports whether everything was read and is in order.
func (r *Report) Works() bool {
	problems, unread := r.Count()
	return problems+unread == 0
}

// Print prints the problems of an installation, then the parts that could not be checked, then the
// parts in order.
func (r *Report) Print(printer *view.Printer) {
	sections := view.Sections{Printer: printer}
	if r.Works() {
		sections.Lines([][]view.Cell{{{Text: "The installation works.", Style: view.Good}}})
	}
	var problems, unread [][]view.Cell
	well := view.Table{Header: []string{"CHECKED", "FOUND"}}
	for _, part := range r.Parts {
		for _, problem := range part.Problems {
			problems = append(problems, []view.Cell{{Text: part.Name + ": ", Style: view.Bad}, view.Text(problem)})
		}
		for _, reason := range part.Unread {
			unread = append(unread, []view.Cell{{Text: fmt.Sprintf("%s: not checked. ", part.Name), Style: view.Warning}, view.Text(reason)})
		}
		if len(part.Problems)+len(part.Unread) == 0 {
			well.Add(view.Text(part.Name), view.Text(part.Found))
		}
	}
	sections.Lines(problems)
	sections.Lines(unread)
	sections.Table("In order", well)
}
