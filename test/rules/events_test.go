// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// eventOn returns an event on a kind of object, with the count of its series.
func eventOn(kind, name, reason, eventType, note string, series int) *unstructured.Unstructured {
	related := map[string]any{"kind": "Node", "name": "n"}
	if kind == "Node" {
		related = map[string]any{"kind": v1alpha1.Kind, "name": "nhc"}
	}
	fields := map[string]any{
		"reportingController": "NodeHealthCheck", "reason": reason, "type": eventType, "note": note,
		"regarding": map[string]any{"kind": kind, "name": name}, "related": related,
	}
	if series > 0 {
		fields["series"] = map[string]any{"count": int64(series)}
	}
	return &unstructured.Unstructured{Object: fields}
}

func createdOn(kind, name string, series int) *unstructured.Unstructured {
	return eventOn(kind, name, "RemediationCreated", "Normal", notePrefix+createdNote+"n", series)
}

// TestEvents creates CRs for node "n", and has these events come.
func TestEvents(t *testing.T) {
	t.Parallel()
	both := func(series int) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{createdOn(v1alpha1.Kind, "nhc", series), createdOn("Node", "n", series)}
	}
	for name, tc := range map[string]struct {
		created int
		events  []*unstructured.Unstructured
		lost    bool
		node    *Node
		want    []string
		early   bool // It happened long before.
	}{
		"one":                          {1, both(0), false, failedNode("n"), nil, false},
		"19.1 none":                    {1, nil, false, failedNode("n"), []string{"19.1", "19.1"}, false},
		"19.1 not on the Node":         {1, both(0)[:1], false, failedNode("n"), []string{"19.1"}, false},
		"none, and they may be lost":   {1, nil, true, failedNode("n"), nil, false},
		"19.1 none, lost long before":  {1, nil, true, failedNode("n"), []string{"19.1", "19.1"}, true},
		"none, and the Node is gone":   {1, nil, false, nil, nil, false},
		"19.1 too many":                {1, both(2), false, failedNode("n"), []string{"19.1", "19.1"}, false},
		"19.3 once more, by a new one": {1, both(2), true, failedNode("n"), nil, false},
		"two":                          {2, both(2), false, failedNode("n"), nil, false},
		"19.1 one for two":             {2, both(0), false, failedNode("n"), []string{"19.1", "19.1"}, false},
		"19.1 without a transition":    {0, both(0)[:1], false, failedNode("n"), []string{"19.1"}, false},
		"19.1 of another type":         {0, []*unstructured.Unstructured{eventOn(v1alpha1.Kind, "nhc", "NoTemplateLeft", "Normal", "[remediation] x", 0)}, false, failedNode("n"), []string{"19.1"}, false},
		"19.1 without prefix":          {0, []*unstructured.Unstructured{eventOn(v1alpha1.Kind, "nhc", "NoTemplateLeft", "Warning", "x", 0)}, false, failedNode("n"), []string{"19.1"}, false},
		"19.1 of another reason":       {0, []*unstructured.Unstructured{eventOn(v1alpha1.Kind, "nhc", "Other", "Warning", "[remediation] x", 0)}, false, failedNode("n"), []string{"19.1"}, false},
		"NoTemplateLeft alone":         {0, []*unstructured.Unstructured{eventOn(v1alpha1.Kind, "nhc", "NoTemplateLeft", "Warning", "[remediation] x", 0)}, false, failedNode("n"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.nhc(past, healthCheck())
			s.events.now = at(90)
			if tc.early {
				s.events.now = at(10)
			}
			for range tc.created {
				s.events.created(newCR("n", "Reboot", "one"), failedNode("n"))
			}
			if tc.lost {
				s.Restarted(at(100))
			}
			for i, event := range tc.events {
				s.judgeEvent(Change{Resource: Events, Key: fmt.Sprint("default/", i), Time: at(100), Object: event})
			}
			if tc.node != nil {
				s.node(past, tc.node)
			}
			found := append(s.Violations(), s.unsettledEvents(s.snapshotAt(at(100)))...)
			require.Equal(t, tc.want, brokenRules(found), "%v", found)
		})
	}
}

// TestStatusEvents: what status shows is reported.
func TestStatusEvents(t *testing.T) {
	t.Parallel()
	s := newFixture()
	s.nhc(past, healthCheck())
	e := &s.events
	e.statusChanged("nhc", healthCheck(), healthCheck(stated(1, 1)))
	e.statusChanged("nhc", healthCheck(stated(1, 1)), healthCheck(stated(1, 1), disabledFor(v1alpha1.ReasonTemplateNotFound)))
	e.statusChanged("nhc", healthCheck(storm(0, 1, false)), healthCheck(storm(0, 1, true), calmSince(at(1))))
	e.statusChanged("nhc", healthCheck(storm(0, 1, true)), healthCheck(storm(0, 1, false)))
	e.removed(newCR("n", "Reboot", "one"), nil)
	var missing []string
	for r := range e.transitions {
		missing = append(missing, r.reason)
	}
	require.ElementsMatch(t, []string{"Enabled", "Disabled", "StormRecoveryStarted", "StormRecoveryCooldownStarted", "StormRecoveryEnded", "RemediationRemoved", "RemediationRemoved"}, missing)
}

// TestNeedlessDeletion: the answer to a request to delete does not tell that the CR was being deleted
// already. A user has deleted it at 50 s.
func TestNeedlessDeletion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		requested time.Time
		version   int // Of the CR, that the request was answered with.
		events    int
		want      []string
	}{
		"reported":                     {at(50.01), 2, 1, nil},
		"not reported":                 {at(50.01), 2, 0, nil},
		"19.1 without a request":       {time.Time{}, 0, 1, []string{"19.1"}},
		"19.1 reported twice":          {at(50.01), 2, 2, []string{"19.1"}},
		"19.1 of another version":      {at(50.01), 1000, 1, []string{"19.1"}},
		"19.1 the one that deletes it": {at(49.99), 2, 1, []string{"19.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.nhc(past, healthCheck())
			first := int(s.rv)
			cr := newCR("n", "Reboot", "one")
			s.addCR("reboots ns/"+cr.Name, s.next(), at(1), cr)
			s.addCR("reboots ns/"+cr.Name, s.next(), at(50), newCR("n", "Reboot", "one", deleting))
			if !tc.requested.IsZero() {
				s.AddRequests(Request{Time: tc.requested, Verb: "delete", Resource: "reboots", Namespace: "ns", Name: cr.Name, Code: 200, ResourceVersion: fmt.Sprint(first + tc.version)})
			}
			for i := range tc.events {
				note := notePrefix + removedNote(cr)
				s.judgeEvent(Change{Resource: Events, Key: fmt.Sprint("default/", i), Time: at(51), Object: eventOn(v1alpha1.Kind, "nhc", "RemediationRemoved", "Normal", note, 0)})
			}
			found := append(s.Violations(), s.unsettledEvents(s.snapshotAt(at(100)))...)
			require.Equal(t, tc.want, brokenRules(found), "%v", found)
		})
	}
}

// TestSeenNode: a Node that was gone a moment ago may have got no events.
func TestSeenNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gone time.Time
		want bool
	}{
		"never":        {want: true},
		"long ago":     {gone: at(10), want: true},
		"a moment ago": {gone: at(99)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.node(past, failedNode("n"))
			if !tc.gone.IsZero() {
				s.noNode(tc.gone, "n")
				s.node(tc.gone.Add(time.Millisecond), failedNode("n"))
			}
			require.Equal(t, tc.want, s.seenNode(Change{ResourceVersion: s.next()}, &Request{Time: at(100)}, "n") != nil)
		})
	}
}

// TestExcusedEvents: an event that nothing has caused may come soon after a restart, once, and after something that was not judged.
func TestExcusedEvents(t *testing.T) {
	t.Parallel()
	soon, late, third := arrival{at(130), 1}, arrival{at(200), 1}, arrival{at(2000), 3}
	for name, tc := range map[string]struct {
		restarts, blind []time.Time
		came            []arrival
		want            int
	}{
		"nothing has happened":     {nil, nil, list(soon), 0},
		"a restart":                {list(at(100)), nil, list(soon), 1},
		"a restart, twice":         {list(at(100)), nil, list(soon, soon), 1},
		"a restart, long ago":      {list(at(100)), nil, list(late), 0},
		"a restart, and a series":  {list(at(100)), nil, list(third), 1},
		"not judged":               {nil, list(at(100)), list(soon, soon), 2},
		"not judged, long ago":     {nil, list(at(100)), list(late), 0},
		"not judged, after it":     {nil, list(at(100)), list(arrival{at(30), 1}), 0},
		"not judged, and a series": {nil, list(at(100)), list(third), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := NewJudge(Config{Exact: true})
			j.events.restarts, j.events.blind = tc.restarts, tc.blind
			require.Equal(t, tc.want, j.excused(tc.came))
		})
	}
}

// TestFoundCRs: the controller may report a CR that another client has created for it, once.
func TestFoundCRs(t *testing.T) {
	t.Parallel()
	s := newFixture()
	s.nhc(past, healthCheck())
	s.events.appeared(newCR("n", "Reboot", "one"))
	for i, event := range []*unstructured.Unstructured{createdOn(v1alpha1.Kind, "nhc", 0), createdOn("Node", "n", 2)} {
		s.judgeEvent(Change{Resource: Events, Key: fmt.Sprint("default/", i), Time: at(100), Object: event})
	}
	require.Equal(t, []string{"19.1"}, brokenRules(s.unsettledEvents(s.snapshotAt(at(100)))), "on the Node it has come twice")
	figures := s.Figures()
	require.Equal(t, 3, figures.Arrivals)
	require.Equal(t, 1, figures.Needless)
}
