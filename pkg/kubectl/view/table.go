// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"unicode/utf8"
)

// gap is the number of columns between two cells of a table.
const gap = 2

// leastColumns is how many columns the last cell of a row needs beside the others. With fewer, it
// has lines of its own.
const leastColumns = 24

// ownLineIndent is by how much a last cell is indented that has lines of its own.
const ownLineIndent = 4

// Table has rows with as many cells as the header. Only the last cell of a row may be long: it is
// continued on further lines where the terminal ends.
type Table struct {
	// Title stands above the table.
	Title  string
	Header []string
	Rows   [][]Cell
}

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// Table prints a table with its header.
func (p *Printer) Table(table Table) {
	header := make([]Cell, len(table.Header))
	for i, name := range table.Header {
		header[i] = Cell{Text: name, Style: Heading}
	}
	rows := append([][]Cell{header}, table.Rows...)
	widths := columnWidths(rows)
	for _, row := range rows {
		p.row(row, widths)
	}
}

// columnWidths returns the width of all columns but the last one.
func columnWidths(rows [][]Cell) []int {
	widths := make([]int, len(rows[0])-1)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(Clean(row[i].Text)))
		}
	}
	return widths
}

func (p *Printer) row(row []Cell, widths []int) {
	var cells []Cell
	column := 0
	for i, columns := range widths {
		gap := strings.Repeat(" ", columns-utf8.RuneCountInString(Clean(row[i].Text))+gap)
		cells = append(cells, row[i], Text(gap))
		column += utf8.RuneCountInString(Clean(row[i].Text)) + len(gap)
	}
	last := row[len(row)-1]
	if p.Width > 0 && column+utf8.RuneCountInString(Clean(last.Text)) > p.Width && p.Width-column < leastColumns {
		p.Line(0, cells...)
		column, cells = ownLineIndent, []Cell{Text(strings.Repeat(" ", ownLineIndent))}
	}
	p.Line(column, append(cells, last)...)
}
