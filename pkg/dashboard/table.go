// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// cell is a piece of text, perhaps with a meaning, a link, or the shape of an outcome.
type cell struct {
	Text, Class, Link, Shape string
	// Links are names with which the cell begins.
	Links []cell
}

// table is a table with a heading. Each row begins with its name.
type table struct {
	ID, Title string
	Header    []string
	Rows      [][]cell
	// Total is how many there are, more than rows if some share one.
	Total int
	// Empty is shown instead if there are no rows. Without it the table is left out.
	Empty string
	// Hidden says how many rows are not shown, empty if all are, and All leads to them.
	Hidden string
	All    *cell
	Paging *paging
	// Nested means that the heading is below the one of a section.
	Nested bool
}

// classes are those of what a text means.
var classes = map[view.Style]string{view.Heading: "strong", view.Good: "good", view.Warning: "warning", view.Bad: "bad", view.Faint: "faint"}

// styled returns what the terminal shows, too.
func styled(shown view.Cell) cell { return cell{Text: shown.Text, Class: classes[shown.Style]} }

func plain(text string) cell { return cell{Text: text} }

// links lead from the cells of a column to a page.
var links = map[string]func(name string) string{"NODE": nodeLink, "CHECK": checkLink, "NAME": checkLink}

// newTable returns a table that the terminal shows, too.
func newTable(shown view.Table) table {
	t := table{ID: strings.ReplaceAll(strings.ToLower(shown.Title), " ", "-"), Title: shown.Title}
	for _, head := range shown.Header {
		t.Header = append(t.Header, heading(head))
	}
	for _, row := range shown.Rows {
		cells := make([]cell, 0, len(row))
		names := row[len(row)-1].Names
		for i, shown := range row {
			cells = append(cells, styled(shown))
			several := len(names) > 0 && i == 1 // Then this is their number.
			if link := links[strings.ToUpper(t.Header[i])]; link != nil && shown.Text != view.Unknown && !several {
				cells[i].Link = link(shown.Text)
			}
		}
		if last := &cells[len(cells)-1]; len(names) > 0 {
			last.Text = strings.TrimPrefix(last.Text, strings.Join(names, ", "))
			for _, name := range names {
				last.Links = append(last.Links, cell{Text: name, Link: nodeLink(name)})
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Total = len(t.Rows)
	return t
}

// newTables returns tables with at most longList rows.
func newTables(shown ...view.Table) (tables []table) {
	for _, one := range shown {
		t := newTable(one)
		t.Rows, t.Hidden = first(t.Rows, longList)
		tables = append(tables, t)
	}
	return tables
}

// nested returns tables below the heading of a section.
func nested(tables []table) []table {
	for i := range tables {
		tables[i].Nested = true
	}
	return tables
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

// linksTo are links to the pages of the first of many names.
func linksTo(names []string, link func(name string) string) (links []cell) {
	shown, hidden := first(names, longList)
	for _, name := range shown {
		links = append(links, cell{Text: name, Link: link(name)})
	}
	if hidden != "" {
		links = append(links, plain(hidden))
	}
	return links
}

// paging is a part of a long list, and the way to the others.
type paging struct {
	// From and To are the numbers of the first and the last one that is shown, of Total.
	From, To, Total int
	// What they are.
	What string
	// Previous and Next are empty at the ends.
	Previous, Next string
	begin          int
}

// pageParameter is the query parameter with the number of the part, from 1.
const pageParameter = "page"

// newPaging returns the part that a request asks for, the nearest one if there is no such part. It is
// nil if there is only one.
func newPaging(r *request, path, what string, total, size int) *paging {
	if total <= size {
		return nil
	}
	last := (total + size - 1) / size
	number, err := strconv.Atoi(r.URL.Query().Get(pageParameter))
	if err != nil {
		number = 1
	}
	number = min(max(1, number), last)
	p := &paging{begin: (number - 1) * size, Total: total, What: what}
	p.From, p.To = p.begin+1, min(p.begin+size, total)
	if number > 1 {
		p.Previous = pageLink(r, path, number-1)
	}
	if number < last {
		p.Next = pageLink(r, path, number+1)
	}
	return p
}

func pageLink(r *request, path string, number int) string {
	values := r.URL.Query()
	values.Set(pageParameter, strconv.Itoa(number))
	return path + "?" + values.Encode()
}

// part returns the part of a list that a paging shows.
func part[T any](list []T, p *paging) []T {
	if p == nil {
		return list
	}
	return list[p.begin:p.To]
}

// first returns the beginning of a list, and says how many are left out.
func first[T any](list []T, limit int) (shown []T, hidden string) {
	if len(list) <= limit {
		return list, ""
	}
	return list[:limit], fmt.Sprintf("%d of %d are not shown here.", len(list)-limit, len(list))
}
