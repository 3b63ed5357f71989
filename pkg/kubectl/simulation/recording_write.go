// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Writer writes a recording. Each entry is one write of a whole line: what was written can be read
// whenever the process ends. It is not safe for concurrent use.
type Writer struct {
	out   io.Writer
	start time.Time
	nodes map[string]*corev1.Node
	// changes is the number of entries about nodes after the start.
	changes int
	err     error
}

// NewWriter begins a recording with its header.
func NewWriter(out io.Writer, now time.Time) *Writer {
	w := &Writer{out: out, start: now, nodes: map[string]*corev1.Node{}}
	header := line{Recording: format, Version: version, Time: stamp(now)}
	w.write(header.encode())
	return w
}

// Nodes returns the number of Nodes that exist.
func (w *Writer) Nodes() int { return len(w.nodes) }

// Changes returns how many changes of Nodes were recorded after the start.
func (w *Writer) Changes() int { return w.changes }

// Err returns the error of the first write that failed. Nothing is written after it.
func (w *Writer) Err() error { return w.err }

// Node records a Node as it is now, unless that is as it was recorded last.
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

// Gap records that nothing was seen since an instant.
func (w *Writer) Gap(since, now time.Time) {
	if since.After(now) { // The clock was set back in the meantime.
		since = now
	}
	w.add(&Entry{Gap: since}, now)
}

// Mark records that nothing has changed until now.
func (w *Writer) Mark(now time.Time) { w.add(&Entry{}, now) }

func (w *Writer) add(entry *Entry, now time.Time) {
	entry.At = now
	if entry.Node != "" && !now.Equal(w.start) {
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
