// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Ledger holds the open episodes of one NodeHealthCheck, at most one per node, and the
// last ones that ended. It is immutable, and nil is an empty ledger. Callers share its
// episodes and must not change them.
type Ledger struct {
	open map[string]*openEpisode
	// closed are sorted by keptLongest.
	closed []v1alpha1.Episode
}

// Update returns the ledger after a sync, and the episodes that ended in it, by
// node. Every open episode either stays open or is among those that ended. There must be
// no two observations of one node. The ledgers share the episodes that stay the same.
func (l *Ledger) Update(observations iter.Seq[Observation], now time.Time) (next *Ledger, over []v1alpha1.Episode) {
	if l == nil {
		l = &Ledger{}
	}
	u := update{open: l.open}
	known := 0
	for o := range observations {
		episode := l.open[o.Node]
		if episode != nil {
			known++
		}
		u.follow(episode, &o, now)
	}
	if known < len(l.open) {
		others := maps.Clone(l.open)
		for o := range observations {
			delete(others, o.Node)
		}
		for _, episode := range others {
			u.set(episode, unattended(*episode, now))
		}
	}
	slices.SortFunc(u.over, byNode)
	return &Ledger{open: u.open, closed: latest(l.closed, u.over)}, u.over
}

// update has the open episodes while one sync changes them.
type update struct {
	// open is the map of the earlier ledger until something changes.
	open    map[string]*openEpisode
	changed bool
	over    []v1alpha1.Episode
}

// follow brings the open episode of a node up to date, and begins one if there is none and the
// node has become unhealthy.
func (u *update) follow(episode *openEpisode, o *Observation, now time.Time) {
	if episode != nil && episode.replaced(o) {
		lost := *episode
		lost.lose(now)
		u.set(episode, lost)
		episode = nil
	}
	switch {
	case episode != nil:
		u.set(episode, advance(*episode, o, now))
	case o.Node != "" && o.begins():
		u.set(nil, advance(openEpisode{Episode: v1alpha1.Episode{Node: o.Node}}, o, now))
	}
}

// set records the change of an open episode. The earlier episode is nil if it has just
// begun.
func (u *update) set(before *openEpisode, after openEpisode) {
	if before != nil && before.equal(&after) {
		return
	}
	if !u.changed {
		shared := u.open
		u.changed, u.open = true, make(map[string]*openEpisode, len(shared))
		maps.Copy(u.open, shared)
	}
	if after.Outcome != "" {
		u.over = append(u.over, after.Episode)
		delete(u.open, after.Node)
		return
	}
	changed := after // Allocated only here.
	u.open[after.Node] = &changed
}

// unattended returns an episode after a sync that did not observe its node. A deleted node
// is still deleted.
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

// Episode returns the open episode of a node, nil if there is none. Its Trigger and
// Detected are those of the entry of the node in unhealthyNodes. It is complete once the
// ledger comes from Update.
func (l *Ledger) Episode(node string) *v1alpha1.Episode {
	if l == nil || l.open[node] == nil {
		return nil
	}
	return &l.open[node].Episode
}

// Vanished returns the steps of the open episode of a node whose CRs other clients have deleted.
func (l *Ledger) Vanished(node string) (steps []v1alpha1.EpisodeStep) {
	if episode := l.Episode(node); episode != nil {
		for _, step := range episode.Steps {
			if step.Result == v1alpha1.StepVanished {
				steps = append(steps, step)
			}
		}
	}
	return steps
}

// Len returns the number of open episodes.
func (l *Ledger) Len() int {
	if l == nil {
		return 0
	}
	return len(l.open)
}

// Nodes returns the names, in any order, of the nodes with an open episode. The next sync
// has to observe them, or their episodes are cancelled. If a Node was deleted under
// remediation and has no CR any more, it is only among them once it has returned. So it
// costs almost nothing until then.
func (l *Ledger) Nodes(exists func(node string) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		if l == nil {
			return
		}
		for node, episode := range l.open {
			if (!episode.awaited() || episode.returned || exists(node)) && !yield(node) {
				return
			}
		}
	}
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
