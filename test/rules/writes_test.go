// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// written returns an object with fields and their owners.
func written(fields map[string]any, owners map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: fields}
	var entries []metav1.ManagedFieldsEntry
	for manager, owned := range owners {
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(owned)})
	}
	object.SetManagedFields(entries)
	return object
}

const (
	specOwned = `{"f:spec":{".":{},"f:how":{}}}`
	markOwned = `{"f:metadata":{"f:annotations":{"f:` + v1alpha1.AnnotationTimedOut + `":{}}},"f:spec":{".":{},"f:how":{}}}`
)

func spec(how string) map[string]any { return map[string]any{"spec": map[string]any{"how": how}} }

func specAndMark(how, mark string) map[string]any {
	object := spec(how)
	object["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.AnnotationTimedOut: mark}}
	return object
}

func TestOnlyMarked(t *testing.T) {
	t.Parallel()
	controller := func(fields string) map[string]string { return map[string]string{controllerManager: fields} }
	tests := map[string]struct {
		before, after *unstructured.Unstructured
		want          string
	}{
		"nothing":                  {written(spec("x"), controller(specOwned)), written(spec("x"), controller(specOwned)), ""},
		"the mark":                 {written(spec("x"), controller(specOwned)), written(specAndMark("x", "1"), controller(markOwned)), ""},
		"13.8 the mark, changed":   {written(specAndMark("x", "1"), controller(markOwned)), written(specAndMark("x", "2"), controller(markOwned)), "13.8"},
		"13.8 the mark, removed":   {written(specAndMark("x", "1"), controller(markOwned)), written(spec("x"), controller(specOwned)), "13.8"},
		"11.2 the spec":            {written(spec("x"), controller(specOwned)), written(spec("y"), controller(specOwned)), "11.2"},
		"11.2 the spec, emptied":   {written(spec("x"), controller(specOwned)), written(map[string]any{}, nil), "11.2"},
		"somebody else the spec":   {written(spec("x"), controller(specOwned)), written(spec("y"), map[string]string{"load": specOwned}), ""},
		"somebody else the status": {written(spec("x"), controller(specOwned)), written(map[string]any{"spec": map[string]any{"how": "x"}, "status": "?"}, map[string]string{controllerManager: specOwned, "load": `{"f:status":{}}`}), ""},
		"11.2 the status":          {written(spec("x"), controller(specOwned)), written(map[string]any{"spec": map[string]any{"how": "x"}, "status": "?"}, controller(`{"f:status":{},"f:spec":{".":{},"f:how":{}}}`)), "11.2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := NewJudge(Config{}).onlyMarked(Change{Object: tc.after}, tc.before)
			if tc.want == "" {
				require.Empty(t, found.text)
				return
			}
			require.NotEmpty(t, found.text)
			require.Equal(t, tc.want, found.rule)
		})
	}
}

func TestStatusWrites(t *testing.T) {
	t.Parallel()
	status := func(healthy, updated string) *unstructured.Unstructured {
		return written(map[string]any{"status": map[string]any{"healthyNodes": healthy, "lastUpdateTime": updated}}, nil)
	}
	require.Empty(t, statusIsNews(status("1", "a"), status("2", "b")).text)
	require.NotEmpty(t, statusIsNews(status("1", "a"), status("1", "b")).text, "18.2")

	bySomebody := written(map[string]any{"spec": map[string]any{"how": "y"}}, map[string]string{"kubectl": specOwned})
	byController := written(map[string]any{"spec": map[string]any{"how": "y"}}, map[string]string{controllerManager: specOwned})
	require.Empty(t, onlyStatus(written(spec("x"), nil), bySomebody).text)
	require.NotEmpty(t, onlyStatus(written(spec("x"), nil), byController).text, "22.3")

	entries := func(names ...string) *v1alpha1.NodeHealthCheckStatus {
		status := &v1alpha1.NodeHealthCheckStatus{}
		for _, name := range names {
			status.UnhealthyNodes = append(status.UnhealthyNodes, v1alpha1.UnhealthyNode{Name: name})
		}
		return status
	}
	require.Empty(t, statusInOrder(entries("a", "b")).text)
	require.NotEmpty(t, statusInOrder(entries("b", "a")).text, "18.4: sorted")
	require.NotEmpty(t, statusInOrder(entries("a", "a")).text, "18.4: once")
	require.NotEmpty(t, statusInOrder(&v1alpha1.NodeHealthCheckStatus{InFlightRemediations: map[string]metav1.Time{"a": {}}}).text, "18.5")
	require.NotEmpty(t, statusInOrder(&v1alpha1.NodeHealthCheckStatus{ObservedNodes: new(int32(1)), HealthyNodes: new(int32(2))}).text)
}

func TestLateWrites(t *testing.T) {
	t.Parallel()
	writer := func(request Request) string { return request.UserAgent }
	tenures := []Tenure{
		{Leader: "a", Taken: at(0), Until: at(20), Lost: at(25)},
		{Leader: "b", Taken: at(25), Until: at(90)},
	}
	wrote := func(who string, seconds ...float64) []Request {
		var requests []Request
		for _, second := range seconds {
			requests = append(requests, Request{UserAgent: who, Time: at(second), Verb: "create", Resource: "reboots"})
		}
		return requests
	}
	late := func(requests []Request) int { return len(LateWrites(requests, tenures, writer)) }
	require.Zero(t, late(wrote("a", 10, 20)))
	require.Zero(t, late(wrote("", 10)), "a read, say")
	require.Zero(t, late(wrote("b", 50)))
	require.Zero(t, late(wrote("a", 21)), "a process that was stopped right before the system call")
	require.Equal(t, 1, late(wrote("a", 21, 22)), "the lease has ended, though no other process has taken it")
	require.Equal(t, 1, late(wrote("a", 30, 31)), "b leads")
	require.Equal(t, 2, late(append(wrote("a", 30, 31), wrote("b", 91, 92)...)), "one is excused for each process")
	require.Equal(t, 1, late(wrote("c", 10)), "it never led")

	tenures[1].Lost = at(60)
	require.Equal(t, 1, late(wrote("b", 59, 61, 62)), "it has released the lease")
}
