// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Converted is what was made of a stream.
type Converted struct {
	Nodes, Changes int
	// Truncated means that the stream ends within an object.
	Truncated bool
}

// Convert writes a recording of what kubectl get nodes -w -o json has printed, also with
// --output-watch-events. The stream has no times: each object was printed at the latest time that
// it, or one before it, names. The objects until a name comes for the second time are the Nodes that
// there were at the start. An error completes the sentence "FILE ...".
func Convert(stream io.Reader, out io.Writer) (Converted, error) {
	c := &converter{out: out, seen: map[string]bool{}}
	decoder := json.NewDecoder(stream)
	for number := 1; ; number++ {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return c.finish(false)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return c.finish(true)
		case err != nil:
			return Converted{}, fmt.Errorf("cannot be understood at object %d: it is no JSON. Save what kubectl get nodes -w -o json prints", number)
		}
		if err := c.object(raw, number); err != nil {
			return Converted{}, err
		}
		if c.writer != nil && c.writer.Err() != nil {
			return Converted{}, c.writer.Err()
		}
	}
}

type converter struct {
	out    io.Writer
	writer *Writer
	seen   map[string]bool
	// first are the Nodes that there were at the start, until it is known when that was.
	first []*corev1.Node
	// now is the latest time so far.
	now time.Time
}

// watchEvent is what kubectl prints with --output-watch-events.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// object takes a Node, a list of Nodes, or an event of a watch.
func (c *converter) object(raw json.RawMessage, number int) error {
	var kind metav1.TypeMeta
	var event watchEvent
	wrong := fmt.Errorf("cannot be understood at object %d: it is no Node. Save what kubectl get nodes -w -o json prints", number)
	if json.Unmarshal(raw, &kind) != nil || json.Unmarshal(raw, &event) != nil {
		return wrong
	}
	if kind.Kind == "" && len(event.Object) > 0 {
		raw = event.Object
		if json.Unmarshal(raw, &kind) != nil {
			return wrong
		}
	}
	switch {
	case event.Type == "BOOKMARK" || event.Type == "ERROR":
		return nil
	case kind.Kind == "List" || kind.Kind == "NodeList":
		var list corev1.NodeList
		if json.Unmarshal(raw, &list) != nil {
			return wrong
		}
		for i := range list.Items {
			if list.Items[i].Name == "" {
				return wrong
			}
			c.node(&list.Items[i], false)
		}
		return nil
	case kind.Kind != "Node":
		return wrong
	}
	var node corev1.Node
	if json.Unmarshal(raw, &node) != nil || node.Name == "" {
		return wrong
	}
	c.node(&node, event.Type == "DELETED")
	return nil
}

// node takes a Node as it was printed.
func (c *converter) node(node *corev1.Node, deleted bool) {
	if c.writer == nil && (deleted || c.seen[node.Name] || len(c.first) > 0 && node.CreationTimestamp.After(c.now)) {
		c.begin()
	}
	if latest := latestOf(node); latest.After(c.now) {
		c.now = latest
	}
	switch {
	case c.writer == nil:
		c.seen[node.Name] = true
		c.first = append(c.first, reduced(node))
	case deleted:
		c.writer.Delete(node.Name, c.now)
	default:
		c.writer.Node(node, c.now)
	}
}

// begin writes the header, and the Nodes that there were.
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
			return Converted{}, errors.New("has no Nodes: save what kubectl get nodes -w -o json prints")
		}
		c.begin()
	}
	return Converted{Nodes: len(c.writer.nodes), Changes: c.writer.Changes(), Truncated: truncated}, c.writer.Err()
}

// latestOf returns the latest time that a Node names.
func latestOf(node *corev1.Node) time.Time {
	latest := node.CreationTimestamp.Time
	take := func(at metav1.Time) {
		if at.After(latest) {
			latest = at.Time
		}
	}
	for i := range node.Status.Conditions {
		take(node.Status.Conditions[i].LastTransitionTime)
		take(node.Status.Conditions[i].LastHeartbeatTime)
	}
	for i := range node.Spec.Taints {
		if added := node.Spec.Taints[i].TimeAdded; added != nil {
			take(*added)
		}
	}
	for i := range node.ManagedFields {
		if written := node.ManagedFields[i].Time; written != nil {
			take(*written)
		}
	}
	if node.DeletionTimestamp != nil {
		take(*node.DeletionTimestamp)
	}
	return latest
}
