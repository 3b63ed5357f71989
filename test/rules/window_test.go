// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func TestDuring(t *testing.T) {
	t.Parallel()
	one, two, three := "one", "two", "three"
	versions := track[string]{{rv: 1, seen: past, object: &one}, {rv: 5, seen: at(5), object: &two}, {rv: 9, seen: at(9), object: &three}}
	tests := map[string]struct {
		since time.Time
		until uint64
		want  []*string
	}{
		"all that was long visible":            {at(20), 20, []*string{&three}},
		"what came later may have been unseen": {at(8), 20, []*string{&three, &two}},
		"exactly when it became visible":       {at(5), 8, []*string{&two}},
		"what came after does not count":       {at(1), 8, []*string{&two, &one}},
		"before the first":                     {past, 0, []*string{nil}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, versions.during(tc.since, tc.until))
		})
	}
	require.Equal(t, []*string{&two, nil}, versions[1:2].during(at(4), 8), "it did not exist before")
}

// TestConstraints creates a first CR for node "n" at second 100, in a sync that has seen
// everything of second 97, and the node of second 99.
func TestConstraints(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		setup func(s *fixture)
		want  []string
	}{
		"nothing":              {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck()) }, nil},
		"10.1 paused for long": {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck(paused)) }, []string{"10.1"}},
		"5.6 a dry run":        {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck(dryRun)) }, []string{"5.6"}},
		"10.1 paused just in time": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.nhc(past, healthCheck())
			s.nhc(at(96), healthCheck(paused))
		}, []string{"10.1"}},
		"10.1 paused twice": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.nhc(at(50), healthCheck(paused))
			s.nhc(at(99), healthCheck(paused, minHealthy("0%")))
		}, []string{"10.1"}},
		"10.2 it is being updated": {func(s *fixture) { s.node(past, failedNode("n", updating)); s.nhc(past, healthCheck()) }, []string{"10.2"}},
		"4.8 deleted": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.nhc(past, healthCheck())
			add(s.nhcs, "nhc", s.next(), at(90), nil)
		}, []string{"4.8"}},
		"7.3 healthy for long":    {func(s *fixture) { s.node(past, healthyNode("n")); s.nhc(past, healthCheck()) }, []string{"7.3"}},
		"7.3 a match not expired": {func(s *fixture) { s.node(past, newNode("n", "False", at(99.5))); s.nhc(past, healthCheck()) }, []string{"7.3"}},
		"7.3 recovered before the look": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.node(at(98.9), healthyNode("n"))
			s.nhc(past, healthCheck())
		}, []string{"7.3"}},
		"7.3 flapping before the look": {func(s *fixture) {
			s.node(past, healthyNode("n"))
			s.node(at(98), failedNode("n"))
			s.node(at(98.5), healthyNode("n"))
			s.nhc(past, healthCheck())
		}, []string{"7.3"}},
		"15.1 excluded": {func(s *fixture) {
			s.node(past, failedNode("n", labelled(v1alpha1.LabelExclude, "true")))
			s.nhc(past, healthCheck())
		}, []string{"15.1"}},
		"17.1 gone":         {func(s *fixture) { s.node(past, failedNode("n")); s.noNode(at(90), "n"); s.nhc(past, healthCheck()) }, []string{"17.1"}},
		"17.5 not selected": {func(s *fixture) { s.node(past, failedNode("n", labelled("pool", "b"))); s.nhc(past, healthCheck()) }, []string{"17.5"}},
		"8.5 gate closed": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.node(past, healthyNode("m"))
			s.nhc(past, healthCheck(minHealthy("51%")))
		}, []string{"8.5"}},
		"8.5 a CR that is left keeps it closed": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.node(past, healthyNode("m"))
			s.cr(past, newCR("m", "Reboot", "one"))
			s.nhc(past, healthCheck(minHealthy("1")))
		}, []string{"8.5"}},
		"9.6 storm": {func(s *fixture) { s.node(past, failedNode("n")); s.nhc(past, healthCheck(storm(0, 0, true))) }, []string{"9.6"}},
		"9.5 cooling down": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.nhc(past, healthCheck(storm(1, 50*time.Second, true), calmSince(at(60))))
		}, []string{"9.6"}},
		"6.7 no template": {func(s *fixture) {
			s.node(past, failedNode("n"))
			s.nhc(past, healthCheck())
			s.template(at(90), "Reboot", "one", nil)
		}, []string{"6.7"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			tc.setup(s)
			w := window{nhc: "nhc", node: "n", known: at(97), nodeKnown: at(99), rv: s.next(), at: at(100), first: true}
			require.Equal(t, tc.want, broke(s.constraints(w)))
		})
	}
}

// storm configures a storm, which is active or over. It is not calm.
func storm(threshold int32, cooldown time.Duration, active bool) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.StormRecoveryThreshold, nhc.Status.StormRecoveryActive = &threshold, &active
		condition := metav1.Condition{Type: v1alpha1.ConditionStormActive, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStorm}
		if active {
			condition.Status, condition.LastTransitionTime = metav1.ConditionTrue, metav1.NewTime(epoch)
			nhc.Status.StormRecoveryStartTime = new(metav1.NewTime(epoch))
		}
		nhc.Status.Conditions = append(nhc.Status.Conditions, condition)
		if cooldown > 0 {
			nhc.Spec.StormCooldownDuration = &metav1.Duration{Duration: cooldown}
			nhc.Status.Conditions = append(nhc.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionStormCooldownActive, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStorm,
			})
		}
	}
}

// calmSince has a storm with a cooldown be calm.
func calmSince(since time.Time) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		cooling := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionStormCooldownActive)
		cooling.Status, cooling.LastTransitionTime = metav1.ConditionTrue, metav1.NewTime(since)
	}
}
