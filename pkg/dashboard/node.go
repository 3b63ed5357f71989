// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// nodeBody is what the page of a node shows.
type nodeBody struct {
	Notes   []view.Cell
	Checks  []checkOfNode
	Tables  []table
	History cell
}

// checkOfNode is the node from the view of one NodeHealthCheck.
type checkOfNode struct {
	Title  cell
	Fields []view.Field
	Tables []table
}

// node explains a node.
func (d *Dashboard) node(r *request, p *page) *problem {
	name := r.URL.Query().Get("name")
	snapshot := *r.state.Snapshot
	details, missing := d.Source.Details(r.Context(), &snapshot, name)
	snapshot.Missing = append(slices.Clip(snapshot.Missing), missing...)
	p.Notices = notices(r.state, snapshot.Missing, r.now)
	explanation := view.NewExplanation(name, &snapshot, details, r.now)
	if explanation == nil {
		return noNode(name, &snapshot)
	}
	p.Title = "Node " + name
	body := &nodeBody{History: cell{Text: "History of " + name, Link: historyLink(name, "")}}
	body.Notes = nodeNotes(explanation)
	for i := range explanation.Checks {
		check := &explanation.Checks[i]
		shown := explanation.PartOf(check)
		c := checkOfNode{Title: cell{Text: shown.Title, Link: checkLink(check.Name)}, Fields: shown.Fields, Tables: nested(newTables(shown.Tables...))}
		body.Checks = append(body.Checks, c)
	}
	body.Tables = newTables(view.Conditions(explanation), view.Events(explanation), view.Others(explanation))
	p.Body = body
	return nil
}

// nodeNotes are notes about the node that do not depend on a health check.
func nodeNotes(e *view.Explanation) (notes []view.Cell) {
	if e.ControlPlane {
		notes = append(notes, view.Text("It is a node of the control plane."))
	}
	notes = append(notes, view.NodeNotes(e)...)
	if lease := view.LeaseOf(e); lease != "" {
		notes = append(notes, view.Text("Lease: "+lease+"."))
	}
	return notes
}

// noNode says that there is no such node, and which names contain the text.
func noNode(name string, snapshot *view.Snapshot) *problem {
	missing := &problem{status: http.StatusNotFound, Title: "No such node"}
	var found []string
	for _, node := range view.NodeNames(snapshot) {
		if strings.Contains(node, strings.ToLower(strings.TrimSpace(name))) {
			found = append(found, node)
		}
	}
	missing.Links = linksTo(found, nodeLink)
	missing.Text = fmt.Sprintf("There is no node %q. Nodes with this in their name:", name)
	switch {
	case len(found) == 0:
		missing.Text = fmt.Sprintf("There is no node %q, and none with this in its name.", name)
	case name == "":
		missing.Title, missing.Text = "Nodes", "Choose a node:"
		missing.status = http.StatusOK
	}
	return missing
}
