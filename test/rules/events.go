// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// notePrefix begins every note (spec 19.1).
const notePrefix = "[remediation] "

// eventTypes are the types of the reasons (spec 19.1). RemediationSkipped has both.
var eventTypes = map[string][]string{
	"Enabled": {corev1.EventTypeNormal}, "NoNodes": {corev1.EventTypeWarning}, "LeaseTakenOver": {corev1.EventTypeNormal}, "Disabled": {corev1.EventTypeWarning}, "DetectedUnhealthy": {corev1.EventTypeNormal},
	"RemediationCreated": {corev1.EventTypeNormal}, "RemediationRemoved": {corev1.EventTypeNormal},
	"RemediationSkipped": {corev1.EventTypeNormal, corev1.EventTypeWarning},
	"NoTemplateLeft":     {corev1.EventTypeWarning}, "RemediationFailed": {corev1.EventTypeWarning},
	"InvalidNodeLabel": {corev1.EventTypeWarning}, "OldRemediationCR": {corev1.EventTypeWarning},
	"StormRecoveryStarted": {corev1.EventTypeWarning}, "StormRecoveryCooldownStarted": {corev1.EventTypeWarning},
	"StormRecoveryEnded": {corev1.EventTypeNormal},
}

// reported is what events of the same kind report. The note counts only where it names
// the node or the CR.
type reported struct{ reason, kind, name, note string }

// transition is a change that an event has to report, unless its Node is gone.
type transition struct {
	node    string
	nodeUID types.UID
	// at is when it was seen.
	at time.Time
}

// events compares the events with the transitions that they report.
type events struct {
	transitions map[reported][]transition
	// found is how many events may come for CRs that others have created: the controller cannot tell them from its own.
	found map[reported]int
	// shown are the CRs that status has shown.
	shown map[types.UID]bool
	// counts are how often each event object reports something.
	counts map[string]int
	// came are when events came since the judge began.
	came map[reported][]arrival
	// restarts are when another process went on, blind when something was not judged, and now is the time of the change
	// that is being judged.
	restarts, blind []time.Time
	now             time.Time
}

// arrival is one more event than before, by a count.
type arrival struct {
	at    time.Time
	count int
}

// lossTime is how long before and after a fault or a restart an event may be lost with it.
const lossTime = time.Minute

// mayBeLost reports whether the event of something that happened at an instant may be missing, because of a fault
// or a restart.
func (j *Judge) mayBeLost(at time.Time) bool {
	within := func(from, to time.Time) bool {
		return !at.Before(from.Add(-lossTime)) && (to.IsZero() || !at.After(to.Add(lossTime)))
	}
	return slices.ContainsFunc(j.events.restarts, func(restart time.Time) bool { return within(restart, restart) }) ||
		slices.ContainsFunc(j.faults, func(f *FaultWindow) bool { return f.fails && within(f.from, f.to) })
}

// seriesTime is how much later the third one of a series may come, or one after it.
const seriesTime = 40 * time.Minute

// queueTime is how long events wait in a cluster that has more of them than the controller writes (spec 22.4).
const queueTime = 10 * time.Minute

// excused returns how many events may be needless: one for each restart, and those of something that was not judged,
// which come soon after it.
func (j *Judge) excused(came []arrival) (n int) {
	explains := func(at, known time.Time, a arrival) bool {
		latest := known.Add(lossTime)
		if !j.config.Exact {
			latest = known.Add(queueTime)
		}
		if a.count > 2 {
			latest = latest.Add(seriesTime)
		}
		return !a.at.Before(at.Add(-lossTime)) && !a.at.After(latest)
	}
	for _, restart := range j.events.restarts {
		known := j.requests.statusWritten(restart) // What is reported with a status waits for it.
		if slices.ContainsFunc(came, func(a arrival) bool { return explains(restart, known, a) }) {
			n++
		}
	}
	for _, a := range came {
		if slices.ContainsFunc(j.events.blind, func(at time.Time) bool { return explains(at, at, a) }) {
			n++
		}
	}
	return n
}

func newEvents() events {
	return events{transitions: map[reported][]transition{}, found: map[reported]int{}, shown: map[types.UID]bool{}, counts: map[string]int{}, came: map[reported][]arrival{}}
}

// Restarted tells that another process goes on for the controller: events of the former
// one may be missing, and come once more (spec 19.3).
func (j *Judge) Restarted(now time.Time) { j.events.restarts = append(j.events.restarts, now) }

// created expects the events of a new CR.
func (e *events) created(cr *CR, node *Node) {
	e.aboutNode("RemediationCreated", createdNote+cr.Node, cr, node, false)
}

const createdNote = "Created remediation object for node "

// appeared permits the events of a new CR that another client has created, or with whose request the answer was lost.
func (e *events) appeared(cr *CR) {
	if len(cr.Owners) == 0 {
		return
	}
	e.found[reported{"RemediationCreated", "Node", cr.Node, createdNote + cr.Node}]++
	for _, owner := range cr.Owners {
		e.found[reported{"RemediationCreated", v1alpha1.Kind, owner, createdNote + cr.Node}]++
	}
}

// removed expects the events of a deletion request, also if the Node is gone.
func (e *events) removed(cr *CR, node *Node) {
	e.aboutNode("RemediationRemoved", removedNote(cr), cr, node, true)
}

func removedNote(cr *CR) string {
	return "Deleted remediation CR of kind " + cr.Kind + " with name " + cr.Name
}

// aboutNode expects events on the NodeHealthCheck and on the Node. Unless always, neither
// has to come if the Node is gone.
func (e *events) aboutNode(reason, note string, cr *CR, node *Node, always bool) {
	if len(cr.Owners) == 0 {
		return
	}
	t := transition{node: cr.Node}
	if node != nil {
		t.nodeUID = node.UID
	}
	e.expectOn(reported{reason, "Node", cr.Node, note}, t)
	if always {
		t = transition{}
	}
	e.expect(reason, cr.Owners[0], note, t)
}

// seenNode returns the Node that a request was about, nil if the controller may have seen none,
// or another one.
func (j *Judge) seenNode(event Change, by *Request, name string) *Node {
	node, w := j.nodes[name].at(event.ResourceVersion), j.windowOf(event, by, "", name)
	if node == nil || some(j.nodes[name].during(w.known, w.rv), func(before *Node) bool { return before == nil || before.UID != node.UID }) {
		return nil
	}
	return node
}

// statusChanged expects the events of what status shows.
func (e *events) statusChanged(nhc string, before, after *NHC) {
	e.shownAgain(nhc, before, after)
	old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionDisabled)
	disabled := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionDisabled)
	switch {
	case disabled == nil:
	case disabled.Status == metav1.ConditionTrue && (old == nil || old.Status != metav1.ConditionTrue || old.Reason != disabled.Reason):
		e.expect("Disabled", nhc, "", transition{})
	case disabled.Status != metav1.ConditionTrue && (old == nil || old.Status == metav1.ConditionTrue):
		e.expect("Enabled", nhc, "", transition{})
	}
	selectsNone := func(status *v1alpha1.NodeHealthCheckStatus) bool {
		allowed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRemediationAllowed)
		return allowed != nil && allowed.Reason == v1alpha1.ReasonNoNodes
	}
	if selectsNone(&after.Status) && !selectsNone(&before.Status) {
		e.expect("NoNodes", nhc, "", transition{})
	}
	became := func(conditionType string) bool {
		return !meta.IsStatusConditionTrue(before.Status.Conditions, conditionType) && meta.IsStatusConditionTrue(after.Status.Conditions, conditionType)
	}
	if became(v1alpha1.ConditionStormActive) {
		e.expect("StormRecoveryStarted", nhc, "", transition{})
	}
	if became(v1alpha1.ConditionStormCooldownActive) {
		e.expect("StormRecoveryCooldownStarted", nhc, "", transition{})
	}
	if meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionStormActive) && !meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionStormActive) {
		e.expect("StormRecoveryEnded", nhc, "", transition{})
	}
}

// shownAgain permits the events of a CR that status shows, did not show for a while, and had shown before that: its
// watch is late, and the process has given up waiting for its own creation to show.
func (e *events) shownAgain(nhc string, before, after *NHC) {
	last := uidsIn(&before.Status)
	for uid, node := range uidsIn(&after.Status) {
		if _, shown := last[uid]; !shown && e.shown[uid] {
			e.found[reported{"RemediationCreated", "Node", node, createdNote + node}]++
			e.found[reported{"RemediationCreated", v1alpha1.Kind, nhc, createdNote + node}]++
		}
		e.shown[uid] = true
	}
}

// uidsIn returns the CRs in status, with their nodes.
func uidsIn(status *v1alpha1.NodeHealthCheckStatus) map[types.UID]string {
	uids := map[types.UID]string{}
	for i := range status.UnhealthyNodes {
		for _, remediation := range status.UnhealthyNodes[i].Remediations {
			uids[remediation.Resource.UID] = status.UnhealthyNodes[i].Name
		}
	}
	return uids
}

func (e *events) expect(reason, nhc, note string, t transition) {
	e.expectOn(reported{reason, v1alpha1.Kind, nhc, note}, t)
}

func (e *events) expectOn(r reported, t transition) {
	t.at = e.now
	e.transitions[r] = append(e.transitions[r], t)
}

// counted are the reasons whose events are counted, and whether their note counts. The
// other ones report what no object shows.
var counted = map[string]bool{
	"Enabled": false, "Disabled": false, "NoNodes": false, "StormRecoveryStarted": false, "StormRecoveryCooldownStarted": false, "StormRecoveryEnded": false,
	"RemediationCreated": true, "RemediationRemoved": true,
}

// judgeEvent judges an event of the controller.
func (j *Judge) judgeEvent(change Change) {
	if change.Object == nil {
		return // Events expire.
	}
	event := &eventsv1.Event{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(change.Object.Object, event); err != nil {
		j.unreadable(change, err)
		return
	}
	if event.ReportingController != v1alpha1.Kind {
		return
	}
	count := 1
	if event.Series != nil {
		count = int(event.Series.Count)
	}
	known := j.events.counts[change.Key]
	j.events.counts[change.Key] = count
	if change.Time.IsZero() {
		return
	}
	j.record("", "", eventForm(event))
	note, counts := counted[event.Reason]
	if !counts {
		return
	}
	r := reported{reason: event.Reason, kind: event.Regarding.Kind, name: event.Regarding.Name}
	if note {
		r.note = strings.TrimPrefix(event.Note, notePrefix)
	}
	for n := known + 1; n <= count; n++ {
		j.events.came[r] = append(j.events.came[r], arrival{change.Time, n})
	}
}

// eventForm judges what an event looks like (spec 19.1).
func eventForm(event *eventsv1.Event) finding {
	eventType, known := eventTypes[event.Reason]
	on := event.Regarding.Kind == v1alpha1.Kind && (event.Related == nil || event.Related.Kind == "Node")
	onNode := event.Regarding.Kind == "Node" && event.Related != nil && event.Related.Kind == v1alpha1.Kind
	wrong := !known || !slices.Contains(eventType, event.Type) || !strings.HasPrefix(event.Note, notePrefix) || (!on && !onNode)
	return check("19.1", wrong, "event %s, type %s, on %s: %s", event.Reason, event.Type, event.Regarding.Kind, event.Note)
}

// needless counts the events that requests to delete may have caused which the API server
// accepted though the CR was being deleted already. The answer does not tell that.
func (j *Judge) needless() map[reported]int {
	counts := map[reported]int{}
	for _, r := range j.requests.deletes {
		cr, seen := j.crs[r.Resource+" "+key(r.Namespace, r.Name)].exactly(r.ResourceVersion)
		if cr == nil || len(cr.Owners) == 0 || !r.Time.After(seen) {
			continue // It is the request that began the deletion.
		}
		note := removedNote(cr)
		counts[reported{"RemediationRemoved", v1alpha1.Kind, cr.Owners[0], note}]++
		counts[reported{"RemediationRemoved", "Node", cr.Node, note}]++
	}
	return counts
}

// needlessEvents returns how many events of a kind have come without a transition that they report.
func (j *Judge) needlessEvents(r reported, needless map[reported]int) int {
	return max(0, len(j.events.came[r])-len(j.events.transitions[r])-j.events.found[r]-needless[r])
}

// unsettledEvents returns the events that are missing, or too many (spec 19.1, 19.3).
func (j *Judge) unsettledEvents(p *snapshot) []Violation {
	e, needless := &j.events, j.needless()
	kinds := sets.KeySet(e.transitions).Union(sets.KeySet(e.came))
	var left []Violation
	for r := range kinds {
		transitions, due := e.transitions[r], 0
		for _, t := range transitions {
			if p.stillThere(r, t) && !j.mayBeLost(t.at) {
				due++
			}
		}
		// An event that repeats another one becomes the second of a series. The API server gets
		// the third one only minutes later.
		atLeast := min(due, 2)
		p.checks["19.1"]++
		count, extra := len(e.came[r]), j.needlessEvents(r, needless)
		if (extra == 0 || extra <= j.excused(e.came[r])) && count >= atLeast {
			continue
		}
		violation := Violation{Rule: "19.1", NHC: r.name, Text: fmt.Sprintf("%d events %s on %s %s for %d transitions (%q)", count, r.reason, r.kind, r.name, len(transitions), r.note)}
		if r.kind == "Node" {
			violation.Node, violation.NHC = r.name, ""
		}
		left = append(left, violation)
	}
	slices.SortFunc(left, func(a, b Violation) int { return cmp.Compare(a.Text, b.Text) })
	return left
}

// stillThere reports whether what a transition is about exists.
func (p *snapshot) stillThere(r reported, t transition) bool {
	if r.kind == v1alpha1.Kind && p.nhcs[r.name].at(p.rv) == nil {
		return false
	}
	if t.node == "" {
		return true
	}
	node := p.nodes[t.node].at(p.rv)
	return node != nil && node.UID == t.nodeUID
}
