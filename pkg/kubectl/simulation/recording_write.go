// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

const (
	// format is what the header of a recording names.
	format = "kubectl-nhc"
	// version is the version of the format that is read and written.
	version = 1
)

// line is an entry, or a header, as a file has it.
type line struct {
	Recording   string                    `json:"recording,omitempty"`
	Version     int                       `json:"version,omitempty"`
	Time        time.Time                 `json:"time"`
	Gap         time.Time                 `json:"gap,omitzero"`
	Node        string                    `json:"node,omitempty"`
	Deleted     bool                      `json:"deleted,omitempty"`
	UID         types.UID                 `json:"uid,omitempty"`
	Created     time.Time                 `json:"created,omitzero"`
	Labels      map[string]string         `json:"labels,omitzero"`
	Annotations map[string]string         `json:"annotations,omitzero"`
	Conditions  map[string]*lineCondition `json:"conditions,omitempty"`
}

// lineCondition is null for a condition that the Node does not have any more.
type lineCondition struct {
	Status corev1.ConditionStatus `json:"status"`
	Since  time.Time              `json:"since,omitzero"`
}

// encode returns an entry as a line with its end.
func encode(entry *Entry) ([]byte, error) {
	l := line{
		Time: stamp(entry.At), Gap: stamp(entry.Gap), Node: entry.Node, Deleted: entry.Deleted, UID: entry.UID, Created: stamp(entry.Created),
		Labels: entry.Labels, Annotations: entry.Annotations,
	}
	if len(entry.Conditions) > 0 {
		l.Conditions = make(map[string]*lineCondition, len(entry.Conditions))
	}
	for _, condition := range entry.Conditions {
		l.Conditions[string(condition.Type)] = nil
		if condition.Status != "" {
			l.Conditions[string(condition.Type)] = &lineCondition{Status: condition.Status, Since: stamp(condition.Since)}
		}
	}
	return l.encode()
}

func (l *line) encode() ([]byte, error) {
	encoded, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encoding an entry: %w", err)
	}
	return append(encoded, '\n'), nil
}

// stamp returns an instant as lines have it.
func stamp(at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Millisecond)
}

// entry returns the entry of a line that is no header. Texts that many lines have are kept once.
func (l *line) entry(intern func(string) string) (Entry, error) {
	entry := Entry{
		At: l.Time, Gap: l.Gap, Node: intern(l.Node), Deleted: l.Deleted, UID: types.UID(intern(string(l.UID))), Created: l.Created,
		Labels: l.Labels, Annotations: l.Annotations,
	}
	switch named := l.Node != ""; {
	case l.Recording != "":
		return Entry{}, errors.New("another recording begins there")
	case l.Time.IsZero():
		return Entry{}, errors.New("it has no time")
	case !named && (l.Deleted || l.UID != "" || l.Labels != nil || l.Annotations != nil || len(l.Conditions) > 0):
		return Entry{}, errors.New("it names no node")
	case named && !l.Gap.IsZero():
		return Entry{}, errors.New("it has a gap and names a node")
	case l.Gap.After(l.Time):
		return Entry{}, errors.New("its gap ends before it begins")
	}
	for kind, condition := range l.Conditions {
		fresh := Condition{Type: corev1.NodeConditionType(intern(kind))}
		if condition != nil {
			if condition.Status == "" {
				return Entry{}, errors.New("a condition has no status")
			}
			fresh.Status, fresh.Since = corev1.ConditionStatus(intern(string(condition.Status))), condition.Since
		}
		entry.Conditions = append(entry.Conditions, fresh)
	}
	slices.SortFunc(entry.Conditions, func(a, b Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return entry, nil
}
