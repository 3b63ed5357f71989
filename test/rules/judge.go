// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Violation is a broken rule.
type Violation struct {
	// Rule is the number in the specification.
	Rule string
	// Node and NHC are what it is about; either may be empty. Where Machines are, these are the
	// Machine and the MachineHealthCheck, with their kinds.
	Node, NHC string
	// Text says what happened.
	Text string
	// Timeline has the earlier changes of the node and its NodeHealthCheck.
	Timeline string
	// state tells two violations of a rule apart. While things change, one may follow the other, so
	// that there is always one.
	state string
}

// String returns the violation with its timeline.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (node %q, NodeHealthCheck %q)\n%s", v.Rule, v.Text, v.Node, v.NHC, v.Timeline)
}

// Config is the configuration of a Judge. Remediations, Templates and LeaseNamespace are
// required.
type Config struct {
	// Remediations and Templates are the resources of the CRs and of their templates.
	Remediations, Templates []schema.GroupVersionResource
	// LeaseNamespace has the leases of nodes.
	LeaseNamespace string
	// Machines is set where Machines and MachineHealthChecks are followed, too.
	Machines *MachineConfig
	// Tolerance is what the controller could not have seen when nothing is wrong.
	Tolerance Tolerance
	// NodeLag is how long after the judge a process may see a version of a Node at most, whatever is wrong.
	NodeLag time.Duration
	// Exact means that all requests of the controller are known, and that its clock is the judge's.
	Exact bool
	// Begin is the time to which those in timelines are relative.
	Begin time.Time
}

// Judge judges changes one by one. It is not safe for concurrent use.
type Judge struct {
	*history
	config                  Config
	faults                  faultWindows
	requests                requestLog
	logged                  map[string][]LoggedAction // Keyed by node, in order of time.
	remediations, templates map[schema.GroupVersionResource]bool
	// raw are the objects as they were stored last.
	raw        map[string]*unstructured.Unstructured
	timelines  timelines
	figures    Figures
	violations []Violation
	// budgetWrites are the last writes of the status of each budget.
	budgetWrites map[string]*Request
	// changes are the instants at which something has changed, in order, and last is the last resource version.
	changes []instant
	last    uint64
}

// NewJudge returns a judge that has judged nothing yet.
func NewJudge(config Config) *Judge {
	j := &Judge{
		history: newHistory(), config: config, requests: newRequestLog(nil), raw: map[string]*unstructured.Unstructured{},
		remediations: map[schema.GroupVersionResource]bool{}, templates: map[schema.GroupVersionResource]bool{},
		timelines: newTimelines(config.Begin), figures: Figures{Checks: map[string]int{}},
	}
	if config.Machines != nil {
		j.followed, j.backOff, j.activity.gatesServed = true, config.Machines.BackOff, config.Machines.FeatureGates
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
	again.faults, again.requests, again.logged = j.faults, j.requests, j.logged
	again.activity.starts, again.terms = j.activity.starts, j.terms
	again.timelines.remarks = j.timelines.remarks
	again.figures.Faults, again.figures.Checks["settled"] = j.figures.Faults, j.figures.Checks["settled"]
	again.figures.Replays = j.figures.Replays + 1
	return again
}

// SetRequests tells which requests the controller has made until now, in the order in
// which they arrived. They have to be known before the changes that they have made are
// judged.
func (j *Judge) SetRequests(requests []Request) { j.requests = newRequestLog(requests) }

// AddRequests adds requests that arrived after those of SetRequests.
func (j *Judge) AddRequests(requests ...Request) { j.requests.add(requests) }

// Violations returns the rules broken so far.
func (j *Judge) Violations() []Violation { return slices.Clone(j.violations) }

// Checked returns how often each rule was checked.
func (j *Judge) Checked() map[string]int { return maps.Clone(j.figures.Checks) }

// finding is what a rule says about something: nothing if text is empty.
type finding struct{ rule, text string }

// record counts the checks of rules and notes those that were broken.
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
	if event.Resource == Leases && !strings.HasPrefix(event.Key, j.config.LeaseNamespace+"/") && !strings.HasSuffix(event.Key, "/"+otherLeader) {
		return
	}
	j.figures.Events++
	j.last = max(j.last, event.ResourceVersion)
	j.changes = append(j.changes, instant{event.Time, event.ResourceVersion})
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
	by := j.requests.author(event, uidOf(before))
	switch {
	case j.judgeOfMachines(event, before, by):
	case event.Resource == Nodes:
		j.judgeNode(event, by)
	case event.Resource == NodeHealthChecks:
		j.judgeNHC(event, before, by)
	case event.Resource == Leases:
		j.judgeLease(event, by)
	case event.Resource == RemediationBudgets:
		j.judgeBudget(event, before, by)
	case j.remediations[event.Resource]:
		j.judgeCR(event, before, by)
	default:
		j.follow(event, id)
	}
}

func uidOf(object *unstructured.Unstructured) types.UID {
	if object == nil {
		return ""
	}
	return object.GetUID()
}

// follow adds a change to the history without judging it.
func (j *Judge) follow(event Change, id string) {
	if !j.templates[event.Resource] {
		return
	}
	var template *Template
	if event.Object != nil {
		template = parseTemplate(event.Object)
	}
	add(j.history.templates, id, event.ResourceVersion, event.Time, template)
}

// unreadable notes an object that the judge cannot read, which no test should make.
func (j *Judge) unreadable(event Change, err error) {
	j.record("", "", finding{"judge", fmt.Sprintf("cannot read %s %s: %v", event.Resource.Resource, event.Key, err)})
}

func (j *Judge) judgeNode(event Change, by *Request) {
	var node *Node
	if event.Object != nil {
		var err error
		if node, err = parseNode(event.Object); err != nil {
			j.unreadable(event, err)
			return
		}
	}
	before := j.nodes[event.Key].at(event.ResourceVersion)
	if node != nil {
		node.followConditions(before, event.Time, j.config.NodeLag)
	}
	add(j.nodes, event.Key, event.ResourceVersion, event.Time, node)
	j.timelines.node(event, before, node, by)
	if before != nil && node != nil && by != nil && !event.Gap {
		j.record(event.Key, "", j.confirmationRemoved(before, node, event, by))
	}
}

func (j *Judge) judgeNHC(event Change, before *unstructured.Unstructured, by *Request) {
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
	j.timelines.nhc(event, old, nhc, by)
	if nhc == nil {
		return
	}
	if before == nil || event.Gap {
		return
	}
	if by == nil {
		changed := !equality.Semantic.DeepEqual(&old.Status, &nhc.Status)
		nhc.foreign = changed || old.foreign
		j.unattributed(changed, event)
		return
	}
	j.record("", event.Key, statusIsNews(before, event.Object), onlyStatus(before, event.Object))
	j.judgeStatusWrite(event, old, nhc, by)
}

// unattributed counts a write that only the controller makes and that no request explains.
func (j *Judge) unattributed(happened bool, event Change) {
	if !happened || j.config.Exact {
		return
	}
	const named = 5
	if j.figures.Unattributed++; j.figures.Unattributed <= named {
		j.figures.Unexplained = append(j.figures.Unexplained, fmt.Sprintf("%s %s at %d", event.Resource.Resource, event.Key, event.ResourceVersion))
	}
}

func (j *Judge) judgeLease(event Change, by *Request) {
	before := j.leases[event.Key].at(event.ResourceVersion)
	if event.Object == nil {
		j.addLease(event.Key, event.ResourceVersion, event.Time, nil)
		j.timelines.lease(event, before, nil, by)
		_, ofCheck := checkOfHolder(holderOf(before))
		switch {
		case before == nil || event.Gap:
		case by != nil:
			j.judgeLeaseRelease(event, before, by)
		case ofCheck:
			node := nodeOfLease(before)
			j.leasesDeleted[node] = append(j.leasesDeleted[node], event.Time)
		}
		return
	}
	lease, err := parseLease(event.Object)
	if err != nil {
		j.unreadable(event, err)
		return
	}
	j.addLease(event.Key, event.ResourceVersion, event.Time, lease)
	j.timelines.lease(event, before, lease, by)
	if event.Gap || event.Time.IsZero() {
		return
	}
	if before != nil {
		j.record(nodeOfLease(lease), "", takenOver(before, lease, event.Time))
	}
	if by == nil {
		j.unattributed(strings.HasPrefix(holderOf(lease), holderPrefix), event)
		return
	}
	j.judgeLeaseWrite(event, before, lease, by)
	j.judgeCheckLeaseWrite(event, before, lease, by)
}

func (j *Judge) judgeCR(event Change, before *unstructured.Unstructured, by *Request) {
	id := event.Resource.Resource + " " + event.Key
	last := j.crs[id].at(event.ResourceVersion)
	var cr *CR
	if event.Object != nil {
		cr = ParseCR(event.Object)
	}
	if cr != nil {
		cr.ByController = (last == nil && by != nil) || (last != nil && last.ByController)
		switch {
		case last != nil:
			cr.Process = last.Process
			cr.inheritChecks(last)
		case by != nil:
			cr.Process = by.UserAgent
		}
	}
	j.addCR(id, event.ResourceVersion, event.Time, cr)
	j.timelines.cr(event, last, cr, by)
	if event.Gap || event.Time.IsZero() {
		return
	}
	switch {
	case last == nil && cr == nil: // It came and went in a gap.
	case last == nil && by == nil:
		j.unattributed(len(cr.Owners) > 0, event)
	case last == nil && len(cr.Checks) > 0:
		j.judgeMachineCR(event, cr, by)
	case last == nil:
		j.judgeCreation(event, cr, by)
	case !last.Deleting && (cr == nil || cr.Deleting) && by != nil && len(last.everChecks()) > 0:
		j.judgeMachineCRDeletion(event, last, by)
	case !last.Deleting && (cr == nil || cr.Deleting) && by != nil:
		j.judgeDeletion(event, last, by)
	case cr != nil:
		j.judgeCRWrite(event, before, last, cr, by)
	}
}

// judgeCRWrite judges a change of a CR that stays.
func (j *Judge) judgeCRWrite(event Change, before *unstructured.Unstructured, last, cr *CR, by *Request) {
	j.record(cr.Node, "", j.markedAgain(event, last, cr))
	if by == nil {
		j.unattributed(cr.Marked && !last.Marked, event)
		return
	}
	j.record(cr.Node, "", onlyMarked(before, event.Object))
	if cr.Marked && !last.Marked {
		j.judgeMark(event, last, cr, by)
	}
}

// toleranceAt returns the tolerance for a request.
func (j *Judge) toleranceAt(by *Request) Tolerance { return j.faults.at(j.config.Tolerance, by) }
