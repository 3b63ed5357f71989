// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the pages into this directory")

var desk = look{width: 1200, height: 900}

// looks are how accessibility is judged.
var looks = map[string]look{"light": desk, "dark": {dark: true, width: 1200, height: 900}, "phone": {dark: true, width: 400, height: 800}}

// pages are all kinds of pages.
var pages = []string{
	"", "check?name=workers", "check?name=zones", "check?name=openshift-machine-api/pool", "nodes?list=unhealthy-nodes", "node?name=worker-07", "node?name=worker-13", "node?name=nowhere", "history", "history?node=worker-02&since=24h",
}

// TestNoScript: without JavaScript all of it is there, and the page says how to see changes.
func TestNoScript(t *testing.T) {
	t.Parallel()
	_, address := serve(t, story())
	b := newTab(t, look{noScript: true, width: 1200, height: 900})
	b.open(address)
	for _, text := range []string{"worker-07", "BudgetExhausted", "zones", "Next to become unhealthy", "Reload the page to see what has changed."} {
		require.Contains(t, b.text(), text)
	}
	require.True(t, eval[bool](b, "document.getElementById('freeze').hidden"))
	b.submit("#node-name", "worker-13")
	b.shows("Node worker-13", "becomes unhealthy in 2m")
	b.open(address + "history")
	b.submit("#filter-node", "worker-02")
	b.shows("3 episodes")
	b.quiet(notFound)
}

// submit fills in a field, and sends its form.
func (b *tab) submit(field, value string) {
	b.t.Helper()
	run(b, chromedp.SetValue(chromedp.CSS(field), value))
	run(b, chromedp.Submit(chromedp.CSS(field)))
}

// attack tries to run a script, from every field that takes any text.
const attack = `"'><img src=x onerror=alert(1)><svg onload=alert(2)></title><script>alert(3)</script>`

// TestInjection: hostile text is shown, and does nothing: not when the page is read, and not when it is
// replaced. If it became markup after all, the policy of the page would stop it.
func TestInjection(t *testing.T) {
	t.Parallel()
	hostile := story()
	for _, nhc := range hostile.NodeHealthChecks {
		nhc.Spec.PauseRequests = []string{attack}
		nhc.Status.Reason = attack
		for i := range nhc.Status.Conditions {
			nhc.Status.Conditions[i].Message = attack
		}
		for i := range nhc.Status.UnhealthyNodes {
			entry := &nhc.Status.UnhealthyNodes[i]
			entry.Name, entry.Decision.Message = attack, attack
		}
		for i := range nhc.Status.RemediationHistory {
			episode := &nhc.Status.RemediationHistory[i]
			episode.Node, episode.Outcome = attack, v1alpha1.EpisodeOutcome(attack)
		}
	}
	for _, node := range hostile.Nodes {
		node.Status.Conditions[0].Reason, node.Status.Conditions[0].Message = attack, attack
	}
	hostile.Budgets[0].Spec.Reason = attack
	s, address := serve(t, hostile)
	b := newTab(t, desk)
	for _, page := range append(pages, "history?node="+strings.ReplaceAll(attack, " ", "%20"), "node?name="+strings.ReplaceAll(attack, " ", "%20")) {
		b.open(address + page)
		s.set(hostile)
		b.updated(s)
		require.Zero(t, eval[int](b, "document.querySelectorAll('img, script:not([src])').length"), page)
	}
	b.open(address)
	require.Contains(t, b.text(), attack)
	b.quiet(notFound)
	for _, script := range []string{
		`document.body.append(Object.assign(document.createElement("script"), {textContent: "window.ran = 1"}))`, `document.body.innerHTML = "<img src=x onerror='window.ran = 1'>"`,
		`document.body.setAttribute("onclick", "window.ran = 1"); document.body.click()`, `location.href = "javascript:window.ran = 1"`,
	} {
		require.True(t, eval[bool](b, `(() => { try { `+script+` } catch (e) {} return window.ran === undefined; })()`), script)
	}
	require.True(t, eval[bool](b, "window.ran === undefined"))
}

// updated waits until the page shows the present state.
func (b *tab) updated(s *source) {
	b.t.Helper()
	b.eventually("the update", func() bool {
		return eval[uint64](b, "Number(document.getElementById('live').dataset.version)") == s.State().Version
	})
}

// TestScreenshots takes those of the documentation, and writes them if that is wanted.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	_, address := serve(t, story())
	for name, dark := range map[string]bool{"light": false, "dark": true} {
		b := newTab(t, look{dark: dark, width: 1100, height: 900})
		for page, path := range map[string]string{"overview": "", "history": "history"} {
			b.open(address + path)
			b.shows("Live")
			image := run(b, chromedp.CaptureScreenshot())
			_, err := png.DecodeConfig(bytes.NewReader(image))
			require.NoError(t, err)
			if *screenshots == "" {
				continue
			}
			require.NoError(t, os.WriteFile(filepath.Join(*screenshots, "dashboard-"+page+"-"+name+".png"), image, 0o644))
		}
	}
}
