// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestPhase(t *testing.T) {
	t.Parallel()
	broken := func(w *observed) {
		w.templates.Problem = &remediation.Problem{Reason: "RemediationTemplateNotFound", Message: "it is gone"}
	}
	paused := func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{"upgrade", "holiday"} }
	remediating := []part{sick("a", own(testCR("a", "1"))), sick("b", own(testCR("b", "2"), testCR("b", "3"))), sick("c")}
	tests := map[string]struct {
		change  func(*v1alpha1.NodeHealthCheck)
		observe func(*observed)
		parts   []part
		phase   v1alpha1.Phase
		reason  string
	}{
		"18.1 Enabled":                          {phase: "Enabled", reason: "NHC is enabled, no ongoing remediation"},
		"18.1 Enabled, a node waits":            {parts: []part{sick("a")}, phase: "Enabled", reason: "NHC is enabled, no ongoing remediation"},
		"18.1 Remediating, n entries":           {parts: remediating, phase: "Remediating", reason: "NHC is remediating 2 nodes"},
		"18.1 Paused before Remediating":        {change: paused, parts: remediating, phase: "Paused", reason: "NHC is paused: upgrade,holiday"},
		"18.1 10.5 Disabled before all of them": {change: paused, observe: broken, parts: remediating, phase: "Disabled", reason: "NHC is disabled: RemediationTemplateNotFound: it is gone"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			if tc.change != nil {
				tc.change(s.nhc)
			}
			if tc.observe != nil {
				s.observe = tc.observe
			}
			status := s.result(tc.parts...).Status
			require.Equal(t, tc.phase, status.Phase)
			require.Equal(t, tc.reason, status.Reason)
		})
	}
}

// TestRemediationsAllowed: how many more nodes may fail, by the gate alone (spec 18.5).
func TestRemediationsAllowed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gate health.Gate
		want int32
	}{
		"18.5 some":                           {gate: health.Gate{Open: true, Observed: 10, Healthy: 9, Required: 6}, want: 3},
		"18.5 none, and the gate is open":     {gate: health.Gate{Open: true, Observed: 10, Healthy: 6, Required: 6}},
		"18.5 at least 0":                     {gate: health.Gate{Observed: 10, Healthy: 4, Required: 6}},
		"18.5 8.3 maxUnhealthy above all":     {gate: health.Gate{Open: true, Observed: 3, Healthy: 2, Required: -7}, want: 9},
		"18.5 of 2147483647, none is healthy": {gate: health.EvaluateGate(nil, new(intstr.FromInt32(2147483647)), 3, 0), want: 2147483644},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.nhc.Spec.PauseRequests = []string{"whatever else holds"}
			s.observe = func(w *observed) { w.Gate = tc.gate }
			status := s.result(sick("a"), sick("b", own(testCR("b", "1"))), well("c", own(testCR("c", "2")))).Status
			require.Equal(t, tc.want, *status.RemediationsAllowed)
			require.EqualValues(t, 2, *status.UnhealthyNodeCount, "23: unhealthy by 7.3, remediated or not")
		})
	}
}

// TestEntries: what status lists of a node, given what it listed before.
func TestEntries(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Minute + 400*time.Millisecond)
	second := new(metav1.NewTime(epoch.Add(time.Minute)))
	earlier := new(metav1.NewTime(epoch))
	a, b := testCR("n", "1"), testCR("n", "2", crAt(epoch.Add(time.Second)))
	listed := func(entries ...v1alpha1.Remediation) *v1alpha1.UnhealthyNode {
		return &v1alpha1.UnhealthyNode{Name: "n", Remediations: entries}
	}
	recovering := func(since *metav1.Time, delayed *bool, entries ...v1alpha1.Remediation) *v1alpha1.UnhealthyNode {
		return &v1alpha1.UnhealthyNode{Name: "n", Remediations: entries, ConditionsHealthyTimestamp: since, HealthyDelayed: delayed}
	}
	requested := func(cr *object.CR) func(*part) {
		return func(p *part) { p.plan.Node.DeletionRequested = map[types.UID]bool{cr.UID: true} }
	}
	tests := map[string]struct {
		before *v1alpha1.UnhealthyNode
		part   part
		want   *v1alpha1.UnhealthyNode
	}{
		"18.4 unhealthy, not remediated":                     {part: sick("n"), want: listed()},
		"18.4 however it is refused":                         {part: sick("n", refused(v1alpha1.DecidedGateClosed)), want: listed()},
		"18.3 a CR that exists":                              {part: sick("n", own(a)), want: listed(entryOf(a))},
		"18.3 several, in the order of the steps":            {part: sick("n", own(b, a)), want: listed(entryOf(b), entryOf(a))},
		"21.3 a CR that was just created":                    {part: sick("n", created(a)), want: listed(entryOf(a))},
		"13.3 the new one is appended":                       {before: listed(entryOf(a)), part: sick("n", own(a), created(b)), want: listed(entryOf(a), entryOf(b))},
		"11.6 the entry describes the new one":               {before: listed(entryOf(a)), part: sick("n", created(b)), want: listed(entryOf(b))},
		"18.3 an entry goes with its CR":                     {before: listed(entryOf(a)), part: sick("n"), want: listed()},
		"P4 even if the cache still shows it":                {before: listed(entryOf(a)), part: well("n", own(a), foundGone(a))},
		"18.4 healthy and no CR":                             {before: listed(), part: well("n")},
		"7.5 soon-unhealthy: no new entry":                   {part: soon("n")},
		"7.5 soon-unhealthy: an existing one stays":          {before: listed(), part: soon("n"), want: listed()},
		"7.5 soon-unhealthy: with its CR":                    {before: listed(entryOf(a)), part: soon("n", own(a)), want: listed(entryOf(a))},
		"17.5 unhealthy, not selected, no CR":                {before: listed(), part: sick("n", unselected)},
		"17.5 soon-unhealthy, not selected, no CR":           {before: listed(), part: soon("n", unselected)},
		"17.5 unhealthy, not selected, with its CR":          {before: listed(entryOf(a)), part: sick("n", unselected, own(a)), want: listed(entryOf(a))},
		"16.2 first seen healthy, in whole seconds":          {before: listed(entryOf(a)), part: well("n", own(a), deleted(a)), want: recovering(second, nil, entryOf(a))},
		"16.4 the timestamp stays":                           {before: recovering(earlier, nil, entryOf(a)), part: well("n", own(a)), want: recovering(earlier, nil, entryOf(a))},
		"P11 it is cleared when the node is unhealthy again": {before: recovering(earlier, nil, entryOf(a)), part: sick("n", own(a)), want: listed(entryOf(a))},
		"P11 also when it is only soon-unhealthy":            {before: recovering(earlier, new(true), entryOf(a)), part: soon("n", own(a)), want: listed(entryOf(a))},
		"16.4 delayed":                                       {before: listed(entryOf(a)), part: well("n", own(a), delayed), want: recovering(second, new(true), entryOf(a))},
		"16.4 no longer delayed: absent, never false":        {before: recovering(earlier, new(true), entryOf(a)), part: well("n", own(a), deleted(a)), want: recovering(earlier, nil, entryOf(a))},
		"16.3 the last CR is gone: so is the entry":          {before: recovering(earlier, nil, entryOf(a)), part: well("n")},
		"16.2 a CR that is being deleted stays":              {before: recovering(earlier, nil, entryOf(a)), part: well("n", own(testCR("n", "1", crDeleting))), want: recovering(earlier, nil, entryOf(a))},
		"6.8 what cannot be read stays as it was":            {before: listed(entryOf(a, entryTimedOut(epoch))), part: sick("n", unreadable(entryOf(a, entryTimedOut(epoch)))), want: listed(entryOf(a, entryTimedOut(epoch)))},
		"17.2 deleted Node: gone at once":                    {before: listed(entryOf(a)), part: sick("n", nodeDeleted, own(a), deleted(a))},
		"17.2 the request was made before":                   {before: listed(entryOf(a)), part: sick("n", nodeDeleted, own(a), requested(a))},
		"17.4 it was deleted before the Node":                {before: listed(entryOf(a)), part: sick("n", nodeDeleted, own(testCR("n", "1", crDeleting)))},
		"17.2 each CR for itself":                            {before: listed(entryOf(a), entryOf(b)), part: sick("n", nodeDeleted, own(a, b), deleted(a)), want: listed(entryOf(b))},
		"17.2 P5 the request has failed":                     {before: listed(entryOf(a)), part: sick("n", nodeDeleted, own(a)), want: listed(entryOf(a))},
		"17.3 a replacement is awaited":                      {before: listed(entryOf(a)), part: sick("n", nodeDeleted, own(a)), want: listed(entryOf(a))},
		"17.3 no time of recovery for a deleted Node":        {before: recovering(earlier, nil, entryOf(a)), part: sick("n", nodeDeleted, own(a)), want: listed(entryOf(a))},
		"17.1 deleted Node without CR":                       {before: listed(), part: sick("n", nodeDeleted)},
		"13.3 the end of a step":                             {before: listed(entryOf(a)), part: sick("n", own(a), ended(now, a), created(b)), want: listed(entryOf(a, entryTimedOut(second.Time)), entryOf(b))},
		"13.8 it is never changed":                           {before: listed(entryOf(a, entryTimedOut(epoch))), part: sick("n", own(testCR("n", "1", crMarked)), ended(now, a)), want: listed(entryOf(a, entryTimedOut(epoch)))},
		"P8 18.2 rebuilt from the CR":                        {part: sick("n", own(testCR("n", "1", crMarked))), want: listed(entryOf(a, entryTimedOut(epoch.Add(5*time.Minute))))},
		"P8 not from a mark that is no end of a step":        {before: listed(entryOf(a)), part: sick("n", own(testCR("n", "1", crMarked, crDeleting))), want: listed(entryOf(a))},
		"P9 an entry of another of that name says nothing":   {before: listed(entryOf(b, entryTimedOut(epoch))), part: sick("n", own(a)), want: listed(entryOf(a))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.now = now
			if tc.before != nil {
				s.nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{*tc.before}
			}
			status := s.result(tc.part).Status
			var want []v1alpha1.UnhealthyNode
			remediating := int32(0)
			if tc.want != nil {
				want = append(want, *tc.want)
				if len(tc.want.Remediations) > 0 {
					remediating = 1
				}
			}
			for i := range status.UnhealthyNodes { // What began it and what is decided have tests of their own.
				status.UnhealthyNodes[i].Trigger, status.UnhealthyNodes[i].Detected, status.UnhealthyNodes[i].Decision = nil, nil, nil
			}
			require.True(t, equality.Semantic.DeepEqual(want, status.UnhealthyNodes), "want %+v\ngot  %+v", want, status.UnhealthyNodes)
			require.Equal(t, remediating, *status.RemediatingNodes)
		})
	}
}

// TestStatusOfUnchangedWorld: the status of a status is itself.
func TestStatusOfUnchangedWorld(t *testing.T) {
	t.Parallel()
	parts := func() []part {
		return []part{
			sick("a", own(testCR("a", "1", crMarked), testCR("a", "2"))), sick("b", refused(v1alpha1.DecidedGateClosed)), soon("c", own(testCR("c", "3"))),
			well("d", own(testCR("d", "4")), delayed), sick("e", nodeDeleted, own(testCR("e", "5"))), sick("f", unreadable(entryOf(testCR("f", "6")))),
		}
	}
	s := newStory(t)
	s.sync(parts()...)
	before := s.nhc.Status.DeepCopy()
	require.Equal(t, new(metav1.NewTime(epoch)), before.LastUpdateTime)
	s.now = epoch.Add(time.Hour)
	require.Equal(t, before, s.result(parts()...).Status, "P3 18.2: nothing differs, not even lastUpdateTime")

	after := s.result(append(parts(), sick("g"))...).Status
	require.Equal(t, new(metav1.NewTime(epoch.Add(time.Hour))), after.LastUpdateTime, "18.2: only together with another field")
}

func TestStatusLeavesNothingOfOthers(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.nhc.Status = v1alpha1.NodeHealthCheckStatus{
		InFlightRemediations:   map[string]metav1.Time{"a": metav1.NewTime(epoch)},
		StormRecoveryActive:    new(true),
		StormRecoveryStartTime: new(metav1.NewTime(epoch)),
		Conditions:             []metav1.Condition{{Type: "Foreign", Status: "True"}},
		UnhealthyNodes:         []v1alpha1.UnhealthyNode{{Name: "of-the-past"}},
	}
	status := s.result(well("a")).Status
	require.Nil(t, status.InFlightRemediations, "18.5")
	require.Nil(t, status.StormRecoveryActive, "9.10")
	require.Nil(t, status.StormRecoveryStartTime, "9.10")
	require.Empty(t, status.UnhealthyNodes, "P4")
	require.Nil(t, meta.FindStatusCondition(status.Conditions, "Foreign"))
	require.EqualValues(t, 3, status.ObservedGeneration)
}

func TestDisabledCondition(t *testing.T) {
	t.Parallel()
	broken := func(message string) func(*observed) {
		return func(w *observed) {
			w.templates.Problem = &remediation.Problem{Reason: "RemediationTemplateNotFound", Message: message}
		}
	}
	condition := func(s *story) metav1.Condition {
		found := meta.FindStatusCondition(s.nhc.Status.Conditions, "Disabled")
		require.NotNil(t, found)
		return *found
	}
	at := func(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Second)) }
	s := newStory(t)
	s.sync()
	require.Equal(t, metav1.Condition{
		Type: "Disabled", Status: "False", Reason: "NodeHealthCheckEnabled", Message: "No issues found, NodeHealthCheck is enabled.",
		ObservedGeneration: 3, LastTransitionTime: at(0),
	}, condition(s), "6.2 18.5")

	s.observe = broken("first")
	s.sync()
	require.Equal(t, metav1.Condition{
		Type: "Disabled", Status: "True", Reason: "RemediationTemplateNotFound", Message: "first", ObservedGeneration: 3, LastTransitionTime: at(1),
	}, condition(s), "6.1")

	s.observe = broken("second")
	s.nhc.Generation = 4
	s.sync()
	require.Equal(t, "second", condition(s).Message, "6.3: the current problem")
	require.EqualValues(t, 4, condition(s).ObservedGeneration, "18.5")
	require.Equal(t, at(1), condition(s).LastTransitionTime, "6.3: moves only on a flip")

	s.observe = func(w *observed) { w.templates.Unknown = true }
	before := condition(s)
	s.sync()
	require.Equal(t, before, condition(s), "6.5: a read that fails leaves it as it is")
	require.Equal(t, v1alpha1.PhaseDisabled, s.nhc.Status.Phase)

	s.observe = func(*observed) {}
	s.sync()
	require.Equal(t, metav1.ConditionFalse, condition(s).Status, "P12")
	require.Equal(t, at(4), condition(s).LastTransitionTime, "6.3")
}

func TestUnknownBeforeAnyAnswer(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.observe = func(w *observed) { w.templates.Unknown = true }
	require.Nil(t, meta.FindStatusCondition(s.result().Status.Conditions, "Disabled"), "6.5 P5: no answer is not an answer")
}
