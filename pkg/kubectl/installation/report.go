// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"fmt"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
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
	// NeedsAdmin means that a part could not be checked for want of a permission.
	NeedsAdmin bool `json:"needsAdmin,omitempty"`
	// Found says what was found.
	Found string `json:"found,omitempty"`
}

func (p *Part) problem(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

// unknown records why something cannot be read.
func (p *Part) unknown(err error, verb, resource string) {
	p.NeedsAdmin = cluster.Denied(err)
	p.Unread = append(p.Unread, cluster.Explain(err, verb, resource).Error())
}

// Count returns the number of problems, of parts that need an admin to be checked, and of parts that could not be checked
// for another reason.
func (r *Report) Count() (problems, admin, unread int) {
	for _, part := range r.Parts {
		problems += len(part.Problems)
		switch {
		case part.NeedsAdmin:
			admin++
		case len(part.Unread) > 0:
			unread++
		}
	}
	return problems, admin, unread
}

// Unsettled reports whether another look may find less: a permission that is missing stays so.
func (r *Report) Unsettled() bool {
	problems, _, unread := r.Count()
	return problems+unread > 0
}

// Print prints the problems of an installation, then the parts that could not be checked, then the
// parts in order.
func (r *Report) Print(printer *view.Printer) {
	sections := view.Sections{Printer: printer}
	var problems, unread [][]view.Cell
	var admin []string
	well := view.Table{Title: "In order", Header: []string{"CHECKED", "FOUND"}}
	for _, part := range r.Parts {
		for _, problem := range part.Problems {
			problems = append(problems, []view.Cell{{Text: part.Name + ": ", Style: view.Bad}, view.Text(problem)})
		}
		switch {
		case part.NeedsAdmin:
			admin = append(admin, part.Name)
		case len(part.Unread) > 0:
			unread = append(unread, []view.Cell{{Text: part.Name + ": not checked. ", Style: view.Warning}, view.Text(strings.Join(part.Unread, " "))})
		case len(part.Problems) == 0:
			well.Add(view.Text(part.Name), view.Text(part.Found))
		}
	}
	if len(admin) > 0 {
		unread = append(unread, []view.Cell{{Text: view.Counted(len(admin), "part") + " need an admin: ", Style: view.Warning}, view.Text(strings.Join(admin, ", "))})
	}
	if len(problems)+len(unread) == 0 {
		problems = [][]view.Cell{{{Text: "The installation works.", Style: view.Good}}}
	}
	sections.Lines(problems)
	sections.Lines(unread)
	sections.Tables(well)
}
