// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

const (
	// shortList is how many rows a list has among others.
	shortList = 25
	// longList is how many rows a page has that is about one list.
	longList = 200
)

// lists are the tables of an overview that a failing cluster makes long.
func lists(overview *view.Overview, wide bool) []table {
	tables := []table{newTable(view.UnhealthyNodes(overview, wide)), newTable(view.NextNodes(overview, wide)), newTable(view.UnhealthyMachines(overview, wide))}
	tables[0].Empty, tables[1].Empty = "No node is unhealthy.", "No node has a condition that will make it unhealthy."
	return tables
}

// count is a list in one number.
type count struct {
	Number      int
	Title, Link string
}

// short returns the beginnings of the lists, for one check or for all, and how long they are.
func short(overview *view.Overview, check string) (numbers []count, tables []table) {
	all := lists(overview, true)
	for i, t := range lists(overview, false) {
		t.Total = len(all[i].Rows)
		numbers = append(numbers, count{Number: t.Total, Title: t.Title, Link: "#" + t.ID})
		if t.Rows, t.Hidden = first(t.Rows, shortList); len(t.Rows) < t.Total {
			values := url.Values{"list": {t.ID}}
			if check != "" {
				values.Set("check", check)
			}
			t.All = &cell{Text: fmt.Sprintf("Show each of the %d", t.Total), Link: "nodes?" + values.Encode()}
		}
		if check != "" || i > 0 {
			t.Empty = "" // A check with nothing to tell has a short page.
		}
		tables = append(tables, t)
	}
	return numbers, tables
}

// nodes is the page with one list as a whole.
func (d *Dashboard) nodes(r *request, p *page) *problem {
	wanted, check := r.URL.Query().Get("list"), r.URL.Query().Get("check")
	overview := r.overview()
	if check != "" && !overview.Select(check) {
		return noCheck(check, overview)
	}
	tables := lists(overview, true)
	i := slices.IndexFunc(tables, func(t table) bool { return t.ID == cmp.Or(wanted, tables[0].ID) })
	if i < 0 {
		return &problem{status: http.StatusNotFound, Title: "No such list", Text: fmt.Sprintf("There is no list %q.", wanted), Links: []cell{{Text: "Overview", Link: "./"}}}
	}
	t := tables[i]
	if p.Title = t.Title; check != "" {
		p.Title += ": " + check
	}
	t.Title, t.Paging = "", newPaging(r, "nodes", "rows", len(t.Rows), longList)
	t.Rows = part(t.Rows, t.Paging)
	p.Body = t
	return nil
}
