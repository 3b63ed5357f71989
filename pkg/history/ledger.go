// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Ledger holds the open episodes of one NodeHealthCheck, at most one per node, and
// the last ones that ended. It is immutable, and nil is an empty one. What it gives
// away is shared and must not be changed.
type Ledger struct {
	open map[string]openEpisode
	// closed are sorted by keptLongest.
	closed []v1alpha1.Episode
}

// Update returns the ledger after a sync, and the episodes that ended in it, by
// node. Every open episode either stays open or is among those that ended. A second
// observation of the same node is ignored.
func (l *Ledger) Update(observations []Observation, now time.Time) (next *Ledger, over []v1alpha1.Episode) {
	if l == nil {
		l = &Ledger{}
	}
	next = &Ledger{open: make(map[string]openEpisode, len(l.open))}
	observed := make(map[string]bool, len(observations))
	for i := range observations {
		o := &observations[i]
		if o.Node == "" || observed[o.Node] {
			continue
		}
		observed[o.Node] = true
		over = append(over, next.add(l.follow(o, now))...)
	}
	for node, episode := range l.open {
		if !observed[node] {
			over = append(over, next.add([]openEpisode{unattended(episode, now)})...)
		}
	}
	slices.SortFunc(over, byNode)
	next.closed = latest(l.closed, over)
	return next, over
}

// follow returns what became of the episode of a node, and after it the one that
// has begun, if that is a new one.
func (l *Ledger) follow(o *Observation, now time.Time) []openEpisode {
	var episodes []openEpisode
	episode, known := l.open[o.Node]
	if known && episode.namesake(o) {
		episode.lose(now)
		episodes = append(episodes, episode)
		known = false
	}
	if !known {
		if !o.begins() {
			return episodes
		}
		episode = openEpisode{Episode: v1alpha1.Episode{Node: o.Node}}
	}
	return append(episodes, advance(episode, o, now))
}

// unattended returns an episode after a sync that did not observe its node. If that was
// deleted, it still is.
func unattended(episode openEpisode, now time.Time) openEpisode {
	episode.deleted = earlier(episode.deleted, now) // A status may say anything.
	switch {
	case !episode.awaited():
		return advance(episode, &Observation{Node: episode.Node, State: health.SoonUnhealthy, NodeDeleted: !episode.deleted.IsZero()}, now)
	case episode.returnTimeOver(now):
		episode.lose(now)
	default:
		episode.returned = false
	}
	return episode
}

// add takes up the episodes that go on and returns the others.
func (l *Ledger) add(episodes []openEpisode) (over []v1alpha1.Episode) {
	for _, episode := range episodes {
		if episode.Outcome != "" {
			over = append(over, episode.Episode)
		} else {
			l.open[episode.Node] = episode
		}
	}
	return over
}

// Episode returns the open episode of a node, and whether there is one. Its Trigger
// and Detected are those of the entry of the node in unhealthyNodes. It is complete
// once the ledger comes from Update.
func (l *Ledger) Episode(node string) (v1alpha1.Episode, bool) {
	if l == nil {
		return v1alpha1.Episode{}, false
	}
	episode, open := l.open[node]
	return episode.Episode, open
}

// Nodes returns the names, sorted, of the nodes that are to be observed in the next
// sync, or their episodes are cancelled: those with an open episode. One whose Node was
// deleted under remediation and has no CR any more is among them only if that Node
// has returned, so that it costs next to nothing until then.
func (l *Ledger) Nodes(exists func(node string) bool) []string {
	if l == nil {
		return nil
	}
	var names []string
	for node, episode := range l.open {
		if !episode.awaited() || episode.returned || exists(node) {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	return names
}

// Recheck returns the next instant after now at which time alone ends an episode, zero
// if there is none.
func (l *Ledger) Recheck(now time.Time) time.Time {
	var next time.Time
	if l == nil {
		return next
	}
	for _, episode := range l.open {
		if episode.awaited() && !episode.returnTimeOver(now) {
			next = health.Earliest(next, episode.deleted.Add(returnTime))
		}
	}
	return next
}
