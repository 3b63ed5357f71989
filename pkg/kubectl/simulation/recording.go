// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Recording is how Nodes have changed.
type Recording struct {
	Start, End time.Time
	// Nodes are those that existed at the start.
	Nodes []*corev1.Node
	// Changes are in order of time.
	Changes []Version
	// Truncated means that the last event is cut off, and was left out.
	Truncated bool

	// last are the Nodes after the last event.
	last    map[string]*corev1.Node
	started bool
}

// Version is a Node from an instant on. The Node is nil if it is gone.
type Version struct {
	At   time.Time
	Name string
	Node *corev1.Node
}

const wanted = `Give what "kubectl get nodes --watch --output-watch-events -o json" has printed`

// ReadRecording reads the events that kubectl get nodes --watch --output-watch-events -o json has printed.
// They do not say when they happened: that is taken to be the latest time that a Node has named so far. The
// Nodes that are added before any other event are those that existed at the start. An error completes the
// sentence "FILE ...".
func ReadRecording(file io.Reader) (*Recording, error) {
	r := &Recording{last: map[string]*corev1.Node{}}
	decoder := json.NewDecoder(file)
	for number := 1; ; number++ {
		var event json.RawMessage
		err := decoder.Decode(&event)
		syntax, malformed := errors.AsType[*json.SyntaxError](err)
		switch {
		case errors.Is(err, io.EOF) && number == 1:
			return nil, errors.New("is empty. " + wanted)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			r.Truncated = !errors.Is(err, io.EOF)
			return r.finish()
		case malformed:
			return nil, fmt.Errorf("is no JSON at byte %d. %s", syntax.Offset, wanted)
		case err != nil:
			return nil, fmt.Errorf("cannot be read: %w", err)
		}
		if other := r.event(event); other != "" {
			return nil, fmt.Errorf("has %s instead of the event of a Node (value %d). %s", other, number, wanted)
		}
	}
}

// event takes an event of a watch. It names a value that is something else.
func (r *Recording) event(raw json.RawMessage) (other string) {
	var event struct {
		Kind   string          `json:"kind"`
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if json.Unmarshal(raw, &event) != nil || event.Kind != "" || len(event.Object) == 0 {
		return cmp.Or(event.Kind, "something else")
	}
	if event.Type == watch.Bookmark || event.Type == watch.Error {
		return ""
	}
	var node corev1.Node
	if err := json.Unmarshal(event.Object, &node); err != nil || node.Kind != "Node" || node.Name == "" || node.CreationTimestamp.IsZero() {
		return "an event of " + cmp.Or(node.Kind, "something else")
	}
	r.node(event.Type, &node)
	return ""
}

func (r *Recording) node(what watch.EventType, node *corev1.Node) {
	before, after := r.last[node.Name], reduced(node)
	if what != watch.Added || before != nil {
		r.start()
	}
	if latest := latestOf(node); latest.After(r.End) {
		r.End = latest
	}
	if what == watch.Deleted {
		after = nil
		delete(r.last, node.Name)
	} else {
		r.last[node.Name] = after
	}
	switch {
	case !r.started && after != nil:
		r.Nodes = append(r.Nodes, after)
	case !apiequality.Semantic.DeepEqual(before, after):
		r.Changes = append(r.Changes, Version{At: r.End, Name: node.Name, Node: after})
	}
}

// start ends the list of the Nodes that exist.
func (r *Recording) start() {
	if !r.started && len(r.Nodes) > 0 {
		r.Start, r.started = r.End, true
	}
}

func (r *Recording) finish() (*Recording, error) {
	if len(r.Nodes) == 0 {
		return nil, errors.New("has no nodes. " + wanted)
	}
	r.start()
	return r, nil
}

// reduced returns the parts of a Node that decisions read.
func reduced(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, CreationTimestamp: node.CreationTimestamp, Labels: node.Labels}}
	if value, set := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]; set {
		kept.Annotations = map[string]string{v1alpha1.AnnotationManuallyConfirmedHealthy: value}
	}
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime})
	}
	return kept
}

// latestOf returns the latest time that a Node names.
func latestOf(node *corev1.Node) time.Time {
	latest := node.CreationTimestamp.Time
	for i := range node.Status.Conditions {
		for _, at := range []metav1.Time{node.Status.Conditions[i].LastTransitionTime, node.Status.Conditions[i].LastHeartbeatTime} {
			if at.After(latest) {
				latest = at.Time
			}
		}
	}
	return latest
}

// play changes the Nodes as they were recorded until now. It reports whether there was a change.
func (w *world) play(now time.Time) (changed bool) {
	for ; len(w.recorded) > 0 && !w.recorded[0].At.After(now); w.recorded = w.recorded[1:] {
		w.change(&w.recorded[0])
		changed = true
	}
	return changed
}

// change changes a Node as it was recorded, and writes down the effect.
func (w *world) change(version *Version) {
	before, after := w.nodes[version.Name], version.Node
	w.set(version.Name, after)
	line := func(what What, why string) {
		w.journal.add(Line{Nodes: []string{version.Name}, What: what, Why: why}, version.At)
	}
	switch {
	case after == nil && before != nil:
		line(Deleted, "")
	case after != nil && (before == nil || before.UID != after.UID):
		line(Created, "")
	}
	was, is := w.harm(before), w.harm(after)
	switch {
	case is != "" && is != was:
		line(Fails, is)
	case after != nil && was != "" && is == "":
		line(Recovers, "as recorded")
	}
}

// harm names the conditions by which a node is not healthy. It is empty for a healthy one, and for one
// that does not exist.
func (w *world) harm(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	var harmful []string
	for _, condition := range node.Status.Conditions {
		if w.matches(condition) || condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			harmful = append(harmful, fmt.Sprintf("%s=%s", condition.Type, condition.Status))
		}
	}
	slices.Sort(harmful)
	return strings.Join(harmful, ", ")
}
