// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// course is what became of an object: its states, one after the other, nil when it was gone.
type course []map[string]any

// courses returns what became of each object that was changed.
func (x *twin) courses(changes []*memapi.Change) map[string]course {
	all := map[string]course{}
	for _, change := range changes {
		if change.Resource == events {
			continue
		}
		key := change.Resource.Resource + " " + rules.KeyOf(change.Object)
		if all[key] == nil {
			all[key] = course{nil}
			if before := change.Before(); before != nil {
				all[key] = course{x.comparable(change.Resource.Resource, before)}
			}
		}
		var state map[string]any
		if change.Type != watch.Deleted {
			state = x.comparable(change.Resource.Resource, change.Object)
		}
		if len(all[key]) > 1 && change.Time.Before(x.begun.Add(20*time.Second)) { // It reads (spec 21.2).
			all[key] = all[key][:1]
		}
		if known := all[key]; !reflect.DeepEqual(known[len(known)-1], state) {
			all[key] = append(known, state)
		}
	}
	maps.DeleteFunc(all, func(_ string, states course) bool { return len(states) == 1 })
	return all
}

// comparable returns an object as far as it has to be the same: all that is from the twin's time is "now" or "new".
func (x *twin) comparable(resource string, object *unstructured.Unstructured) map[string]any {
	state := x.mask("", object.DeepCopy().Object).(map[string]any)
	delete(fieldsOf(state, "metadata"), "resourceVersion")
	for _, exception := range exceptions {
		exception.takeOut(x, resource, state)
	}
	return state
}

// mask replaces values within a value.
func (x *twin) mask(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = x.mask(key, value[key])
		}
	case []any:
		for i := range value {
			value[i] = x.mask(key, value[i])
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, value); err == nil && at.After(x.begun.Add(-time.Second)) {
			return "now"
		}
		if key == "uid" && value > x.lastUID {
			return "new"
		}
	}
	return value
}

// compareCourses describes the first difference, empty if there is none. A course is nil where nothing changed.
func compareCourses(ours, theirs course) string {
	if ours == nil {
		ours = theirs[:1]
	}
	if theirs == nil {
		theirs = ours[:1]
	}
	for i := range max(len(ours), len(theirs)) {
		switch {
		case i >= len(ours):
			return "only the twin: " + describe(theirs[max(0, i-1)], theirs[i])
		case i >= len(theirs):
			return "only the leader: " + describe(ours[max(0, i-1)], ours[i])
		case !reflect.DeepEqual(ours[i], theirs[i]):
			return "leader -> twin: " + describe(ours[i], theirs[i])
		}
	}
	return ""
}

func describe(a, b map[string]any) string { return strings.Join(differ("", a, b), "\n") }

// differ returns where two values differ, and how.
func differ(path string, a, b any) []string {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	var found []string
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok && a != nil && b != nil {
			for _, key := range union(a, b) {
				found = append(found, differ(path+"."+key, a[key], b[key])...)
			}
			return found
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				found = append(found, differ(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])...)
			}
			return found
		}
	}
	return []string{fmt.Sprintf("    %s: %v -> %v", path, a, b)}
}

// told counts the events.
func (x *twin) told(changes []*memapi.Change) map[string]int {
	counts := map[string]int{}
	for _, change := range changes {
		if change.Resource == events && !x.repeated(change) {
			event := change.Object.Object
			regarding, _, _ := unstructured.NestedString(event, "regarding", "name")
			counts[fmt.Sprint(event["reportingController"], " ", event["reason"], " ", regarding, ": ", event["note"])]++
		}
	}
	return counts
}

// gaugesOf returns the gauges of a process.
func gaugesOf(t *testing.T, r *replica) map[string]float64 {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if gauge := metric.GetGauge(); gauge != nil {
				values[family.GetName()+" "+fmt.Sprint(metric.GetLabel())] = gauge.GetValue()
			}
		}
	}
	return values
}
