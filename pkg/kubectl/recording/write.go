// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Writer writes a recording. Each entry is written at once as a whole line, so that what was
// written can be read if the process ends at any time. It is not safe for concurrent use.
type Writer struct {
	out   io.Writer
	nodes map[string]*corev1.Node
	last  time.Time
	// changes is the number of entries about nodes since the first instant.
	changes int
	start   time.Time
	err     error
}

// NewWriter begins a recording with its header.
func NewWriter(out io.Writer, now time.Time) *Writer {
	w := &Writer{out: out, nodes: map[string]*corev1.Node{}, last: now, start: now}
	header := line{Recording: format, Version: Version, Time: stamp(now)}
	w.write(header.encode())
	return w
}

// Resume continues a recording that is read from its start. What was not seen since its end is a
// gap. Nodes that are not seen again have to be deleted.
func Resume(out io.Writer, before *Recording, now time.Time) *Writer {
	w := &Writer{out: out, nodes: before.final(), last: before.End, start: now}
	w.Gap(before.End, now)
	return w
}

// Nodes returns the names of the Nodes that exist, sorted.
func (w *Writer) Nodes() []string {
	names := make([]string, 0, len(w.nodes))
	for name := range w.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Changes returns how many entries were written after the first instant.
func (w *Writer) Changes() int { return w.changes }

// Last returns the time of the last entry.
func (w *Writer) Last() time.Time { return w.last }

// Err returns the error of the first write that failed. Nothing is written after it.
func (w *Writer) Err() error { return w.err }

// Node records how a Node is, if that differs from what was recorded last.
func (w *Writer) Node(node *corev1.Node, now time.Time) {
	after := reduced(node)
	entry, differs := difference(w.nodes[node.Name], after)
	if !differs {
		return
	}
	w.nodes[node.Name] = after
	w.add(&entry, now)
}

// Delete records that a Node is gone.
func (w *Writer) Delete(name string, now time.Time) {
	if _, known := w.nodes[name]; !known {
		return
	}
	delete(w.nodes, name)
	w.add(&Entry{Node: name, Deleted: true}, now)
}

// Gap records that nothing was seen for a time.
func (w *Writer) Gap(since, now time.Time) {
	if since.After(now) { // Another clock, or a clock that was corrected.
		since = now
	}
	w.add(&Entry{Gap: since}, now)
}

// Mark records that nothing has changed until now.
func (w *Writer) Mark(now time.Time) { w.add(&Entry{}, now) }

func (w *Writer) add(entry *Entry, now time.Time) {
	entry.At = now
	w.last = now
	if entry.Node != "" && now.After(w.start) {
		w.changes++
	}
	w.write(encode(entry))
}

func (w *Writer) write(encoded []byte, err error) {
	if w.err == nil {
		w.err = err
	}
	if w.err != nil {
		return
	}
	if _, err := w.out.Write(encoded); err != nil {
		w.err = fmt.Errorf("writing the recording: %w", err)
	}
}
