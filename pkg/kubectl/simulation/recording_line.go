// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
