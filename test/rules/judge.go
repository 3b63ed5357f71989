// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

// Config says what is judged. Remediations, Templates and LeaseNamespace are required.
type Config struct {
	// Remediations and Templates are the resources of the CRs and of their templates.
	Remediations, Templates []schema.GroupVersionResource
	// LeaseNamespace has the leases of nodes.
	LeaseNamespace string
	// Tolerance is what the controller could not have seen when nothing is wrong.
	Tolerance Tolerance
	// Begin is the time to which those in timelines are relative.
	Begin time.Time
}

// Judge judges changes one by one. It is not safe for concurrent use.
type Judge struct {
	*history
	config                  Config
	faults                  faultWindows
	requests                requestLog
	remediations, templates map[schema.GroupVersionResource]bool
	// raw are the objects as they were stored last.
	raw map[string]*unstructured.Unstructured
	// deletedByOthers are the CRs that somebody else has said to delete.
	deletedByOthers sets.Set[types.UID]
	timelines       timelines
	figures         Figures
	violations      []Violation
	// last is the resource version of the last change.
	last uint64
}

// NewJudge returns a judge that has judged nothing yet.
func NewJudge(config Config) *Judge {
	j := &Judge{
		history: newHistory(), config: config, requests: newRequestLog(nil), raw: map[string]*unstructured.Unstructured{},
		deletedByOthers: sets.New[types.UID](),
		remediations:    map[schema.GroupVersionResource]bool{}, templates: map[schema.GroupVersionResource]bool{},
		timelines: newTimelines(config.Begin), figures: Figures{Checks: map[string]int{}},
	}
	for _, resource := range config.Remediations {
		j.remediations[resource] = true
	}
	for _, resource := range config.Templates {
		j.templates[resource] = true
	}
	return j
}

// Again returns a judge that has judged nothing yet, and knows of the same faults and
// requests. It is for a change that has become known too late to be judged in its turn.
func (j *Judge) Again() *Judge {
	again := NewJudge(j.config)
	again.faults, again.deletedByOthers, again.requests = j.faults, j.deletedByOthers, j.requests
	again.timelines.remarks = j.timelines.remarks
	again.figures.Faults, again.figures.Checks["settled"] = j.figures.Faults, j.figures.Checks["settled"]
	again.figures.Replays = j.figures.Replays + 1
	return again
}

// SetRequests tells which requests the controller has made until now, in the order in
// which they arrived. They have to be known before the changes that they have made are
// judged.
func (j *Judge) SetRequests(requests []Request) { j.requests = newRequestLog(requests) }

// AddRequests adds requests to those of SetRequests, all of which arrived before.
func (j *Judge) AddRequests(requests ...Request) { j.requests.add(requests) }

// Violations returns what was broken so far.
func (j *Judge) Violations() []Violation { return slices.Clone(j.violations) }

// Checked returns how often each rule was checked.
func (j *Judge) Checked() map[string]int { return maps.Clone(j.figures.Checks) }

// DeletedByOthers means that somebody else than the controller deletes a CR: it is not
// judged who was right.
func (j *Judge) DeletedByOthers(uid types.UID) { j.deletedByOthers.Insert(uid) }

// finding is what a rule says about something: nothing if text is empty.
type finding struct{ rule, text string }

// charge counts the checks of rules and notes those that were broken.
func (j *Judge) record(node, nhc string, findings ...finding) {
	for _, f := range findings {
		j.figures.Checks[f.rule]++
		if f.text == "" {
			continue
		}
		j.violations = append(j.violations, Violation{Rule: f.rule, Node: node, NHC: nhc, Text: f.text, Timeline: j.timelines.of(node, nhc)})
	}
}

// Apply judges a change, and adds it to the history. Changes come in the order of their
// resource versions.
func (j *Judge) Apply(event Change) {
	if event.Resource == Leases && !strings.HasPrefix(event.Key, j.config.LeaseNamespace+"/") {
		return
	}
	j.figures.Events++
	j.last = max(j.last, event.ResourceVersion)
	if event.Gap {
		j.figures.Gaps++
	}
	id := event.Resource.Resource + " " + event.Key
	before := j.raw[id]
	if event.Object == nil {
		delete(j.raw, id)
	} else {
		j.raw[id] = event.Object
	}
	if replaced := before != nil && event.Object != nil && before.GetUID() != event.Object.GetUID(); replaced {
		before = nil // It was deleted in a gap.
	}
	switch {
	case event.Resource == Nodes:
		j.judgeNode(event)
	case event.Resource == NodeHealthChecks:
		j.judgeNHC(event, before)
	case event.Resource == Leases:
		j.judgeLease(event)
	case j.remediations[event.Resource]:
		j.judgeCR(event, before)
	case j.templates[event.Resource]:
		var exists *struct{}
		if event.Object != nil {
			exists = &struct{}{}
		}
		add(j.history.templates, id, event.ResourceVersion, event.Time, exists)
	}
}

// unreadable notes an object that the judge cannot read, which no test should make.
func (j *Judge) unreadable(event Change, err error) {
	j.record("", "", finding{"judge", fmt.Sprintf("cannot read %s %s: %v", event.Resource.Resource, event.Key, err)})
}

func (j *Judge) judgeNode(event Change) {
	var node *Node
	if event.Object != nil {
		var err error
		if node, err = parseNode(event.Object); err != nil {
			j.unreadable(event, err)
			return
		}
	}
	before := j.nodes[event.Key].at(event.ResourceVersion)
	add(j.nodes, event.Key, event.ResourceVersion, event.Time, node)
	j.timelines.node(event, before, node)
	if before != nil && node != nil && before.UID == node.UID && !event.Gap {
		j.record(event.Key, "", j.confirmationRemoved(before, node, event))
	}
}

func (j *Judge) judgeNHC(event Change, before *unstructured.Unstructured) {
	var nhc *NHC
	if event.Object != nil {
		var err error
		if nhc, err = parseNHC(event.Object); err != nil {
			j.unreadable(event, err)
			return
		}
	}
	old := j.nhcs[event.Key].at(event.ResourceVersion)
	add(j.nhcs, event.Key, event.ResourceVersion, event.Time, nhc)
	j.timelines.nhc(event, old, nhc)
	if nhc == nil {
		return
	}
	j.record("", event.Key, statusInOrder(&nhc.Status))
	if before != nil && !event.Gap {
		j.record("", event.Key, statusIsNews(before, event.Object), onlyStatus(before, event.Object))
	}
}

func (j *Judge) judgeLease(event Change) {
	before := j.leases[event.Key].at(event.ResourceVersion)
	if event.Object == nil {
		j.addLease(event.Key, event.ResourceVersion, event.Time, nil)
		j.timelines.lease(event, before, nil)
		return
	}
	lease, err := parseLease(event.Object)
	if err != nil {
		j.unreadable(event, err)
		return
	}
	j.addLease(event.Key, event.ResourceVersion, event.Time, lease)
	j.timelines.lease(event, before, lease)
	if before != nil && !event.Gap {
		j.record(nodeOfLease(lease), "", takenOver(before, lease, event.Time))
	}
}

func (j *Judge) judgeCR(event Change, before *unstructured.Unstructured) {
	id := event.Resource.Resource + " " + event.Key
	last := j.crs[id].at(event.ResourceVersion)
	var cr *CR
	if event.Object != nil {
		cr = ParseCR(event.Object)
	}
	if last != nil && cr != nil && last.UID != cr.UID {
		last = nil
	}
	j.addCR(id, event.ResourceVersion, event.Time, cr)
	j.timelines.cr(event, last, cr)
	if last == nil && cr != nil && cr.ByController && !event.Time.IsZero() && !event.Gap {
		j.judgeCreation(event, cr)
	}
	if last != nil && !last.Deleting && (cr == nil || cr.Deleting) && !event.Gap {
		j.judgeDeletion(event, last)
	}
	if before != nil && cr != nil && !event.Gap {
		j.record(cr.Node, "", j.onlyMarked(event, before))
		if cr.Marked && !last.Marked && wrote(event.Object, markPath) {
			j.judgeMark(event, last, cr)
		}
	}
}

// toleranceAt returns the tolerance for a request at an instant.
func (j *Judge) toleranceAt(now time.Time) Tolerance { return j.faults.at(j.config.Tolerance, now) }
