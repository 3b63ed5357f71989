// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxObject is how large a printed object may be. It is enough for a list of all Nodes.
const maxObject = 128 << 20

// Converted says what a stream had.
type Converted struct {
	// Nodes is the number of nodes at the end.
	Nodes, Changes int
	// Truncated means that the stream ends within an object, which was left out.
	Truncated bool
}

// Convert writes a recording of what kubectl get nodes -w -o json has printed, also with
// --output-watch-events. The stream does not say when an object was printed: it is taken to be the
// latest time that this object or an earlier one names. The Nodes before the first one that is printed
// again are those that existed at the start. An error completes the sentence "FILE ...".
func Convert(stream io.Reader, out io.Writer) (Converted, error) {
	c := &converter{out: out, seen: map[string]bool{}}
	limited := &limitedReader{in: stream}
	decoder := json.NewDecoder(limited)
	for number := 1; ; number++ {
		limited.most = decoder.InputOffset() + maxObject
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		syntax, malformed := errors.AsType[*json.SyntaxError](err)
		switch {
		case errors.Is(err, io.EOF):
			return c.finish(false)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return c.finish(true)
		case malformed:
			return Converted{}, fmt.Errorf("cannot be understood at byte %d: it is no JSON. %s", syntax.Offset, wanted)
		case err != nil:
			return Converted{}, fmt.Errorf("cannot be read: %w", err)
		case !c.object(raw):
			return Converted{}, fmt.Errorf("cannot be understood: object %d is no Node. %s", number, wanted)
		case c.writer != nil && c.writer.Err() != nil:
			return Converted{}, c.writer.Err()
		}
	}
}

// wanted names the objects that can be converted.
const wanted = "Give what kubectl get nodes -w -o json has printed"

type converter struct {
	out    io.Writer
	writer *Writer
	seen   map[string]bool
	// first are the Nodes that existed at the start, until the start is known.
	first []*corev1.Node
	// now is the latest time so far.
	now time.Time
}

// printed is a Node, a list of Nodes, or an event of a watch.
type printed struct {
	Kind   string          `json:"kind"`
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// object takes one printed object. It returns false for other values.
func (c *converter) object(raw json.RawMessage) bool {
	var event, of printed
	if json.Unmarshal(raw, &event) != nil {
		return false
	}
	of = event
	if event.Kind == "" && len(event.Object) > 0 {
		raw = event.Object
		if json.Unmarshal(raw, &of) != nil {
			return false
		}
	}
	switch {
	case event.Type == "BOOKMARK" || event.Type == "ERROR":
		return true
	case of.Kind == "List" || of.Kind == "NodeList":
		var list corev1.NodeList
		if json.Unmarshal(raw, &list) != nil {
			return false
		}
		for i := range list.Items {
			if !c.node(&list.Items[i], false) {
				return false
			}
		}
		return true
	case of.Kind != "Node":
		return false
	}
	var node corev1.Node
	return json.Unmarshal(raw, &node) == nil && c.node(&node, event.Type == "DELETED")
}

// node takes a Node as it was printed. It returns false for one that no API server has.
func (c *converter) node(node *corev1.Node, deleted bool) bool {
	if node.Name == "" || node.CreationTimestamp.IsZero() {
		return false
	}
	if c.writer == nil && len(c.first) > 0 && (deleted || c.seen[node.Name] || node.CreationTimestamp.After(c.now)) {
		c.begin()
	}
	if latest := latestOf(node); latest.After(c.now) {
		c.now = latest
	}
	switch {
	case c.writer == nil && deleted: // It did not exist at the start.
	case c.writer == nil:
		c.seen[node.Name] = true
		c.first = append(c.first, reduced(node))
	case deleted:
		c.writer.Delete(node.Name, c.now)
	default:
		c.writer.Node(node, c.now)
	}
	return true
}

// begin writes the header, and the Nodes that existed at the start.
func (c *converter) begin() {
	c.writer = NewWriter(c.out, c.now)
	for _, node := range c.first {
		c.writer.Node(node, c.now)
	}
	c.first = nil
}

func (c *converter) finish(truncated bool) (Converted, error) {
	if c.writer == nil {
		if len(c.first) == 0 {
			return Converted{}, fmt.Errorf("has no nodes. %s", wanted)
		}
		c.begin()
	}
	return Converted{Nodes: c.writer.Nodes(), Changes: c.writer.Changes(), Truncated: truncated}, c.writer.Err()
}

// latestOf returns the latest time that a Node names.
func latestOf(node *corev1.Node) time.Time {
	latest := node.CreationTimestamp.Time
	take := func(at *metav1.Time) {
		if at != nil && at.After(latest) {
			latest = at.Time
		}
	}
	for i := range node.Status.Conditions {
		take(&node.Status.Conditions[i].LastTransitionTime)
		take(&node.Status.Conditions[i].LastHeartbeatTime)
	}
	for i := range node.Spec.Taints {
		take(node.Spec.Taints[i].TimeAdded)
	}
	for i := range node.ManagedFields {
		take(node.ManagedFields[i].Time)
	}
	take(node.DeletionTimestamp)
	return latest
}

// limitedReader reads up to an offset.
type limitedReader struct {
	in         io.Reader
	read, most int64
}

// Read implements [io.Reader].
func (l *limitedReader) Read(into []byte) (int, error) {
	if l.read >= l.most {
		return 0, fmt.Errorf("it has an object of more than %d MiB", maxObject>>20)
	}
	n, err := l.in.Read(into)
	l.read += int64(n)
	return n, err
}
