// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// path is where something is in an object.
type path []string

func (p path) String() string { return strings.Join(p, ".") }

// markPath is that of the one annotation that the controller writes to an existing CR.
var markPath = path{"metadata", "annotations", v1alpha1.AnnotationTimedOut}

// onlyMarked judges a write of the controller to an existing CR: it may only change that
// annotation (spec 11.2).
func onlyMarked(before, after *unstructured.Unstructured) finding {
	for _, p := range changed(before.Object, after.Object, nil) {
		if !slices.Equal(p, markPath) {
			return finding{"11.2", "the controller has changed " + p.String() + " of the CR"}
		}
	}
	return finding{rule: "11.2"}
}

// markedAgain judges that the annotation is changed, by any client: it is written
// once, and again only if the Node is there and the CR has not gone for a minute (spec
// 13.8).
func (j *Judge) markedAgain(event Change, before, after *CR) finding {
	if !before.Marked || before.TimedOut == after.TimedOut {
		return finding{rule: "13.8"}
	}
	due := before.DeletedAt.Add(v1alpha1.ReminderDelay)
	remindable := func(node *Node) bool {
		return node != nil && !event.Time.Before(node.Created.Add(v1alpha1.ReminderDelay))
	}
	tolerance := j.toleranceAt(&Request{Time: event.Time})
	again := after.Marked && before.Deleting && !event.Time.Before(due) &&
		some(j.nodes[after.Node].during(event.Time.Add(-tolerance.Sync-tolerance.Cache), event.ResourceVersion), remindable)
	return check("13.8", !again, "nhc-timed-out is changed from %q to %q", before.TimedOut, after.TimedOut)
}

// onlyStatus judges a write of the controller to a NodeHealthCheck: it may only change its
// status (spec 22.3).
func onlyStatus(before, after *unstructured.Unstructured) finding {
	for _, p := range changed(before.Object, after.Object, nil) {
		if p[0] != "status" {
			return finding{"22.3", "the controller has changed " + p.String() + " of the NodeHealthCheck"}
		}
	}
	return finding{rule: "22.3"}
}

// statusIsNews reports whether a write of the status said anything new (spec 18.2).
func statusIsNews(before, after *unstructured.Unstructured) finding {
	paths := changed(before.Object, after.Object, nil)
	silent := len(paths) == 1 && paths[0].String() == "status.lastUpdateTime"
	return check("18.2", silent, "lastUpdateTime alone is written")
}

// served are fields that the API server writes.
var served = []string{"metadata.managedFields", "metadata.resourceVersion", "metadata.generation", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"}

// changed returns where two objects differ. Lists are compared as a whole.
func changed(before, after any, at path) []path {
	old, isMap := before.(map[string]any)
	young, isMapToo := after.(map[string]any)
	if !isMap || !isMapToo {
		if equality.Semantic.DeepEqual(before, after) || slices.Contains(served, at.String()) {
			return nil
		}
		return []path{at}
	}
	var paths []path
	keys := maps.Clone(old)
	maps.Copy(keys, young)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		paths = append(paths, changed(orNothing(old, key), orNothing(young, key), append(slices.Clone(at), key))...)
	}
	return paths
}

// orNothing returns a value, or an empty map where the other side may have a map.
func orNothing(object map[string]any, key string) any {
	if value, ok := object[key]; ok {
		return value
	}
	return map[string]any{}
}

// judgeMark judges that the controller has told a remediator to stop (spec 13.3, 13.8).
func (j *Judge) judgeMark(event Change, before, after *CR, by *Request) {
	j.figures.Marks++
	w := j.windowOf(event, by, firstOf(after.Owners), after.Node)
	at, err := time.Parse(time.RFC3339, after.TimedOut)
	inForm := err == nil && at.UTC().Format(time.RFC3339) == after.TimedOut
	findings := []finding{
		check("11.4", len(after.Owners) == 0, "%s is foreign and is told to stop", after),
		check("13.8", before.Succeeded == "True", "%s has succeeded and is told to stop", after),
		check("13.8", !inForm, "nhc-timed-out is %q", after.TimedOut),
	}
	gone := some(j.nodes[w.node].during(w.known, w.rv), func(node *Node) bool { return node == nil })
	if !before.Deleting && !gone { // Else it is told to give up its finalizer.
		findings = append(findings, j.stepMayEnd(w, event, after))
		findings = append(findings, j.constraints(w)...)
	}
	j.record(after.Node, w.nhc, findings...)
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// stepMayEnd reports whether the step of a CR may have been over (spec 13.3, 14.7).
func (j *Judge) stepMayEnd(w window, event Change, marked *CR) finding {
	versions := j.crs[event.Resource.Resource+" "+event.Key].during(w.known, w.rv)
	for _, nhc := range j.nhcs[w.nhc].during(w.known, w.rv) {
		if nhc == nil {
			return finding{rule: "13.3"}
		}
		steps := stepsOf(nhc)
		i := stepOf(steps, marked)
		if i < 0 {
			continue
		}
		failed := some(versions, func(cr *CR) bool { return cr != nil && cr.Succeeded == "False" })
		timeUp := !w.at.Before(marked.Created.Add(steps[i].timeout)) || j.passed(w.nhc, w.node, steps[i], w.rv, w.at)
		if steps[i].timeout > 0 && (failed || timeUp) {
			return finding{rule: "13.3"}
		}
		if steps[i].timeout == 0 && j.leaseOverdue(w) {
			return finding{rule: "13.3"}
		}
	}
	return finding{"13.3", marked.String() + " is told to stop before its step is over"}
}

// leaseOverdue reports whether the lease of a classic remediation may have been overdue (spec
// 14.7).
func (j *Judge) leaseOverdue(w window) bool {
	return some(j.leasesDuring(w.node, w.known, w.rv), func(lease *coordinationv1.Lease) bool {
		return holderOf(lease) == holderPrefix+w.nhc && lease.Spec.AcquireTime != nil &&
			!w.at.Before(lease.Spec.AcquireTime.Add(v1alpha1.ClassicLeaseOverdue))
	})
}

// leaseWasOverdue reports the same of a lease that may have been deleted since.
func (j *Judge) leaseWasOverdue(w window) bool {
	w.known = w.known.Add(-recent)
	return j.leaseOverdue(w)
}

// recent is for how long something may have been overlooked because it has changed again since.
const recent = 2 * time.Minute
