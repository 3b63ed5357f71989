// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// path is where something is in an object.
type path []string

func (p path) String() string { return strings.Join(p, ".") }

// markPath is that of the one annotation that the controller writes to an existing CR.
var markPath = path{"metadata", "annotations", v1alpha1.AnnotationTimedOut}

// onlyMarked reports whether the controller has changed nothing of a CR but that
// annotation, and has not changed it again (spec 11.2, 13.8).
func (j *Judge) onlyMarked(event Change, before *unstructured.Unstructured) finding {
	after := event.Object
	_, marked := before.GetAnnotations()[v1alpha1.AnnotationTimedOut]
	for _, p := range changed(before.Object, after.Object, nil) {
		switch {
		case !wrote(after, p) && (hasField(after.Object, p) || !wrote(before, p)):
		case slices.Equal(p, markPath) && !marked:
		case slices.Equal(p, markPath) && j.mayRemind(event, before):
		case slices.Equal(p, markPath):
			return finding{"13.8", "nhc-timed-out is changed or removed"}
		default:
			return finding{"11.2", "the controller has changed " + p.String() + " of the CR"}
		}
	}
	return finding{rule: "11.2"}
}

// mayRemind reports whether the annotation may be written anew, once for each return of
// the Node (spec 13.8).
func (j *Judge) mayRemind(event Change, before *unstructured.Unstructured) bool {
	cr := ParseCR(before)
	node := j.raw[Nodes.Resource+" "+cr.Node]
	marked, err := time.Parse(time.RFC3339, cr.TimedOut)
	if node == nil || err != nil || !cr.Deleting {
		return false
	}
	due := later(before.GetDeletionTimestamp().Time, node.GetCreationTimestamp().Time).Add(time.Minute)
	return !event.Time.Before(due) && !marked.After(node.GetCreationTimestamp().Time)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// onlyStatus reports whether the controller has changed nothing of a NodeHealthCheck but
// its status (spec 22.3).
func onlyStatus(before, after *unstructured.Unstructured) finding {
	for _, p := range changed(before.Object, after.Object, nil) {
		if p[0] != "status" && wrote(after, p) {
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

// statusInOrder checks what holds for every status (spec 18.3 to 18.5).
func statusInOrder(status *v1alpha1.NodeHealthCheckStatus) finding {
	names := make([]string, 0, len(status.UnhealthyNodes))
	for i := range status.UnhealthyNodes {
		names = append(names, status.UnhealthyNodes[i].Name)
	}
	switch {
	case !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names):
		return finding{"18.4", "unhealthyNodes are not sorted by name: " + strings.Join(names, " ")}
	case len(status.InFlightRemediations) > 0:
		return finding{"18.5", "inFlightRemediations is written"}
	case status.HealthyNodes != nil && (*status.HealthyNodes < 0 || status.ObservedNodes == nil || *status.HealthyNodes > *status.ObservedNodes):
		return finding{"18.2", "the counts cannot be true"}
	default:
		return finding{rule: "18.4"}
	}
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

func hasField(object map[string]any, p path) bool {
	_, found, err := unstructured.NestedFieldNoCopy(object, p...)
	return found && err == nil
}

// wrote reports whether the controller, and nobody else, has written a field last.
func wrote(object *unstructured.Unstructured, p path) bool {
	owned := false
	for _, entry := range object.GetManagedFields() {
		if !owns(entry, p) {
			continue
		}
		if entry.Manager != controllerManager {
			return false
		}
		owned = true
	}
	return owned
}

// owns reports whether an entry of managedFields has a field.
func owns(entry metav1.ManagedFieldsEntry, p path) bool {
	var fields map[string]any
	if json.Unmarshal(raw(entry), &fields) != nil {
		return false
	}
	for _, key := range p {
		next, ok := fields["f:"+key].(map[string]any)
		if !ok {
			return false
		}
		if len(next) == 0 {
			return true
		}
		fields = next
	}
	return true
}

// judgeMark judges that the controller has told a remediator to stop (spec 13.3, 13.8).
func (j *Judge) judgeMark(event Change, before, after *CR) {
	j.figures.Marks++
	tolerance := j.toleranceAt(event.Time)
	sent, known := j.requests.last(requestKey("patch", event.Resource.Resource, after.Namespace, after.Name), before.Created, event.Time)
	if !known {
		sent = event.Time
	}
	since := sent.Add(-tolerance.Sync - tolerance.Cache)
	w := window{nhc: firstOf(after.Owners), node: after.Node, known: since, nodeKnown: since, rv: event.ResourceVersion, at: sent}
	at, err := time.Parse(time.RFC3339, after.TimedOut)
	inForm := err == nil && at.UTC().Format(time.RFC3339) == after.TimedOut
	findings := []finding{
		check("13.8", before.Succeeded == "True", "%s has succeeded and is told to stop", after),
		check("13.8", !inForm, "nhc-timed-out is %q", after.TimedOut),
	}
	gone := some(j.nodes[w.node].during(since, w.rv), func(node *Node) bool { return node == nil })
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
		timeUp := !w.at.Before(marked.Created.Add(steps[i].timeout))
		if steps[i].timeout > 0 && (failed || timeUp) {
			return finding{rule: "13.3"}
		}
		if steps[i].timeout == 0 && !w.at.Before(marked.Created.Add(v1alpha1.ClassicLeaseOverdue-longestSync)) {
			return finding{rule: "14.7"}
		}
	}
	return finding{"13.3", marked.String() + " is told to stop before its step is over"}
}
