// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"fmt"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Report is what was found of an installation, in the order in which it has to be mended.
type Report struct {
	Parts []*Part `json:"parts"`
}

// Part is one part of an installation.
type Part struct {
	Name string `json:"name"`
	// Problems are what is wrong, and what to do about it.
	Problems []string `json:"problems,omitempty"`
	// Unread is why it cannot be told whether something is wrong.
	Unread []string `json:"unread,omitempty"`
	// Found is what is there.
	Found string `json:"found,omitempty"`
}

// Count returns how many problems there are, and how much cannot be told.
func (r *Report) Count() (problems, unread int) {
	for _, part := range r.Parts {
		problems += len(part.Problems)
		unread += len(part.Unread)
	}
	return problems, unread
}

// Works reports whether all was read, and all is well.
func (r *Report) Works() bool {
	problems, unread := r.Count()
	return problems+unread == 0
}

// Print prints what is wrong with an installation, then what could not be told, then what is well.
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
