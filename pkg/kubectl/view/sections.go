// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"time"
)

// Sections are separated by empty lines.
type Sections struct {
	*Printer
	printed bool
}

// begin begins a section.
func (s *Sections) begin() {
	if s.printed {
		s.Printer.Blank()
	}
	s.printed = true
}

// Tables prints tables below their titles, nothing of those without rows.
func (s *Sections) Tables(tables ...Table) {
	for _, table := range tables {
		if len(table.Rows) == 0 {
			continue
		}
		s.begin()
		if table.Title != "" {
			s.Printer.Line(0, Cell{Text: table.Title, Style: Heading})
		}
		s.Printer.Table(table)
	}
}

// Part is what an answer says about one object: fields below a title, then tables.
type Part struct {
	Title  string
	Fields []Field
	Tables []Table
}

// Field is a name with a value.
type Field struct {
	Name  string
	Value Cell
}

// Part prints a part.
func (s *Sections) Part(part Part) {
	s.begin()
	s.Printer.Line(0, Cell{Text: part.Title, Style: Heading})
	for _, field := range part.Fields {
		s.Printer.Line(2, Text(field.Name+": "), field.Value)
	}
	s.Tables(part.Tables...)
}

// shownRows is how many rows of a list are shown, unless the user wants all.
const shownRows = 20

// short prints the first rows of a table, and how many there are besides.
func (s *Sections) short(table Table, all bool) {
	more := len(table.Rows) - shownRows
	if all || more <= 0 {
		s.Tables(table)
		return
	}
	table.Rows = table.Rows[:shownRows]
	s.Tables(table)
	s.Printer.Line(0, Cell{Text: fmt.Sprintf("%d more are not shown: -o wide shows all", more), Style: Faint})
}

// problem says that no controller is at work.
func (s *Sections) problem(leader *Leader, now time.Time) {
	if problem := leader.Problem(now); problem != "" {
		s.Lines([][]Cell{{{Text: problem, Style: Bad}}})
	}
}

// Lines prints the cells of each line.
func (s *Sections) Lines(lines [][]Cell) {
	if len(lines) == 0 {
		return
	}
	s.begin()
	for _, line := range lines {
		s.Printer.Line(2, line...)
	}
}

// Lines are lines with a text each.
func Lines(texts ...string) (lines [][]Cell) {
	for _, text := range texts {
		lines = append(lines, []Cell{Text(text)})
	}
	return lines
}

// eachOnALine makes lines of cells.
func eachOnALine(cells []Cell) (lines [][]Cell) {
	for _, cell := range cells {
		lines = append(lines, []Cell{cell})
	}
	return lines
}

// Partial says what could not be read.
func Partial(kinds []Missing) (lines [][]Cell) {
	for _, kind := range kinds {
		lines = append(lines, []Cell{{Text: "This view is partial, without " + kind.Resource + ". ", Style: Bad}, Text(kind.Reason)})
	}
	return lines
}

// Counted is a number with its noun.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
