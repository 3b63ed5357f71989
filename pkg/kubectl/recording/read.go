// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The bounds of what is read.
const (
	// MaxEntries is how many entries a recording may have: with all of them, it takes some hundred
	// megabytes of memory.
	MaxEntries = 1_000_000
	// maxLine is how long a line may be. The labels and annotations of an object have less.
	maxLine = 1 << 20
)

// Recording is what a file has.
type Recording struct {
	Start, End time.Time
	// Entries are in order of time. Those at the start are the Nodes that there were.
	Entries []Entry
	// Notes say what is wrong with the file, and can be played nevertheless.
	Notes []string
}

// Read reads a recording. An error completes the sentence "FILE ...".
func Read(file io.Reader) (*Recording, error) {
	r := &reader{in: bufio.NewReaderSize(file, 64<<10), interned: map[string]string{}}
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	for {
		more, err := r.readEntry()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	return r.finish()
}

type reader struct {
	in        *bufio.Reader
	recording Recording
	number    int
	// latest is the time of the latest line, and disordered how many lines are older than one before.
	latest     time.Time
	disordered int
	interned   map[string]string
}

// text returns the next line that is not empty, without its end. It is whole if it has an end.
func (r *reader) text() (text []byte, whole bool, err error) {
	for {
		r.number++
		text, err := r.next()
		whole := err == nil
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		if text = bytes.TrimSpace(text); len(text) > 0 || !whole {
			return text, whole, nil
		}
	}
}

// next reads up to the end of a line. Its error is [io.EOF] at the end of the file.
func (r *reader) next() (text []byte, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > maxLine:
			return nil, fmt.Errorf("has a line %d of more than %d bytes: kubectl nhc record writes none", r.number, maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("cannot be read: %w", err)
		}
		return text, err
	}
}

func (r *reader) readHeader() error {
	text, _, err := r.text()
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return errors.New("is empty: kubectl nhc record -o FILE makes a recording")
	}
	var header line
	if err := json.Unmarshal(text, &header); err != nil || header.Recording != format {
		return errors.New(`is no recording: kubectl nhc record -o FILE makes one, and with --from it converts what kubectl get nodes -w -o json has printed`)
	}
	if err := checkHeader(&header); err != nil {
		return err
	}
	r.recording.Start, r.latest = header.Time, header.Time
	return nil
}

func checkHeader(header *line) error {
	switch {
	case header.Version != Version:
		return fmt.Errorf("has version %d of the format, and this kubectl nhc reads version %d: use the one that has recorded it, or a newer one", header.Version, Version)
	case header.Time.IsZero():
		return errors.New("has a header without a time: record it again")
	}
	return nil
}

// readEntry reads one line. More is false at the end of the file.
func (r *reader) readEntry() (more bool, err error) {
	text, whole, err := r.text()
	if err != nil {
		return false, err
	}
	if len(text) == 0 {
		return false, nil
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		if !whole {
			r.note("The last line is cut off: the recording was interrupted. It is left out.")
			return false, nil
		}
		return false, r.wrong("it is no JSON, or has a field of another type")
	}
	if l.Recording != "" { // Another recording was appended.
		if err := checkHeader(&l); err != nil {
			return false, err
		}
		l = line{Time: l.Time}
	}
	entry, err := l.entry(r.intern)
	if err != nil {
		return false, r.wrong(err.Error())
	}
	if len(r.recording.Entries) == MaxEntries {
		return false, fmt.Errorf("has more than %d entries: split it", MaxEntries)
	}
	if entry.At.Before(r.latest) {
		r.disordered++
	} else {
		r.latest = entry.At
	}
	r.recording.Entries = append(r.recording.Entries, entry)
	return whole, nil
}

func (r *reader) wrong(problem string) error {
	return fmt.Errorf("cannot be understood at line %d: %s. Remove the line, or record again", r.number, problem)
}

func (r *reader) note(format string, args ...any) {
	r.recording.Notes = append(r.recording.Notes, fmt.Sprintf(format, args...))
}

// intern returns a text that is kept once for all entries.
func (r *reader) intern(text string) string {
	if known, ok := r.interned[text]; ok {
		return known
	}
	text = strings.Clone(text)
	r.interned[text] = text
	return text
}

// finish brings the entries into the order of their times.
func (r *reader) finish() (*Recording, error) {
	recording := &r.recording
	if r.disordered > 0 {
		noun := "lines are older than lines"
		if r.disordered == 1 {
			noun = "line is older than a line"
		}
		r.note("%d %s before: a clock was set back, or files were joined. Lines are played in the order of their times.", r.disordered, noun)
		slices.SortStableFunc(recording.Entries, func(a, b Entry) int { return a.At.Compare(b.At) })
	}
	if !slices.ContainsFunc(recording.Entries, func(entry Entry) bool { return entry.Node != "" }) {
		return nil, errors.New("has no nodes: nothing was recorded")
	}
	first, last := recording.Entries[0].At, recording.Entries[len(recording.Entries)-1].At
	if first.Before(recording.Start) {
		recording.Start = first
	}
	recording.End = last
	if recording.End.Before(recording.Start) {
		recording.End = recording.Start
	}
	return recording, nil
}

// final returns the Nodes at the end.
func (r *Recording) final() map[string]*corev1.Node {
	nodes := map[string]*corev1.Node{}
	for i := range r.Entries {
		entry := &r.Entries[i]
		if entry.Node == "" {
			continue
		}
		if node := Apply(nodes[entry.Node], entry); node != nil {
			nodes[entry.Node] = node
		} else {
			delete(nodes, entry.Node)
		}
	}
	return nodes
}
