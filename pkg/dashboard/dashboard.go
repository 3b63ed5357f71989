// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard shows in a browser what kubectl nhc shows on a terminal: the state of all health
// checks, what is known about a node, and what happened before. It is one [http.Handler] that only
// reads, needs nothing from other hosts, and is complete without JavaScript. It decides nothing
// itself: what it shows comes from package view, in its words.
package dashboard

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Source is where a dashboard reads the cluster.
type Source interface {
	// State returns what is known now. It does not wait, and sends no request.
	State() State
	// Details reads what is shown of one node besides the snapshot, and what of that is missing.
	Details(ctx context.Context, snapshot *view.Snapshot, node string) (*view.Details, []view.Missing)
}

// State is what a Source knows at one time.
type State struct {
	// Snapshot is shared and must not be changed.
	Snapshot *view.Snapshot
	// Version is another one after each change.
	Version uint64
	// Lost is since when a part of the snapshot cannot be followed, zero while all of it is.
	Lost time.Time
	// Outdated is closed when there is a newer state.
	Outdated <-chan struct{}
}

// Config is what a Dashboard needs. All fields are required but Cluster.
type Config struct {
	Source Source
	// Now reads the clock. Times are shown in the location of what it returns.
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
	d.mux.HandleFunc("/episode", d.page("episode", d.episode))
	d.mux.HandleFunc("/", d.page("unknown", unknown))
	d.mux.HandleFunc("/events", d.events)
	d.mux.HandleFunc("/"+assetDirectory+"/", serveAsset)
	return d
}

// policy permits what the pages consist of: their own style, script and requests, and nothing else.
// Text never becomes markup or script, not even by mistake of the script (Trusted Types).
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

// secure sets what every answer has. No other origin is permitted to read any (no CORS).
func secure(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// unknown says that there is no such page, and where there is one.
func unknown(r *request, _ *page) *problem {
	up := "./" + strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)
	return &problem{status: http.StatusNotFound, Title: "No such page", Text: "There is no such page here. These are the first ones:", Links: []cell{{Text: "Overview", Link: up}, {Text: "History", Link: up + "history"}}}
}

const assetDirectory = "assets"

//go:embed assets
var assets embed.FS

// types are those of the files that the pages need: there is no other one.
var types = map[string]string{
	"style.css":  "text/css; charset=utf-8",
	"script.js":  "text/javascript; charset=utf-8",
	"symbol.svg": "image/svg+xml",
}

// serveAsset serves one of the files.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	content, err := assets.ReadFile(assetDirectory + "/" + name)
	if err != nil || types[name] == "" || r.URL.Path != "/"+assetDirectory+"/"+name {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[name])
	_, _ = w.Write(content) // Who asked has gone.
}
