// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

//go:embed templates
var templateFiles embed.FS

// parseTemplates returns the template of each page. layout.html and parts.html have their common
// parts.
func parseTemplates() map[string]*template.Template {
	pages := map[string]*template.Template{}
	for _, name := range []string{"overview", "nodes", "check", "node", "history", "problem"} {
		shared := template.New("layout.html").Funcs(template.FuncMap{"styled": styled})
		pages[name] = template.Must(shared.ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return pages
}

// page is the data of the layout of all pages.
type page struct {
	Title string
	// Current is the page of the navigation that this one belongs to.
	Current string
	Cluster string
	Version uint64
	// Time is the time of the shown state.
	Time    stamp
	Notices []notice
	// Filter is the form above what changes, nil on most pages.
	Filter *filterForm
	// Body is what the template of the page shows.
	Body any
}

// notice says that something of the page is missing or old.
type notice struct {
	Title string
	Lines []string
}

// stamp is an instant, for people and for programs.
type stamp struct{ Text, Machine string }

// request is what the pages are made of.
type request struct {
	*http.Request
	state State
	now   time.Time
}

// overview returns a new overview of the state.
func (r *request) overview() *view.Overview { return view.NewOverview(r.state.Snapshot, r.now) }

// problem is why a page cannot be shown.
type problem struct {
	status int
	Title  string
	Text   string
	// Links are pages that the user may have meant.
	Links []cell
}

// show is the function that makes a page: either its title and body, or a problem.
type show func(r *request, p *page) *problem

// page returns the handler of a page.
func (d *Dashboard) page(name string, body show) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request := &request{Request: r, state: d.Source.State(), now: d.Now()}
		at := metav1.NewTime(request.now)
		if lost := request.state.Lost; !lost.IsZero() {
			at = metav1.NewTime(lost)
		}
		p := &page{
			Current: "overview", Cluster: d.Cluster, Version: request.state.Version,
			Time: stamp{Text: view.Clock(&at, request.now), Machine: at.UTC().Format(time.RFC3339)},
		}
		shown, status := name, http.StatusOK
		p.Notices = notices(request.state, request.state.Snapshot.Missing, request.now)
		if problem := body(request, p); problem != nil {
			shown, status = "problem", problem.status
			p.Title, p.Body, p.Filter = problem.Title, problem, nil
		}
		d.write(w, shown, p, status)
	}
}

// write sends a page as a whole, or an error.
func (d *Dashboard) write(w http.ResponseWriter, name string, p *page, status int) {
	var text bytes.Buffer
	if err := d.pages[name].Execute(&text, p); err != nil {
		http.Error(w, fmt.Sprintf("The page cannot be shown: %v", err), http.StatusInternalServerError)
		return
	}
	body := clean(text.Bytes())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // Who asked has gone.
}

// notices say which parts are missing, and which are not followed any more.
// While the cluster cannot be followed, nothing is known about the leader.
func notices(state State, missing []view.Missing, now time.Time) (notices []notice) {
	lost := state.Lost
	if stop := view.Stop(state.Snapshot.Budgets); stop != "" {
		notices = append(notices, notice{Title: stop})
	}
	if problem := state.Snapshot.Leader.Problem(now); problem != "" && lost.IsZero() {
		notices = append(notices, notice{Title: problem})
	}
	var old, absent []string
	for _, kind := range missing {
		if kind.Outdated {
			old = append(old, kind.Reason)
		} else {
			absent = append(absent, "Without "+kind.Resource+". "+kind.Reason)
		}
	}
	if len(old) > 0 {
		title := "This page is not up to date."
		if !lost.IsZero() {
			since := metav1.NewTime(lost)
			title = "This page is not up to date: it shows the state of " + view.SinceWhen(&since, now) + "."
		}
		notices = append(notices, notice{Title: title, Lines: slices.Compact(old)})
	}
	if len(absent) > 0 {
		notices = append(notices, notice{Title: "This page is partial.", Lines: slices.Compact(absent)})
	}
	return notices
}
