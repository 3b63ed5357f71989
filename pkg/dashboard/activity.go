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

// checkColumn is the one with the name of the health check.
const checkColumn = 1

// list has the nodes and Machines in the same situation.
type list struct {
	id, title, empty string
	subjects         []view.Subject
	next             []view.Upcoming
}

// lists are all situations.
func lists(a *view.Activity) []list {
	return []list{
		{id: "remediating", title: "Under remediation", empty: "No remediation is running.", subjects: a.Remediating},
		{id: "waiting", title: "Waiting", empty: "No unhealthy node waits.", subjects: a.Waiting},
		{id: "next", title: "Next to become unhealthy", empty: "No node has a condition that will make it unhealthy.", next: a.Next},
		{id: "recovered", title: "Healthy again", empty: "No node that was remediated still has a remediation object.", subjects: a.Recovered},
	}
}

func (l *list) len() int { return len(l.subjects) + len(l.next) }

// count is a list in one number.
type count struct {
	Number      int
	Title, Link string
}

// counts are the numbers of a page that has the lists.
func counts(a *view.Activity) (numbers []count) {
	for _, l := range lists(a) {
		numbers = append(numbers, count{Number: l.len(), Title: l.title, Link: "#" + l.id})
	}
	return numbers
}

// short returns the short lists of a page with other content, for one check or for all.
func short(r *request, a *view.Activity, check string) (tables []table) {
	for _, l := range lists(a) {
		t := l.table(r, check == "")
		if t.Rows, t.Hidden = first(t.Rows, shortList); t.Hidden != "" {
			values := url.Values{"list": {l.id}}
			if check != "" {
				values.Set("check", check)
			}
			t.All = &cell{Text: fmt.Sprintf("Show all %d", l.len()), Link: "nodes?" + values.Encode()}
		}
		if check != "" {
			t.Empty = "" // A check with nothing to tell has a short page.
		}
		tables = append(tables, t)
	}
	return tables
}

// table returns all rows of a list.
func (l *list) table(r *request, withCheck bool) table {
	t := table{ID: l.id, Title: l.title, Empty: l.empty}
	if l.id == "next" {
		t.Header = []string{"Node", "Check", "In", "At", "Because"}
		for i := range l.next {
			t.Rows = append(t.Rows, upcoming(r, &l.next[i]))
		}
	} else {
		t.Header = []string{"Node", "Check", "For", "State", "Because", "Remediation object"}
		for i := range l.subjects {
			t.Rows = append(t.Rows, subject(r, &l.subjects[i]))
		}
	}
	if !withCheck {
		t.drop(checkColumn)
	}
	if !slices.ContainsFunc(l.subjects, func(s view.Subject) bool { return len(s.Remediations) > 0 }) && l.id != "next" {
		t.drop(len(t.Header) - 1)
	}
	return t
}

// subject is the row of a node or a Machine.
func subject(r *request, s *view.Subject) []cell {
	name := cell{Text: s.Name, Link: nodeLink(s.Name)}
	if s.Machine {
		name = plain("Machine " + s.Name)
		if s.Node != "" {
			name = cell{Text: s.Node + " (Machine " + s.Name + ")", Link: nodeLink(s.Node)}
		}
	}
	return []cell{
		name, {Text: s.Check, Link: checkLink(s.Check)}, moment(view.Ago(s.Detected, r.now), s.Detected), styled(view.State(s.Decision)),
		plain(view.Why(s.Target, r.now)), {Text: view.Remediations(s.Remediations), Class: "name"},
	}
}

// upcoming is the row of a node that is next.
func upcoming(r *request, u *view.Upcoming) []cell {
	at := "-"
	if u.Unhealthy != nil {
		at = view.Clock(u.Unhealthy, r.now)
	}
	return []cell{
		{Text: u.Name, Link: nodeLink(u.Name)}, {Text: u.Check, Link: checkLink(u.Check)}, {Text: view.In(u.Unhealthy, r.now), Class: "warning"},
		moment(at, u.Unhealthy), plain(view.WhyNext(u.NextNode, r.now)),
	}
}

// nodes is the page with one list as a whole.
func (d *Dashboard) nodes(r *request, p *page) *problem {
	query := r.URL.Query()
	wanted, check := query.Get("list"), query.Get("check")
	overview := r.overview()
	if check != "" && !overview.Select(check) {
		return noCheck(check, overview)
	}
	for _, l := range lists(view.NewActivity(overview)) {
		if l.id != cmp.Or(wanted, "waiting") {
			continue
		}
		paging := newPaging(r, "nodes", "rows", l.len(), longList)
		if l.id == "next" {
			l.next = part(l.next, paging)
		} else {
			l.subjects = part(l.subjects, paging)
		}
		t := l.table(r, true)
		t.Paging = paging
		if p.Title = l.title; check != "" {
			p.Title += ": " + check
		}
		t.Title = ""
		p.Body = t
		return nil
	}
	return &problem{status: http.StatusNotFound, Title: "No such list", Text: fmt.Sprintf("There is no list %q.", wanted), Links: []cell{{Text: "Overview", Link: "./"}}}
}
