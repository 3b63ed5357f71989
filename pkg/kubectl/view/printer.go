// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is what a text means. Colours only repeat what the text says.
type Style int

const (
	// Plain is text without a meaning of its own.
	Plain Style = iota
	// Heading introduces what follows.
	Heading
	// Good means that all is well.
	Good
	// Warning means that something is at work or waits.
	Warning
	// Bad means that an operator should look.
	Bad
	// Faint is of little importance.
	Faint
)

// codes are the parameters of the escape sequence Select Graphic Rendition.
var codes = map[Style]string{Heading: "1", Good: "32", Warning: "33", Bad: "31", Faint: "2"}

// Cell is a piece of text with its meaning.
type Cell struct {
	Text  string
	Style Style
	// Names are those with which Text begins, if it does.
	Names []string
}

// Text returns a plain cell.
func Text(text string) Cell { return Cell{Text: text} }

// Options are the properties of the terminal.
type Options struct {
	// Width is the number of columns. Zero means that lines may have any length.
	Width int
	// Colour permits escape sequences for colours.
	Colour bool
}

// Printer writes lines. After a failed write it writes nothing more.
type Printer struct {
	out io.Writer
	Options
	err error
}

// NewPrinter returns a Printer that writes to out.
func NewPrinter(out io.Writer, options Options) *Printer { return &Printer{out: out, Options: options} }

// Err returns the error of the first write that failed.
func (p *Printer) Err() error { return p.err }

// Blank prints an empty line.
func (p *Printer) Blank() { p.write("\n") }

// Line prints the cells one after the other. What is too long continues on the next line,
// indented by so many columns.
func (p *Printer) Line(indent int, cells ...Cell) {
	if len(cells) == 0 {
		p.Blank()
		return
	}
	column := 0
	var line strings.Builder
	for i, cell := range cells {
		parts := []string{Clean(cell.Text)}
		if i == len(cells)-1 {
			parts = wrap(parts[0], p.remaining(column), p.remaining(indent))
		}
		for j, part := range parts {
			if j > 0 {
				line.WriteString("\n" + strings.Repeat(" ", indent))
				column = indent
			}
			column += utf8.RuneCountInString(part)
			line.WriteString(p.styled(part, cell.Style))
		}
	}
	p.write(strings.TrimRight(line.String(), " ") + "\n")
}

func (p *Printer) write(text string) {
	if p.err != nil {
		return
	}
	if _, err := fmt.Fprint(p.out, text); err != nil {
		p.err = fmt.Errorf("writing the output: %w", err)
	}
}

// remaining returns how many columns are left after these, zero if there are any number of them.
func (p *Printer) remaining(columns int) int {
	if p.Width == 0 {
		return 0
	}
	return max(p.Width-columns, 1)
}

// styled returns a clean text with the escape sequences of a style.
func (p *Printer) styled(text string, style Style) string {
	code, styled := codes[style]
	if !p.Colour || !styled || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// wrap breaks a clean text at spaces into lines of at most so many columns. The first line may
// have fewer. A limit of zero keeps one line. A word that is longer than a line stays whole, so
// that names can be copied.
func wrap(text string, first, rest int) []string {
	if first == 0 || utf8.RuneCountInString(text) <= first {
		return []string{text}
	}
	var lines []string
	line, limit := "", first
	for word := range strings.FieldsSeq(text) {
		if line == "" {
			line = word
			continue
		}
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > limit {
			lines = append(lines, line)
			line, limit = word, rest
			continue
		}
		line += " " + word
	}
	return append(lines, line)
}

// Clean returns a text as it may be printed on one line of a terminal. Line breaks and tabs become
// spaces. Other control characters, among them those that begin an escape sequence, marks that
// change the direction or hide text, and bytes that are no UTF-8 become the replacement character.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029', r == '\u0085':
			return ' '
		case r == utf8.RuneError, unicode.Is(unicode.C, r): // Control, format, surrogate, private use.
			return utf8.RuneError
		default:
			return r
		}
	}, text)
}
