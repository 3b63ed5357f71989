// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// cell is a piece of text, perhaps with a meaning, a link, the shape of an outcome, or an instant for
// programs.
type cell struct {
	Text, Class, Link, Shape, Machine string
}

// table is a table with a heading. Each row begins with its name.
type table struct {
	ID, Title string
	Header    []string
	Rows      [][]cell
	// Empty is shown instead if there are no rows. Without it the table is left out.
	Empty string
	// Hidden says how many rows are not shown, empty if all are, and All leads to them.
	Hidden string
	All    *cell
	Paging *paging
	// Nested means that the heading is below the one of a section.
	Nested bool
}

// drop leaves out a column.
func (t *table) drop(column int) {
	t.Header = slices.Delete(t.Header, column, column+1)
	for i := range t.Rows {
		t.Rows[i] = slices.Delete(t.Rows[i], column, column+1)
	}
}

// classes are those of what a text means.
var classes = map[view.Style]string{view.Heading: "strong", view.Good: "good", view.Warning: "warning", view.Bad: "bad", view.Faint: "faint"}

// styled returns what the terminal shows, too.
func styled(shown view.Cell) cell { return cell{Text: shown.Text, Class: classes[shown.Style]} }

func plain(text string) cell { return cell{Text: text} }

// moment is a text about an instant, which programs can read.
func moment(text string, t *metav1.Time) cell {
	if t == nil {
		return plain(text)
	}
	return cell{Text: text, Machine: newStamp("", t.Time).Machine}
}

// newTable returns a table that the terminal shows, too. The link is that of the first column, nil
// for none.
func newTable(id, title string, shown view.Table, link func(name string) string) table {
	t := table{ID: id, Title: title, Nested: true}
	for _, head := range shown.Header {
		t.Header = append(t.Header, heading(head))
	}
	for _, row := range shown.Rows {
		cells := make([]cell, 0, len(row))
		for _, shown := range row {
			cells = append(cells, styled(shown))
		}
		if link != nil && len(cells) > 0 {
			cells[0].Link = link(cells[0].Text)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// fields are the headers that are names of fields.
var fields = map[string]string{"MAXUNHEALTHY": "maxUnhealthy", "MAXCONCURRENT": "maxConcurrent", "MININTERVAL": "minInterval"}

// heading returns the header of a column as a page has it.
func heading(head string) string {
	if field := fields[head]; field != "" {
		return field
	}
	return head[:1] + strings.ToLower(head[1:])
}

// Links between the pages, relative to any of them.

func nodeLink(name string) string { return "node?" + url.Values{"name": {name}}.Encode() }

func checkLink(name string) string { return "check?" + url.Values{"name": {name}}.Encode() }

// historyLink leads to the history of a node, of a check, or of both.
func historyLink(node, check string) string {
	values := url.Values{}
	if node != "" {
		values.Set("node", node)
	}
	if check != "" {
		values.Set("check", check)
	}
	return "history?" + values.Encode()
}
