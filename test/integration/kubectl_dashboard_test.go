// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"io"
	"net/http"
	"regexp"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/command"
)

var dashboardAddress = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/[A-Z2-7]{26,}/`)

// dashboard runs kubectl nhc dashboard as the user while a function looks at it.
func (u *user) dashboard(look func(address string)) {
	u.t.Helper()
	ctx, cancel := context.WithCancel(u.t.Context())
	defer cancel()
	var out output
	ended := make(chan int, 1)
	go func() {
		_, code := u.plugin(ctx, &out, "dashboard")
		ended <- code
	}()
	u.eventually("the address", func() bool { return dashboardAddress.MatchString(out.String()) })
	look(dashboardAddress.FindString(out.String()))
	cancel()
	require.Equal(u.t, command.ExitOK, <-ended, "it ends with Ctrl-C")
}

// page returns the status and the text of a page.
func (u *user) page(address string) (status int, text string) {
	u.t.Helper()
	request, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, address, nil)
	require.NoError(u.t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(u.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(u.t, err)
	return answer.StatusCode, string(body)
}

// testPluginDashboard: with the shipped role everything is there; without a permission the pages say so.
func testPluginDashboard(viewer *user) {
	node := viewer.node("a")
	viewer.dashboard(func(address string) {
		status, overview := viewer.page(address)
		require.Equal(viewer.t, http.StatusOK, status)
		require.Contains(viewer.t, overview, `<a href="check?name=`+viewer.scenario.name+`">`)
		require.NotContains(viewer.t, overview, "partial")
		for path, want := range map[string]string{
			"node?name=" + node: "Node " + node, "check?name=" + viewer.scenario.name: "History of " + viewer.scenario.name, "history": "Episodes", "assets/script.js": "EventSource",
		} {
			status, text := viewer.page(address + path)
			require.Equal(viewer.t, http.StatusOK, status, path)
			require.Contains(viewer.t, text, want, path)
		}
	})

	blind := &user{scenario: viewer.scenario, name: "view-of-" + viewer.scenario.name} // Of testPluginStatus.
	blind.dashboard(func(address string) {
		_, overview := blind.page(address)
		require.Contains(blind.t, overview, "Without nodes. You may not list nodes: ask for the ClusterRole nhc-view.")
		_, page := blind.page(address + "node?name=" + node)
		require.Contains(blind.t, page, "Without leases. You may not get leases: ask for the ClusterRole nhc-operate.")
	})
	stranger := &user{scenario: viewer.scenario, name: "system:discovery-of-" + viewer.scenario.name}
	stranger.fails("You may not list nodehealthchecks: ask for the ClusterRole nhc-view.", "dashboard")
}
