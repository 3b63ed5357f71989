// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sightings remembers what this process has seen of the conditions of Nodes, so that it only has
// to trust its own clock (spec 7.2).
package sightings

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Sightings are the sightings of all Nodes. Their methods may be called from any goroutine. The handlers of
// several controllers share them: a version that was recorded already, or an older one, changes nothing.
type Sightings struct {
	now func() time.Time
	// lists returns how often Nodes were listed.
	lists func() int64

	mu sync.Mutex
	// named are the types of conditions that checks name, by the check.
	named map[string]sets.Set[corev1.NodeConditionType]
	// concerned are all of them. revision counts how often they have changed.
	concerned sets.Set[corev1.NodeConditionType]
	revision  int
	nodes     map[string]*node
}

// node has the sightings of one Node.
type node struct {
	uid     types.UID
	version string
	// lists is how often Nodes had been listed when this version was recorded.
	lists int64
	// seen is replaced, never changed: judgements share it. It has what this version shows of the types of this revision.
	seen     []health.Sighting
	revision int
}

// New returns sightings of no Node. Now is the clock of the controllers, and lists returns how often Nodes
// were listed.
func New(now func() time.Time, lists func() int64) *Sightings {
	return &Sightings{now: now, lists: lists, named: map[string]sets.Set[corev1.NodeConditionType]{}, nodes: map[string]*node{}}
}

// Concern replaces the types of conditions that a check names; none if it is gone.
func (s *Sightings) Concern(check string, conditions []corev1.NodeConditionType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(conditions) == 0 {
		delete(s.named, check)
	} else {
		s.named[check] = sets.New(conditions...)
	}
	concerned := sets.New[corev1.NodeConditionType]()
	for _, named := range s.named {
		concerned = concerned.Union(named)
	}
	if !concerned.Equal(s.concerned) {
		s.concerned = concerned
		s.revision++
	}
}

// Observe records a version of a Node, and the one before, which is nil for a Node that was created.
// The handler of Nodes calls it for each version before it wakes anything.
func (s *Sightings) Observe(old, current *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, lists := s.now(), s.lists()
	known := s.nodes[current.Name]
	if known != nil && !newer(current.ResourceVersion, known.version) {
		return
	}
	if known == nil || known.uid != current.UID {
		known = &node{uid: current.UID, lists: lists}
		s.nodes[current.Name] = known
	}
	complete := known.lists == lists
	if old != nil && old.UID == current.UID {
		s.begin(known, old, now) // With conditions that no check has named until now.
	}
	s.dropOthers(known)
	for i := range current.Status.Conditions {
		if condition := &current.Status.Conditions[i]; s.concerned.Has(condition.Type) {
			known.see(condition, complete, now)
		}
	}
	known.version, known.lists, known.revision = current.ResourceVersion, lists, s.revision
}

// dropOthers drops conditions that no check names any more. They are not followed, and must not look as if the
// handler were behind.
func (s *Sightings) dropOthers(known *node) {
	if known.revision != s.revision {
		known.seen = slices.DeleteFunc(slices.Clone(known.seen), func(seen health.Sighting) bool { return !s.concerned.Has(seen.Type) })
	}
}

func (n *node) see(condition *corev1.NodeCondition, complete bool, now time.Time) {
	i := slices.IndexFunc(n.seen, func(seen health.Sighting) bool { return seen.Type == condition.Type })
	if i < 0 {
		n.seen = append(slices.Clip(n.seen), (*health.Sighting)(nil).Next(condition, complete, now))
		return
	}
	if next := n.seen[i].Next(condition, complete, now); next != n.seen[i] { // Most versions change nothing here.
		n.seen = slices.Clone(n.seen)
		n.seen[i] = next
	}
}

// Of returns the sightings for the judgement of this version of a Node. A condition that a check names and
// that is not known yet begins here. The result is shared.
func (s *Sightings) Of(current *corev1.Node) []health.Sighting {
	if current == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[current.Name]
	if known == nil || known.uid != current.UID {
		return nil // Its event will come.
	}
	if recorded := known.version == current.ResourceVersion; !recorded || known.revision != s.revision { // Thousands of Nodes are judged at once.
		s.dropOthers(known)
		if s.begin(known, current, s.now()); recorded {
			known.revision = s.revision
		}
	}
	return known.seen
}

// begin records the conditions that are not known yet.
func (s *Sightings) begin(known *node, current *corev1.Node, now time.Time) {
	for i := range current.Status.Conditions {
		condition := &current.Status.Conditions[i]
		if s.concerned.Has(condition.Type) && !slices.ContainsFunc(known.seen, func(seen health.Sighting) bool { return seen.Type == condition.Type }) {
			known.see(condition, false, now)
		}
	}
}

// Forget drops the sightings of a deleted Node, unless there is another Node of this name.
func (s *Sightings) Forget(name string, exists bool) {
	if exists {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, name)
}

// newer reports whether version is after known. In doubt it returns true: it does no harm to record
// once more.
func newer(version, known string) bool {
	order, err := resourceversion.CompareResourceVersion(version, known)
	return err != nil || order > 0
}
