// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard shows in a browser what kubectl nhc shows on a terminal: the state of all health
// checks, the facts about a node, and the history. It is one [http.Handler] that only reads, needs
// nothing from other hosts, and is complete without JavaScript. It decides nothing itself: package view
// has its content and its words.
package dashboard

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Source is where a dashboard reads the cluster.
type Source interface {
	// State returns the present state. It does not wait, and sends no request.
	State() State
	// Details reads the details of one node that the snapshot does not have, and says which of them
	// are missing.
	Details(ctx context.Context, snapshot *view.Snapshot, node string) (*view.Details, []view.Missing)
}

// State is the knowledge of a Source at one time.
type State struct {
	// Snapshot is shared and must not be changed.
	Snapshot *view.Snapshot
	// Version is another one after each change.
	Version uint64
	// Lost is since when a part of the snapshot cannot be followed, zero if all of it is
	// followed.
	Lost time.Time
	// Outdated is closed when there is a newer state.
	Outdated <-chan struct{}
}

// Config is what a Dashboard needs. All fields except Cluster are required.
type Config struct {
	Source Source
	// Now reads the clock. Times are shown in its location.
	Now func() time.Time
	// Cluster is a name for people, for the title of the pages.
	Cluster string
}

// Dashboard is the handler of the pages. All links between them are relative: it may be served below
// any path that ends in a slash and is stripped.
type Dashboard struct {
	Config
	pages map[string]*template.Template
	mux   *http.ServeMux
}

// New returns a Dashboard.
func New(config Config) *Dashboard {
	d := &Dashboard{Config: config, pages: parseTemplates(), mux: http.NewServeMux()}
	d.mux.HandleFunc("/{$}", d.page("overview", d.overview))
	d.mux.HandleFunc("/nodes", d.page("nodes", d.nodes))
	d.mux.HandleFunc("/check", d.page("check", d.check))
	d.mux.HandleFunc("/node", d.page("node", d.node))
	d.mux.HandleFunc("/history", d.page("history", d.history))
	d.mux.HandleFunc("/", d.page("unknown", unknown))
	d.mux.HandleFunc("/events", d.events)
	d.mux.Handle("/assets/{name}", http.FileServerFS(assets))
	return d
}

// policy permits only the parts of the pages: their own style, script and requests. Text never becomes
// markup or script, also if the script has a fault (Trusted Types).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP implements [http.Handler].
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The dashboard only reads.", http.StatusMethodNotAllowed)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// secure sets the headers of every answer. No other origin may read an answer (no CORS).
func secure(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// unknown says that there is no such page, and links to the first pages.
func unknown(r *request, _ *page) *problem {
	up := "./" + strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)
	return &problem{status: http.StatusNotFound, Title: "No such page", Text: "There is no such page here. These are the first ones:", Links: []cell{{Text: "Overview", Link: up}, {Text: "History", Link: up + "history"}}}
}

//go:embed assets
var assets embed.FS
