// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// cardsPerPage is how many NodeHealthChecks a page has.
const cardsPerPage = 60

// overviewBody is what the page with everything shows.
type overviewBody struct {
	Counts []count
	Cards  []card
	Paging *paging
	// NoChecks is shown instead of cards.
	NoChecks string
	// Common is what nodes that fail have in common.
	Common []view.Cell
	Lists  []table
	Others []table
}

// overview is the page with everything.
func (d *Dashboard) overview(r *request, p *page) *problem {
	overview := r.overview()
	body := &overviewBody{Others: others(overview, false), Common: view.InCommon(overview)}
	body.Counts, body.Lists = short(overview, "")
	body.Paging = newPaging(r, "./", "NodeHealthChecks", len(overview.NodeHealthChecks), cardsPerPage)
	shown := part(overview.NodeHealthChecks, body.Paging)
	for i := range shown {
		body.Cards = append(body.Cards, newCard(r, &shown[i]))
	}
	if len(overview.NodeHealthChecks)+len(overview.MachineHealthChecks) == 0 {
		body.NoChecks = view.NoChecks
	}
	p.Title, p.Body = "Overview", body
	return nil
}

// others are MachineHealthChecks and RemediationBudgets.
func others(overview *view.Overview, wide bool) []table {
	return newTables(view.MachineChecks(overview), view.Budgets(overview, wide))
}

// checkBody is what the page of one name shows: of a NodeHealthCheck, a MachineHealthCheck or a budget.
type checkBody struct {
	Counts  []count
	Cards   []card
	Lists   []table
	Others  []table
	Details []table
	History *cell
}

// check is the page of one NodeHealthCheck. The names of MachineHealthChecks and budgets have one, too.
func (d *Dashboard) check(r *request, p *page) *problem {
	name := r.URL.Query().Get("name")
	overview := r.overview()
	if !overview.Select(name) {
		return noCheck(name, overview)
	}
	p.Title = name
	body := &checkBody{Others: others(overview, true), Details: nested(newTables(view.Groups(overview)))}
	if len(overview.NodeHealthChecks)+len(overview.MachineHealthChecks) > 0 {
		body.Counts, body.Lists = short(overview, name)
		body.History = &cell{Text: "History of " + name, Link: historyLink("", name)}
	}
	for i := range overview.NodeHealthChecks {
		body.Cards = append(body.Cards, newCard(r, &overview.NodeHealthChecks[i]))
	}
	p.Body = body
	return nil
}

// noCheck says that there is nothing of a name.
func noCheck(name string, overview *view.Overview) *problem {
	missing := &problem{status: http.StatusNotFound, Title: "Not found", Links: linksTo(overview.Names(), checkLink), Text: fmt.Sprintf("There is no health check or budget %q. These are there:", name)}
	if len(missing.Links) == 0 {
		missing.Text = fmt.Sprintf("There is no health check or budget %q, and no other one.", name)
	}
	return missing
}
