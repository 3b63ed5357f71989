// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// axeScript is where npm puts axe-core.
const axeScript = "node_modules/axe-core/axe.min.js"

// runAxe returns what axe-core finds in a page that is serious or critical, with the elements that have it, and how much it
// has looked at.
const runAxe = `axe.run().then((result) => ({
  serious: result.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html).join(" ")),
  minor: result.violations.filter((v) => !["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.help),
  passed: result.passes.length,
}))`

// axeFound is what runAxe returns.
type axeFound struct {
	Serious, Minor []string
	Passed         int
}

// axe looks at the page.
func (b *tab) axe(script string) axeFound {
	b.t.Helper()
	eval[bool](b, script+"; true")
	return run(b, chromedp.Evaluate[axeFound](runAxe, chromedp.EvalAwaitPromise))
}

// TestAxe: axe-core finds nothing serious in any page, light, dark and on a phone.
func TestAxe(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(axeScript)
	require.NoError(t, err, "make test-dashboard installs it")
	s, address := serve(t, story())
	for name, look := range looks {
		b := newTab(t, look)
		for _, state := range []*view.Snapshot{story(), troubled()} {
			s.set(state)
			for _, page := range pages {
				b.open(address + page)
				found := b.axe(string(script))
				require.Empty(t, found.Serious, "%s %q", name, page)
				require.Greater(t, found.Passed, 10, "%s %q: it has looked at little", name, page)
				t.Logf("%s %q: %v", name, page, found.Minor)
			}
		}
		eval[bool](b, `document.querySelector("main").append(document.createElement("select")); true`)
		require.Contains(t, strings.Join(b.axe(string(script)).Serious, " "), "select-name: ", "what is wrong is found")
		b.quiet(notFound)
	}
}
