// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".html")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	require.Equal(t, string(want), text, path)
}

// TestPages: each page as it was when somebody looked at it.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newSource(snapshot())
	s.details = details()
	d := newDashboard(s)
	for name, target := range map[string]string{
		"overview": "/", "nodes": "/nodes?list=unhealthy-nodes", "check": "/check?name=workers", "check-machines": "/check?name=openshift-machine-api/pool-a", "check-budget": "/check?name=zones",
		"node": "/node?name=node-1", "node-next": "/node?name=node-6", "history": "/history", "history-filtered": "/history?node=node-2&check=workers&outcome=Recovered&since=24h&until=2026-03-04T02:00",
	} {
		golden(t, name, read(t, d, target))
	}
}

// TestPartial: a page begins with the kinds that are missing or not followed any more.
func TestPartial(t *testing.T) {
	t.Parallel()
	partial := snapshot()
	partial.Nodes = nil
	partial.Missing = []view.Missing{
		{Resource: "nodes", Reason: "You may not list nodes: ask for the ClusterRole nhc-view."},
		{Resource: "news of nodehealthchecks", Outdated: true, Reason: "The API server cannot be reached."},
		{Resource: "news of remediationbudgets", Outdated: true, Reason: "The API server cannot be reached."},
	}
	s := newSource(nil)
	s.set(partial, now.Add(-40*time.Second))
	s.missing = []view.Missing{{Resource: "leases", Reason: "You may not get leases: ask for the permission."}}
	d := newDashboard(s)
	golden(t, "partial", read(t, d, "/"))
	for _, page := range []string{"/", "/check?name=workers", "/node?name=node-1", "/history", "/nodes?list=next-to-become-unhealthy"} {
		text := read(t, d, page)
		require.Contains(t, text, "it shows the state of 02:59:20 (40s).", page)
		require.Equal(t, 1, strings.Count(text, "The API server cannot be reached."), page)
		require.Contains(t, text, "Without nodes. You may not list nodes: ask for the ClusterRole nhc-view.", page)
	}
	require.Contains(t, read(t, d, "/node?name=node-1"), "Without leases.")
	require.Len(t, partial.Missing, 3, "the state is shared")
}

// TestPausedAndCommon: O13 where nothing begins, no gate is open; and the overview says what nodes that fail have in common.
func TestPausedAndCommon(t *testing.T) {
	t.Parallel()
	s := snapshot()
	s.NodeHealthChecks = []*v1alpha1.NodeHealthCheck{simple("gpu", v1alpha1.PhasePaused, 4, 4, "50%"), workers()}
	for _, failing := range s.Nodes[:4] {
		failing.Labels["rack"] = "r7"
	}
	s.NodeHealthChecks[1].Status.UnhealthyNodes = append(s.NodeHealthChecks[1].Status.UnhealthyNodes, unhealthy("node-6", time.Minute, nil))
	text := read(t, newDashboard(newSource(s)), "/")
	require.NotContains(t, text, "open: 0 of at most 2 not healthy")
	require.Contains(t, text, "3 of 3 nodes that fail have rack=r7, and 1 of 2 others.")
}

// TestEmpty: a cluster without anything.
func TestEmpty(t *testing.T) {
	t.Parallel()
	d := newDashboard(newSource(&view.Snapshot{}))
	golden(t, "empty", read(t, d, "/"))
	require.Contains(t, read(t, d, "/history"), "No node was unhealthy")
}

// TestProblems: what does not exist, and what may have been meant.
func TestProblems(t *testing.T) {
	t.Parallel()
	d := newDashboard(newSource(snapshot()))
	for target, want := range map[string]struct {
		status int
		text   string
	}{
		"/node?name=ode-":                     {http.StatusNotFound, `<li><a href="node?name=node-6">node-6</a></li>`},
		"/node?name=elsewhere":                {http.StatusNotFound, "There is no node &#34;elsewhere&#34;, and none with this in its name."},
		"/node":                               {http.StatusOK, "Choose a node:"},
		"/check?name=worker":                  {http.StatusNotFound, `<li><a href="check?name=workers">workers</a></li>`},
		"/nodes?list=all":                     {http.StatusNotFound, "There is no list"},
		"/nodes?list=unhealthy-nodes&check=x": {http.StatusNotFound, "There is no health check or budget"},
		"/history?since=soon":                 {http.StatusBadRequest, "give an age such as 90m"},
		"/history?until=-5m":                  {http.StatusBadRequest, "give an age such as 90m"},
		"/elsewhere":                          {http.StatusNotFound, `<a href="./">Overview</a>`},
		"/else/where":                         {http.StatusNotFound, `<a href="./../">Overview</a>`},
		"/assets/":                            {http.StatusNotFound, "There is no such page here."},
		"/assets/../page.go":                  {http.StatusTemporaryRedirect, "/page.go"},
		"/assets/none.css":                    {http.StatusNotFound, "404 page not found"},
	} {
		answer := get(t, d, target)
		require.Equal(t, want.status, answer.Code, target)
		require.Contains(t, answer.Body.String(), want.text, target)
	}
}

// TestHeaders: every answer has them, whatever it is.
func TestHeaders(t *testing.T) {
	t.Parallel()
	d := newDashboard(newSource(snapshot()))
	for _, target := range []string{"/", "/assets/style.css", "/assets/script.js", "/assets/symbol.svg", "/nowhere", "/node?name=x"} {
		header := get(t, d, target).Header()
		require.Equal(t, policy, header.Get("Content-Security-Policy"), target)
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), target)
		require.Equal(t, "no-referrer", header.Get("Referrer-Policy"), target)
		require.Equal(t, "no-store", header.Get("Cache-Control"), target)
		require.Empty(t, header.Get("Access-Control-Allow-Origin"), target)
		require.NotEmpty(t, header.Get("Content-Type"), target)
	}
	require.NotContains(t, policy, "unsafe")
}

// TestMethods: it only reads.
func TestMethods(t *testing.T) {
	t.Parallel()
	d := newDashboard(newSource(snapshot()))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace, "PROPFIND"} {
		answer := httptest.NewRecorder()
		d.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, "/", nil))
		require.Equal(t, http.StatusMethodNotAllowed, answer.Code, method)
		require.Equal(t, "GET, HEAD", answer.Header().Get("Allow"), method)
	}
	for _, target := range []string{"/", "/events", "/assets/style.css"} {
		answer := httptest.NewRecorder()
		d.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodHead, target, nil))
		require.Equal(t, http.StatusOK, answer.Code, target)
	}
}
