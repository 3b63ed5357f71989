// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

// executable returns the browser.
func executable(t *testing.T) string {
	t.Helper()
	if chosen := os.Getenv("NHC_BROWSER"); chosen != "" {
		return chosen
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("There is no browser: install chromium (apt-get install chromium), or set NHC_BROWSER to one.")
	return ""
}

// look is how a user sees pages.
type look struct {
	dark bool
	// noScript means that the user has turned JavaScript off.
	noScript      bool
	width, height int64
}

// tab is a page in the browser. Anything that the browser complains about fails the test, but what the
// test expects.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // That is how chromedp knows the tab.

	mu         sync.Mutex
	complaints []string
}

// newTab starts a browser with one page.
func newTab(t *testing.T, look look) *tab {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(executable(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(int(look.width), int(look.height)))
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	scheme := "light"
	if look.dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: look.width, Height: look.height, DeviceScaleFactor: 1})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: look.noScript})
	require.NoError(t, err)
	return b
}

// listen collects what the browser complains about: errors of scripts, what the policy of the page
// forbids, and dialogs, which no page has.
func (b *tab) listen(event any) {
	complain := func(text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, text)
	}
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		complain("an exception: " + event.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		complain(fmt.Sprintf("%s: %s %s", event.Entry.Level, event.Entry.Text, event.Entry.URL))
	case *page.EventJavascriptDialogOpening:
		complain("a dialog: " + event.Message)
		go func() { // Not here: this is what reads the answer.
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}()
	}
}

// notFound is what the browser says of a page that says that something does not exist.
const notFound = "404 (Not Found)"

// quiet requires that all complaints of the browser contain one of these texts.
func (b *tab) quiet(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		require.True(b.t, slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(complaint, text) }), complaint)
	}
}

// run returns the result of an action, which succeeds.
func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience.Limit)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	require.NoError(b.t, err)
	return result
}

// open opens an address.
func (b *tab) open(address string) {
	b.t.Helper()
	run(b, chromedp.Navigate(address))
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression))
}

// text returns what the user reads.
func (b *tab) text() string {
	b.t.Helper()
	return eval[string](b, "document.body?.innerText ?? ''")
}

// press presses a key.
func (b *tab) press(key string) {
	b.t.Helper()
	run(b, chromedp.KeyEvent(key))
}

// eventually waits until something holds.
func (b *tab) eventually(what string, holds func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience.Limit)
	defer cancel()
	for !holds() {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			b.t.Fatalf("did not come: %s. The page is:\n%s", what, b.text())
		}
	}
}

// shows waits until the user reads all of these texts.
func (b *tab) shows(texts ...string) {
	b.t.Helper()
	b.eventually(strings.Join(texts, ", "), func() bool {
		page := b.text()
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(page, text) })
	})
}
