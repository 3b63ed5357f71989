// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// line is one thing that happened.
type line struct {
	at   time.Time
	rv   uint64
	text string
}

// timelines have what happened, by node and by NodeHealthCheck, and what concerns all.
type timelines struct {
	begin       time.Time
	nodes, nhcs map[string][]line
	remarks     []line
}

func newTimelines(begin time.Time) timelines {
	return timelines{begin: begin, nodes: map[string][]line{}, nhcs: map[string][]line{}}
}

// longest is how many lines of each kind a violation shows.
const longest = 40

// Remark adds something to all timelines.
func (j *Judge) Remark(now time.Time, format string, args ...any) {
	j.timelines.remarks = append(j.timelines.remarks, line{at: now, text: "-- " + fmt.Sprintf(format, args...)})
}

// of returns the timeline of a node and a NodeHealthCheck, with remarks.
func (t timelines) of(node, nhc string) string {
	var lines []line
	for _, some := range [][]line{t.nodes[node], t.nhcs[nhc], t.remarks} {
		lines = append(lines, some[max(0, len(some)-longest):]...)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.rv, b.rv)) })
	var text strings.Builder
	for _, l := range lines {
		at := "          "
		if !l.at.IsZero() {
			at = fmt.Sprintf("%9.3fs", l.at.Sub(t.begin).Seconds())
		}
		fmt.Fprintf(&text, "    %s %6d %s\n", at, l.rv, l.text)
	}
	return text.String()
}

func (t timelines) node(event Change, before, after *Node, by *Request) {
	var what []string
	switch {
	case after == nil:
		what = append(what, "deleted")
	case before == nil:
		what = append(what, fmt.Sprintf("created, uid %s", after.UID))
	}
	if after != nil {
		for _, condition := range after.Conditions {
			what = append(what, fmt.Sprintf("%s=%s since %s", condition.Type, condition.Status, condition.LastTransitionTime.UTC().Format("15:04:05")))
		}
		for _, key := range slices.Sorted(maps.Keys(after.Labels)) {
			if matters := strings.Contains(key, "role") || strings.Contains(key, "exclude") || strings.HasSuffix(key, "/pool"); matters {
				what = append(what, key+"="+after.Labels[key])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(after.Annotations)) {
			what = append(what, "annotation "+key)
		}
	}
	t.nodes[event.Key] = append(t.nodes[event.Key], line{event.Time, event.ResourceVersion, "Node " + strings.Join(what, ", ") + author(by)})
}

func (t timelines) nhc(event Change, before, after *NHC, by *Request) {
	var text strings.Builder
	text.WriteString("NodeHealthCheck " + event.Key)
	switch {
	case after == nil:
		text.WriteString(" deleted")
	case before == nil || before.Generation != after.Generation:
		spec, err := json.Marshal(after.Spec)
		if err != nil {
			spec = []byte(err.Error())
		}
		fmt.Fprintf(&text, " generation %d: %s", after.Generation, spec)
	}
	if after != nil {
		fmt.Fprintf(&text, " status: %s, %s", after.Status.Phase, after.Status.Reason)
		if after.Status.ObservedNodes != nil && after.Status.HealthyNodes != nil {
			fmt.Fprintf(&text, ", %d of %d healthy", *after.Status.HealthyNodes, *after.Status.ObservedNodes)
		}
		for _, condition := range after.Status.Conditions {
			fmt.Fprintf(&text, ", %s=%s", condition.Type, condition.Status)
		}
	}
	t.nhcs[event.Key] = append(t.nhcs[event.Key], line{event.Time, event.ResourceVersion, text.String() + author(by)})
}

func (t timelines) lease(event Change, before, after *coordinationv1.Lease, by *Request) {
	if after == nil {
		if before != nil {
			t.append(nodeOfLease(before), event, "Lease of "+holderOf(before)+" is gone"+author(by))
		}
		return
	}
	text := fmt.Sprintf("Lease of %q", holderOf(after))
	if after.Spec.AcquireTime != nil && after.Spec.RenewTime != nil && after.Spec.LeaseDurationSeconds != nil {
		text += fmt.Sprintf(", acquired %s, renewed %s for %d s", after.Spec.AcquireTime.UTC().Format("15:04:05.000"), after.Spec.RenewTime.UTC().Format("15:04:05.000"), *after.Spec.LeaseDurationSeconds)
	}
	t.append(nodeOfLease(after), event, text+author(by))
}

func (t timelines) cr(event Change, before, after *CR, by *Request) {
	switch {
	case after == nil && before != nil:
		t.append(before.Node, event, before.String()+" is gone"+author(by))
	case after != nil && before == nil:
		t.append(after.Node, event, fmt.Sprintf("%s created, uid %s, owners %v, template %s%s", after, after.UID, after.Owners, after.Template, author(by)))
	case after != nil:
		t.append(after.Node, event, fmt.Sprintf("%s deleting: %t, timed out: %q, Succeeded=%s%s", after, after.Deleting, after.TimedOut, after.Succeeded, author(by)))
	}
}

func (t timelines) append(node string, event Change, text string) {
	t.nodes[node] = append(t.nodes[node], line{event.Time, event.ResourceVersion, text})
}

// author says which process of the controller has made a change, if any has, and when its
// request arrived.
func author(by *Request) string {
	if by == nil {
		return ""
	}
	process, _, _ := strings.Cut(by.UserAgent, "/")
	return fmt.Sprintf(", by %s at %s", process, by.Time.UTC().Format("15:04:05.000"))
}
