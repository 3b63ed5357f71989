// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// redrawInterval is how often a terminal is drawn anew although nothing has changed: times pass. No request is sent for it.
const redrawInterval = 5 * time.Second

// Escape sequences of a terminal.
const (
	home       = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// follow draws a snapshot now, and again whenever it changes, until the context ends. On a terminal a drawing replaces the
// one before, without a moment in which nothing is there. Elsewhere an empty line separates them.
func (r *root) follow(ctx context.Context, clients *cluster.Clients, draw func(*view.Snapshot) (string, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	source, err := cluster.New(ctx, cluster.Config{Clients: clients, Now: r.Now})
	if err != nil {
		cancel()
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { source.Run(ctx) })
	defer running.Wait()
	defer cancel()
	var tick <-chan time.Time
	_, terminal := r.isTerminal()
	if terminal {
		ticker := time.NewTicker(redrawInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for last := ""; ; {
		state := source.State()
		text, err := draw(state.Snapshot)
		if err != nil {
			return err
		}
		shown := text
		switch {
		case text == last:
			shown = ""
		case terminal:
			shown = home + strings.ReplaceAll(text, "\n", clearLine+"\n") + clearBelow
		case last != "":
			shown = "\n" + text
		}
		last = text
		if err := r.print(shown); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		case <-state.Outdated:
		}
	}
}

// toText returns what a function prints for people.
func (r *root) toText(show func(*view.Printer)) string {
	var text strings.Builder
	show(view.NewPrinter(&text, r.terminalOptions()))
	return text.String()
}
