// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// focus is what has the focus.
type focus struct {
	// Key tells elements apart: the link, or the id, or the element.
	Key string
	// Seen means that the user sees where the focus is.
	Seen bool
}

// focusScript returns what has the focus. The bars of the timeline show it at their shape.
const focusScript = `(() => {
  const element = document.activeElement;
  const shown = element.matches(".bar") ? getComputedStyle(element.querySelector(".target")) : getComputedStyle(element);
  const outlined = element.matches(".bar") ? shown.stroke !== "none" : shown.outlineStyle !== "none" && parseFloat(shown.outlineWidth) >= 2;
  const box = element.getBoundingClientRect();
  const inside = box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight;
  return {Key: key(element), Seen: outlined && inside};
  function key(e) { return e === document.body ? "" : e.getAttribute("href") || e.id || e.tagName + e.className + e.type; }
})()`

// focusableScript returns what the keyboard has to reach.
const focusableScript = `[...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")].filter((e) => e.checkVisibility())
  .map((e) => e.getAttribute("href") || e.id || e.tagName + e.className + e.type)`

// TestKeyboard: everything can be reached with the keyboard, and the user sees where the focus is.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	_, address := serve(t, story())
	b := newTab(t, desk)
	for _, page := range pages {
		b.open(address + page)
		missing := map[string]bool{}
		for _, key := range eval[[]string](b, focusableScript) {
			missing[key] = true
		}
		for range 500 {
			b.press(kb.Tab)
			now := eval[focus](b, focusScript)
			if now.Key == "" {
				break
			}
			require.True(t, now.Seen, "%q: the focus on %s is not visible", page, now.Key)
			delete(missing, now.Key)
		}
		require.Empty(t, missing, page)
	}
	b.quiet(notFound)
}

// TestFocusStays: an update leaves the focus where it is, and a marked text, too.
func TestFocusStays(t *testing.T) {
	t.Parallel()
	s, address := serve(t, story())
	b := newTab(t, desk)
	b.open(address + "history")
	eval[bool](b, "document.querySelectorAll('a.bar')[3].focus() === undefined")
	focused := eval[focus](b, focusScript)
	require.Contains(t, focused.Key, "episode?")
	s.set(story())
	b.updated(s)
	require.Equal(t, focused.Key, eval[focus](b, focusScript).Key)
	b.press(kb.Enter)
	b.shows("Episode of worker-")

	b.open(address)
	eval[bool](b, "document.getSelection().selectAllChildren(document.querySelector('h2')) === undefined")
	marked := s.State().Version
	s.set(story())
	eval[bool](b, "document.getSelection().isCollapsed")
	require.Equal(t, marked, eval[uint64](b, "Number(document.getElementById('live').dataset.version)"))
	require.Equal(t, "NodeHealthChecks", eval[string](b, "document.getSelection().toString()"))
	b.quiet(notFound)
}
