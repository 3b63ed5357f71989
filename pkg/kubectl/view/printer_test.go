// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"usual":             {"Ready=Unknown for 5m", "Ready=Unknown for 5m"},
		"letters of others": {"größer, 節點, ✓", "größer, 節點, ✓"},
		"lines and tabs":    {"a\nb\r\nc\td\u2028e\u2029f\u0085g", "a b  c d e f g"},
		"escape sequence":   {"\x1b[2J\x1b]0;title\x07x", "\ufffd[2J\ufffd]0;title\ufffdx"},
		"C1 control":        {"\u009b31mred", "\ufffd31mred"},
		"backspace":         {"node-1\b\b2", "node-1\ufffd\ufffd2"},
		"direction":         {"\u202enode\u2066", "\ufffdnode\ufffd"},
		"invisible":         {"no\u200bde\ufeff", "no\ufffdde\ufffd"},
		"no UTF-8":          {"\xff\xfea", "\ufffd\ufffda"},
	} {
		require.Equal(t, tc.want, Clean(tc.text), name)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31m\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		clean := Clean(text)
		require.True(t, utf8.ValidString(clean))
		require.False(t, strings.ContainsFunc(clean, unicode.IsControl), "%q", clean)
		require.Equal(t, clean, Clean(clean))
	})
}

func printed(options Options, show func(*Printer)) string {
	var text strings.Builder
	show(NewPrinter(&text, options))
	return text.String()
}

func TestLine(t *testing.T) {
	t.Parallel()
	cells := []Cell{{Text: "workers: ", Style: Heading}, {Text: "nothing new begins until\nsomebody resumes it", Style: Bad}}
	line := func(p *Printer) { p.Line(2, cells...) }
	require.Equal(t, "workers: nothing new begins until somebody resumes it\n", printed(Options{}, line))
	require.Equal(t, "workers: nothing new\n  begins until somebody\n  resumes it\n", printed(Options{Width: 24}, line))
	require.Equal(t, "\x1b[1mworkers: \x1b[0m\x1b[31mnothing new\x1b[0m\n  \x1b[31mbegins until somebody\x1b[0m\n  \x1b[31mresumes it\x1b[0m\n",
		printed(Options{Width: 24, Colour: true}, line))
	require.Equal(t, "\n", printed(Options{}, func(p *Printer) { p.Line(0) }))
	require.Equal(t, "a-word-that-is-long\n", printed(Options{Width: 4}, func(p *Printer) { p.Line(0, Text("a-word-that-is-long")) }), "words stay whole")
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := Table{Header: []string{"NODE", "STATE", "BECAUSE"}}
	table.Add(Text("node-1"), Cell{Text: "Held", Style: Bad}, Text("GateClosed: 5 of 10 nodes are healthy, at least 6 have to be"))
	table.Add(Text("節點"), Text("\x1bX"), Text(""))
	show := func(p *Printer) { p.Table(table) }
	require.Equal(t, `NODE    STATE  BECAUSE
node-1  Held   GateClosed: 5 of 10 nodes are healthy, at least 6 have to be
節點      `+"\ufffd"+`X
`, printed(Options{}, show))
	require.Equal(t, `NODE    STATE  BECAUSE
node-1  Held   GateClosed: 5 of 10 nodes
               are healthy, at least 6
               have to be
節點      `+"\ufffd"+`X
`, printed(Options{Width: 40}, show))
	require.Equal(t, `NODE    STATE  BECAUSE
node-1  Held
    GateClosed: 5 of 10 nodes
    are healthy, at least 6
    have to be
節點      `+"\ufffd"+`X
`, printed(Options{Width: 30}, show), "lines of its own where the rest of the line is too short")
	require.Contains(t, printed(Options{Colour: true}, show), "\x1b[31mHeld\x1b[0m   Gate")
}

type broken struct{ writes int }

func (b *broken) Write([]byte) (int, error) { b.writes++; return 0, errors.New("closed pipe") }

func TestPrinterStopsAfterAFailedWrite(t *testing.T) {
	t.Parallel()
	out := &broken{}
	printer := NewPrinter(out, Options{})
	printer.Line(0, Text("a"))
	printer.Line(0, Text("b"))
	require.ErrorContains(t, printer.Err(), "closed pipe")
	require.Equal(t, 1, out.writes)
}
