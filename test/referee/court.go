// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Violation is a broken rule.
type Violation struct {
	// Rule is the number in the specification.
	Rule string
	// Node and NHC are what it is about; either may be empty.
	Node, NHC string
	// Text says what happened.
	Text string
	// Timeline is what had happened to the node and its NodeHealthCheck before.
	Timeline string
}

// String returns the violation with its timeline.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (node %q, NodeHealthCheck %q)\n%s", v.Rule, v.Text, v.Node, v.NHC, v.Timeline)
}

// court judges changes one by one. It is not safe for concurrent use.
type court struct {
	*History
	quiet                   Sight
	fog                     fog
	audit                   audit
	remediations, templates map[schema.GroupVersionResource]bool
	// raw are the objects as they were stored last.
	raw map[string]*unstructured.Unstructured
	// excused are the CRs that somebody else has said to delete.
	excused    sets.Set[types.UID]
	timelines  timelines
	figures    Figures
	violations []Violation
	horizon    uint64
}

func newCourt(quiet Sight) *court {
	return &court{
		History: newHistory(), quiet: quiet, raw: map[string]*unstructured.Unstructured{}, excused: sets.New[types.UID](),
		remediations: map[schema.GroupVersionResource]bool{}, templates: map[schema.GroupVersionResource]bool{},
		timelines: newTimelines(), figures: Figures{Checks: map[string]int{}},
	}
}

// afresh returns a court that has judged nothing yet, and knows of the same faults.
func (c *court) afresh() *court {
	again := newCourt(c.quiet)
	again.fog, again.excused, again.remediations, again.templates = c.fog, c.excused, c.remediations, c.templates
	again.timelines.begin, again.timelines.remarks = c.timelines.begin, c.timelines.remarks
	again.figures.Faults, again.figures.Checks["settled"] = c.figures.Faults, c.figures.Checks["settled"]
	again.figures.Replays = c.figures.Replays + 1
	return again
}

// finding is what a rule says about something: nothing if text is empty.
type finding struct{ rule, text string }

// charge counts the checks of rules and notes those that were broken.
func (c *court) charge(node, nhc string, findings ...finding) {
	for _, f := range findings {
		c.figures.Checks[f.rule]++
		if f.text == "" {
			continue
		}
		c.violations = append(c.violations, Violation{Rule: f.rule, Node: node, NHC: nhc, Text: f.text, Timeline: c.timelines.of(node, nhc)})
	}
}

// judge judges one change, and adds it to the history.
func (c *court) judge(event change) {
	c.figures.Events++
	if event.gap {
		c.figures.Gaps++
	}
	id := event.resource.Resource + " " + event.key
	before := c.raw[id]
	if event.object == nil {
		delete(c.raw, id)
	} else {
		c.raw[id] = event.object
	}
	if replaced := before != nil && event.object != nil && before.GetUID() != event.object.GetUID(); replaced {
		before = nil // It was deleted in a gap.
	}
	switch {
	case event.resource == nodes:
		c.judgeNode(event)
	case event.resource == nhcs:
		c.judgeNHC(event, before)
	case event.resource == leases:
		c.judgeLease(event)
	case c.remediations[event.resource]:
		c.judgeCR(event, before)
	case c.templates[event.resource]:
		var exists *struct{}
		if event.object != nil {
			exists = &struct{}{}
		}
		add(c.History.templates, id, event.rv, event.seen, exists)
	}
}

// unreadable notes an object that the referee cannot read, which no test should make.
func (c *court) unreadable(event change, err error) {
	c.charge("", "", finding{"referee", fmt.Sprintf("cannot read %s %s: %v", event.resource.Resource, event.key, err)})
}

func (c *court) judgeNode(event change) {
	var node *Node
	if event.object != nil {
		var err error
		if node, err = parseNode(event.object); err != nil {
			c.unreadable(event, err)
			return
		}
	}
	before := c.nodes[event.key].at(event.rv)
	add(c.nodes, event.key, event.rv, event.seen, node)
	c.timelines.node(event, before, node)
	if before != nil && node != nil && before.UID == node.UID && !event.gap {
		c.charge(event.key, "", c.confirmationRemoved(before, node, event))
	}
}

func (c *court) judgeNHC(event change, before *unstructured.Unstructured) {
	var nhc *NHC
	if event.object != nil {
		var err error
		if nhc, err = parseNHC(event.object); err != nil {
			c.unreadable(event, err)
			return
		}
	}
	old := c.nhcs[event.key].at(event.rv)
	add(c.nhcs, event.key, event.rv, event.seen, nhc)
	c.timelines.nhc(event, old, nhc)
	if nhc == nil {
		return
	}
	c.charge("", event.key, statusInOrder(&nhc.Status))
	if before != nil && !event.gap {
		c.charge("", event.key, statusIsNews(before, event.object), onlyStatus(before, event.object))
	}
}

func (c *court) judgeLease(event change) {
	before := c.leases[event.key].at(event.rv)
	if event.object == nil {
		c.addLease(event.key, event.rv, event.seen, nil)
		c.timelines.lease(event, before, nil)
		return
	}
	lease, err := parseLease(event.object)
	if err != nil {
		c.unreadable(event, err)
		return
	}
	c.addLease(event.key, event.rv, event.seen, lease)
	c.timelines.lease(event, before, lease)
	if before != nil && !event.gap {
		c.charge(nodeOfLease(lease), "", takenOver(before, lease, event.seen))
	}
}

func (c *court) judgeCR(event change, before *unstructured.Unstructured) {
	id := event.resource.Resource + " " + event.key
	last := c.crs[id].at(event.rv)
	var cr *CR
	if event.object != nil {
		cr = ParseCR(event.object)
	}
	if last != nil && cr != nil && last.UID != cr.UID {
		last = nil
	}
	c.addCR(id, event.rv, event.seen, cr)
	c.timelines.cr(event, last, cr)
	if last == nil && cr != nil && cr.ByController && !event.seen.IsZero() && !event.gap {
		c.judgeCreation(event, cr)
	}
	if last != nil && !last.Deleting && (cr == nil || cr.Deleting) && !event.gap {
		c.judgeDeletion(event, last)
	}
	if before != nil && cr != nil && !event.gap {
		c.charge(cr.Node, "", onlyMarked(before, event.object))
		if cr.Marked && !last.Marked && wrote(event.object, markPath) {
			c.judgeMark(event, last, cr)
		}
	}
}

// sightAt returns the tolerance for a request at an instant.
func (c *court) sightAt(now time.Time) Sight { return c.fog.at(c.quiet, now) }
