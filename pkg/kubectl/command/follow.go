// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

const (
	// settleTime is how long further changes are waited for: most come in groups.
	settleTime = 100 * time.Millisecond
	// redrawInterval is how often a terminal is drawn anew although nothing has changed: times
	// pass. No request is sent for it.
	redrawInterval = 5 * time.Second
)

// Escape sequences of a terminal.
const (
	home       = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
	clearAll   = "\x1b[H\x1b[2J"
)

// follow draws a snapshot now, and again whenever it changes, until the context ends. A drawing
// that is no terminal is separated from the last one by an empty line.
func (r *root) follow(ctx context.Context, clients *cluster.Clients, draw func(*view.Snapshot) (string, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := cluster.NewWatch(ctx, clients, cluster.Everything)
	if err != nil {
		return err
	}
	defer watch.Wait()
	defer cancel()
	screen := r.newScreen()
	var tick <-chan time.Time
	if screen.terminal {
		ticker := time.NewTicker(redrawInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		text, err := draw(watch.Snapshot())
		if err != nil {
			return err
		}
		if err := screen.show(text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		case <-watch.Changed():
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(settleTime):
			}
		}
	}
}

// screen is where drawings are shown one after the other.
type screen struct {
	root     *root
	terminal bool
	last     string
	drawn    bool
}

func (r *root) newScreen() *screen {
	_, is := r.isTerminal()
	return &screen{root: r, terminal: is}
}

// show shows a text. On a terminal it replaces the one before, without a moment in which nothing
// is there. An empty text is what was printed already.
func (s *screen) show(text string) error {
	if text == "" {
		return nil
	}
	first := !s.drawn
	s.drawn = true
	switch {
	case s.terminal && first:
		return s.root.print(clearAll + text)
	case s.terminal:
		return s.root.print(home + strings.ReplaceAll(text, "\n", clearLine+"\n") + clearBelow)
	case text == s.last:
		return nil
	}
	s.last = text
	if first {
		return s.root.print(text)
	}
	return s.root.print("\n" + text)
}

// toText returns what a function prints for people.
func (r *root) toText(show func(*view.Printer)) string {
	var text strings.Builder
	show(view.NewPrinter(&text, r.terminalOptions()))
	return text.String()
}
