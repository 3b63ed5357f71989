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
	open map[string]*v1alpha1.Episode
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
			u.set(episode, advance(*episode, &Observation{Node: episode.Node, State: health.SoonUnhealthy}, now)) // Cancelled.
		}
	}
	slices.SortFunc(u.over, byNode)
	return &Ledger{open: u.open, closed: latest(l.closed, u.over)}, u.over
}

// update has the open episodes while one sync changes them.
type update struct {
	// open is the map of the earlier ledger until something changes.
	open    map[string]*v1alpha1.Episode
	changed bool
	over    []v1alpha1.Episode
}

// follow brings the open episode of a node up to date, and begins one if there is none and the
// node has become unhealthy.
func (u *update) follow(episode *v1alpha1.Episode, o *Observation, now time.Time) {
	if episode != nil && replaced(episode, o) {
		u.set(episode, lose(*episode, now))
		episode = nil
	}
	switch {
	case episode != nil:
		u.set(episode, advance(*episode, o, now))
	case o.Node != "" && o.begins():
		u.set(nil, advance(v1alpha1.Episode{Node: o.Node}, o, now))
	}
}

// set records the change of an open episode. The earlier episode is nil if it has just
// begun.
func (u *update) set(before *v1alpha1.Episode, after v1alpha1.Episode) {
	if before != nil && same(before, &after) {
		return
	}
	if !u.changed {
		shared := u.open
		u.changed, u.open = true, make(map[string]*v1alpha1.Episode, len(shared))
		maps.Copy(u.open, shared)
	}
	if after.Outcome != "" {
		u.over = append(u.over, after)
		delete(u.open, after.Node)
		return
	}
	changed := after // Allocated only here.
	u.open[after.Node] = &changed
}

// Episode returns the open episode of a node, nil if there is none. Its Trigger and
// Detected are those of the entry of the node in unhealthyNodes. It is complete once the
// ledger comes from Update.
func (l *Ledger) Episode(node string) *v1alpha1.Episode {
	if l == nil {
		return nil
	}
	return l.open[node]
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
// has to observe them, or their episodes are cancelled.
func (l *Ledger) Nodes() iter.Seq[string] {
	if l == nil {
		return maps.Keys(map[string]bool(nil))
	}
	return maps.Keys(l.open)
}
