// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestRemediationAllowed follows gate and storm.
func TestRemediationAllowed(t *testing.T) {
	t.Parallel()
	at := func(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Second)) }
	s := newStory(t)
	s.now = epoch.Add(400 * time.Millisecond)
	next := func(gate health.Gate, storm health.Storm) metav1.Condition {
		s.observe = func(w *observed) { w.Gate, w.Storm = gate, storm }
		s.sync()
		found := meta.FindStatusCondition(s.nhc.Status.Conditions, "RemediationAllowed")
		require.NotNil(t, found)
		return *found
	}
	open := health.Gate{Open: true, Observed: 5, Healthy: 4, Required: 3}
	allowed := metav1.Condition{
		Type: "RemediationAllowed", Status: "True", Reason: "Open", Message: "4 of 5 nodes are healthy, at least 3 have to be",
		ObservedGeneration: 3, LastTransitionTime: at(0),
	}
	require.Equal(t, allowed, next(open, health.Storm{}))
	require.Equal(t, allowed, next(open, health.Storm{}), "P3")

	open.Healthy, s.nhc.Generation = 3, 4
	allowed.Message, allowed.ObservedGeneration = "3 of 5 nodes are healthy, at least 3 have to be", 4
	require.Equal(t, allowed, next(open, health.Storm{}), "P4 18.5: it moves only on a flip")

	require.Equal(t, metav1.Condition{
		Type: "RemediationAllowed", Status: "False", Reason: "Closed", Message: "2 of 5 nodes are healthy, at least 3 have to be",
		ObservedGeneration: 4, LastTransitionTime: at(3),
	}, next(health.Gate{Observed: 5, Healthy: 2, Required: 3}, health.Storm{}))

	require.Equal(t, metav1.Condition{
		Type: "RemediationAllowed", Status: "False", Reason: "StormActive", Message: "Storm recovery is active while 2 of 5 nodes are not healthy",
		ObservedGeneration: 4, LastTransitionTime: at(3),
	}, next(open, health.Storm{Active: true, Since: epoch}))

	allowed.LastTransitionTime = at(5)
	require.Equal(t, allowed, next(open, health.Storm{}), "P12")

	s.observe = func(w *observed) { w.Gate, w.clockUntrusted = open, true }
	s.sync()
	found := meta.FindStatusCondition(s.nhc.Status.Conditions, "RemediationAllowed")
	require.Equal(t, "False ClockUntrusted", string(found.Status)+" "+found.Reason, "nothing may begin by this clock")
	allowed.LastTransitionTime = at(7)
	require.Equal(t, allowed, next(open, health.Storm{}), "P12")
}

// TestPlatformAccess: the condition is there as long as something cannot be read (spec
// 10.2, P4, P3).
func TestPlatformAccess(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync()
	require.Nil(t, meta.FindStatusCondition(s.nhc.Status.Conditions, "PlatformAccess"))
	s.observe = func(w *observed) {
		w.Gate.Open, w.platform.access = true, remediation.PlatformForbidden("get", schema.GroupResource{Group: "config.openshift.io", Resource: "clusterversions"})
	}
	s.sync()
	condition := meta.FindStatusCondition(s.nhc.Status.Conditions, "PlatformAccess")
	require.NotNil(t, condition)
	require.Equal(t, metav1.ConditionFalse, condition.Status)
	require.Equal(t, "PlatformForbidden", condition.Reason)
	require.Equal(t, `Missing permission: cannot get resource "clusterversions" in API group "config.openshift.io". Grant it to the controller by the overlay manifests/overlays/openshift. `+
		"Until then, the controller treats an upgrade that it knew of as still running, and does not notice a new one.", condition.Message)
	before := s.nhc.Status.DeepCopy()
	s.sync()
	require.Equal(t, before, &s.nhc.Status, "P3")
	s.observe = func(w *observed) {
		w.Gate.Open, w.platform.access = true, remediation.PlatformUnreadable(remediation.ClusterVersionKind)
	}
	s.sync()
	condition = meta.FindStatusCondition(s.nhc.Status.Conditions, "PlatformAccess")
	require.Equal(t, "PlatformUnreadable", condition.Reason)
	require.Contains(t, condition.Message, `ClusterVersion of API group "config.openshift.io" cannot be read at the moment`)
	s.observe = func(w *observed) { w.Gate.Open = true }
	s.sync()
	require.Nil(t, meta.FindStatusCondition(s.nhc.Status.Conditions, "PlatformAccess"), "P4")
}

// TestRemediationAllowedByAll: what a sync saw is what the condition tells, the first
// obstacle first (spec 18.5).
func TestRemediationAllowedByAll(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	for _, tc := range []struct {
		change          func(*observed)
		reason, message string
	}{
		{func(w *observed) { w.stop = "a budget" }, "Stopped", "a budget"},
		{func(w *observed) { w.Storm.Active = true }, "StormActive", "Storm recovery is active while 1 of 1 nodes are not healthy"},
		{func(w *observed) { w.Gate.Open = false }, "Closed", "0 of 1 nodes are healthy, at least 0 have to be"},
		{func(*observed) { s.nhc.Spec.PauseRequests = []string{"holiday"} }, "Paused", "Paused: holiday"},
		{func(w *observed) { w.platform.progressing = true }, "ClusterUpgrading", "The cluster is being upgraded"},
		{func(w *observed) { w.specProblem = "no limit" }, "InvalidSpec", "no limit"},
		{func(w *observed) { w.templates.Unknown = true }, "Disabled", "The templates could not be read yet"},
		{func(w *observed) { w.templates.Problem = &remediation.Problem{Message: "it is gone"} }, "Disabled", "it is gone"},
	} {
		before := s.observe
		s.observe = func(w *observed) {
			before(w)
			tc.change(w)
		}
		s.observe(&observed{&snapshot{}, &evaluation.Evaluated{}}) // For what changes the spec.
		condition := meta.FindStatusCondition(s.result().Status.Conditions, "RemediationAllowed")
		require.Equal(t, metav1.ConditionFalse, condition.Status, tc.reason)
		require.Equal(t, tc.reason, condition.Reason)
		require.Equal(t, tc.message, condition.Message)
	}
}

// TestTextsAreBounded: a text of the spec, however long, does not make a status that
// cannot be written (spec 18.6).
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.nhc.Spec.PauseRequests = []string{"first", strings.Repeat("<", 100_000)}
	status := s.result().Status
	require.LessOrEqual(t, len(status.Reason), 1024)
	require.True(t, strings.HasPrefix(status.Reason, "NHC is paused: first,<<<"))
	s.observe = func(w *observed) {
		w.templates.Problem = &remediation.Problem{Reason: "RemediationTemplateNotFound", Message: strings.Repeat("x", 100_000)}
	}
	status = s.result(manyNodes(5001, 0)...).Status
	require.True(t, strings.HasSuffix(status.Reason, "xxx..., 1 more not listed"), "18.6: however long the rest is")
	for _, condition := range status.Conditions {
		require.LessOrEqual(t, len(condition.Message), 1024, condition.Type)
	}
}

// TestConditionsOfAReport: what a sync saw is what status tells.
func TestConditionsOfAReport(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.observe = func(w *observed) {
		w.Gate.Open, w.overlaps = true, map[string]int{"infra": 2}
		w.templates.Unknown, w.templates.Problem = true, &remediation.Problem{Reason: "RemediationTemplateNotFound", Message: "it is gone"}
	}
	conditions := s.result().Status.Conditions
	overlap := meta.FindStatusCondition(conditions, "SelectorOverlap")
	require.NotNil(t, overlap)
	require.Equal(t, metav1.ConditionTrue, overlap.Status)
	require.Contains(t, overlap.Message, `"infra" (2)`)
	disabled := meta.FindStatusCondition(conditions, "Disabled")
	require.NotNil(t, disabled, "6.1: one template is known to be a problem, whatever is not known of others")
	require.Equal(t, metav1.ConditionTrue, disabled.Status)
	require.Nil(t, meta.FindStatusCondition(conditions, "StormActive"), "9.8")
	stalled := meta.FindStatusCondition(conditions, "Stalled")
	require.NotNil(t, stalled, "18.7")
	require.Equal(t, "it is gone", stalled.Message)
	require.Len(t, conditions, 4)
}
