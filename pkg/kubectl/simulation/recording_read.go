// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

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
)

// The bounds of what is read.
const (
	// maxEntries is how many entries a recording may have. So many take some hundred megabytes of
	// memory.
	maxEntries = 1_000_000
	// maxLine is how long a line may be. The API server accepts no Node of this size.
	maxLine = 2 << 20
	// maxDuration is how long a recording may take.
	maxDuration = 366 * 24 * time.Hour
)

// Recording is what a file has.
type Recording struct {
	Start, End time.Time
	// Entries are in order of time. Those at the start are the Nodes that existed then.
	Entries []Entry
	// Notes say what is wrong with a file that can be played nevertheless.
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
			return r.finish()
		}
	}
}

type reader struct {
	in        *bufio.Reader
	recording Recording
	number    int
	// disordered is how many entries are older than the one before.
	disordered int
	interned   map[string]string
}

// text returns the next line that is not empty, without its end, and whether it has one. There is no
// text at the end of the file.
func (r *reader) text() (text []byte, whole bool, err error) {
	for {
		r.number++
		text, whole, err = r.next()
		if text = bytes.TrimSpace(text); err != nil || !whole || len(text) > 0 {
			return text, whole, err
		}
	}
}

// next reads up to the end of a line, or of the file.
func (r *reader) next() (text []byte, whole bool, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > maxLine:
			return nil, false, fmt.Errorf("cannot be understood at line %d: it has more than %d bytes. Make a recording with kubectl nhc record -o FILE", r.number, maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, false, fmt.Errorf("cannot be read: %w", err)
		}
		return text, err == nil, nil
	}
}

func (r *reader) readHeader() error {
	text, _, err := r.text()
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return errors.New("is empty: make a recording with kubectl nhc record -o FILE")
	}
	var header line
	err = json.Unmarshal(text, &header)
	switch {
	case err != nil || header.Recording != format:
		return errors.New("is no recording: make one with kubectl nhc record -o FILE, with --from for what kubectl get nodes -w -o json has printed")
	case header.Version != version:
		return fmt.Errorf("has version %d of the format, and this kubectl nhc reads version %d: use the release that recorded it, or a newer one", header.Version, version)
	case header.Time.IsZero():
		return errors.New("has a header without a time: record again")
	}
	r.recording.Start, r.recording.End = header.Time, header.Time
	return nil
}

// readEntry reads one line. More is false at the end of the file.
func (r *reader) readEntry() (more bool, err error) {
	text, whole, err := r.text()
	if err != nil || len(text) == 0 {
		return false, err
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		if !whole {
			r.note("The last line is cut off, and was left out: the recording ends early.")
			return false, nil
		}
		return false, r.wrong("it is no JSON, or a field has another type")
	}
	entry, err := l.entry(r.intern)
	if err != nil {
		return false, r.wrong(err.Error())
	}
	recording := &r.recording
	switch {
	case len(recording.Entries) == maxEntries:
		return false, fmt.Errorf("has more than %d entries: record for a shorter time", maxEntries)
	case entry.At.After(recording.Start.Add(maxDuration)):
		return false, r.wrong("its time is more than a year after the start")
	case entry.At.Before(recording.End):
		r.disordered++
		entry.At = recording.End
	}
	recording.End = entry.At
	recording.Entries = append(recording.Entries, entry)
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

func (r *reader) finish() (*Recording, error) {
	recording := &r.recording
	switch {
	case r.disordered == 1:
		r.note("One line is older than the line before, and was played at the time of that one: the clock was set back.")
	case r.disordered > 1:
		r.note("%d lines are older than the line before, and were played at the time of that one: the clock was set back.", r.disordered)
	}
	if !slices.ContainsFunc(recording.Entries, func(entry Entry) bool { return entry.Node != "" }) {
		return nil, errors.New("has no nodes: record again, in a cluster that has some")
	}
	return recording, nil
}
