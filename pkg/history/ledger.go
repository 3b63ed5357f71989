// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Ledger holds the open episodes of one NodeHealthCheck, at most one per node, and
// the last ones that ended. It is immutable, and nil is an empty one. What it gives
// away is shared and must not be changed.
type Ledger struct {
	open map[string]v1alpha1.Episode
	// closed are sorted by finishedLast.
	closed []v1alpha1.Episode
}

// Update returns the ledger after a round, and the episodes that ended in it, by
// node. Every open episode either stays open or is among those that ended. A second
// observation of the same node is ignored.
func (l *Ledger) Update(observations []Observation, now time.Time) (next *Ledger, ended []v1alpha1.Episode) {
	if l == nil {
		l = &Ledger{}
	}
	next = &Ledger{open: make(map[string]v1alpha1.Episode, len(l.open))}
	observed := make(map[string]bool, len(observations))
	for i := range observations {
		o := &observations[i]
		if o.Node == "" || observed[o.Node] {
			continue
		}
		observed[o.Node] = true
		ended = append(ended, next.add(l.follow(o, now))...)
	}
	for node, episode := range l.open {
		if !observed[node] {
			unattended := Observation{Node: node, State: health.SoonUnhealthy}
			ended = append(ended, advance(episode, &unattended, now))
		}
	}
	slices.SortFunc(ended, byNode)
	next.closed = latest(l.closed, ended)
	return next, ended
}

// follow returns what became of the episode of a node, and after it the one that
// has begun, if that is a new one.
func (l *Ledger) follow(o *Observation, now time.Time) []v1alpha1.Episode {
	var episodes []v1alpha1.Episode
	episode, known := l.open[o.Node]
	if known && replaced(&episode, o) {
		episodes = append(episodes, advance(episode, &Observation{Node: o.Node, NodeDeleted: true}, now))
		known = false
	}
	if !known {
		if !o.begins() {
			return episodes
		}
		episode = v1alpha1.Episode{Node: o.Node}
	}
	return append(episodes, advance(episode, o, now))
}

// add takes up the episodes that go on and returns the others.
func (l *Ledger) add(episodes []v1alpha1.Episode) (ended []v1alpha1.Episode) {
	for _, episode := range episodes {
		if finished(&episode) {
			ended = append(ended, episode)
		} else {
			l.open[episode.Node] = episode
		}
	}
	return ended
}

// Episode returns the open episode of a node, and whether there is one. Its Trigger
// and Detected are those of the entry of the node in unhealthyNodes. It is complete
// once the ledger comes from Update.
func (l *Ledger) Episode(node string) (v1alpha1.Episode, bool) {
	if l == nil {
		return v1alpha1.Episode{}, false
	}
	episode, open := l.open[node]
	return episode, open
}

// Nodes returns the names of the nodes with an open episode, sorted. These are to be
// observed in the next round, or their episodes are cancelled.
func (l *Ledger) Nodes() []string {
	if l == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(l.open))
}
