// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// stated has a NodeHealthCheck say that so many nodes are healthy, and that these are
// not, each with the uids of its CRs.
func stated(observed, healthy int32, entries ...v1alpha1.UnhealthyNode) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Status.ObservedGeneration = nhc.Generation
		nhc.Status.ObservedNodes, nhc.Status.HealthyNodes = &observed, &healthy
		nhc.Status.UnhealthyNodes = entries
		nhc.Status.Phase, nhc.Status.Reason = v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
		for _, entry := range entries {
			if len(entry.Remediations) > 0 {
				nhc.Status.Phase, nhc.Status.Reason = v1alpha1.PhaseRemediating, "NHC is remediating 1 nodes"
			}
		}
		if len(nhc.Spec.PauseRequests) > 0 {
			nhc.Status.Phase, nhc.Status.Reason = v1alpha1.PhasePaused, "NHC is paused: test"
		}
		nhc.Status.Conditions = append(nhc.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDisabled, Status: metav1.ConditionFalse})
	}
}

func entry(node string, crs ...*CR) v1alpha1.UnhealthyNode {
	e := v1alpha1.UnhealthyNode{Name: node}
	for _, cr := range crs {
		e.Remediations = append(e.Remediations, v1alpha1.Remediation{Resource: corev1.ObjectReference{UID: cr.UID}})
	}
	return e
}

func sinceHealthy(e v1alpha1.UnhealthyNode) v1alpha1.UnhealthyNode {
	e.ConditionsHealthyTimestamp = new(metav1.Now())
	return e
}

// TestUnsettled judges clusters that nobody touches any more.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	beingDeleted := newCR("n", "Reboot", "one", deleting)
	healthy := func(s *fixture) { s.node(past, healthyNode("n")) }
	notHealthy := func(s *fixture) { s.node(past, failedNode("n")) }
	remediated := func(s *fixture) { notHealthy(s); s.cr(past, cr) }
	tests := map[string]struct {
		setup func(s *fixture)
		nhc   *NHC
		want  []string
	}{
		"all well":              {healthy, healthCheck(stated(1, 1)), nil},
		"7.8 a wrong count":     {healthy, healthCheck(stated(1, 0)), []string{"7.8"}},
		"7.8 no counts":         {healthy, healthCheck(stated(1, 1), func(nhc *v1alpha1.NodeHealthCheck) { nhc.Status.HealthyNodes = nil }), []string{"7.8"}},
		"18.5 an old spec":      {healthy, healthCheck(stated(1, 1), func(nhc *v1alpha1.NodeHealthCheck) { nhc.Generation = 2 }), []string{"18.5"}},
		"18.1 a wrong phase":    {healthy, healthCheck(stated(1, 1), func(nhc *v1alpha1.NodeHealthCheck) { nhc.Status.Phase = v1alpha1.PhasePaused }), []string{"18.1"}},
		"6.2 no condition":      {healthy, healthCheck(stated(1, 1), func(nhc *v1alpha1.NodeHealthCheck) { nhc.Status.Conditions = nil }), []string{"6.2"}},
		"18.4 too many entries": {healthy, healthCheck(stated(1, 1, entry("m"))), []string{"18.4"}},
		"P12 nothing is done":   {notHealthy, healthCheck(stated(1, 0, entry("n"))), []string{"P12"}},
		"18.4 not listed":       {remediated, healthCheck(stated(1, 0)), []string{"18.4"}},
		"under remediation":     {remediated, healthCheck(stated(1, 0, entry("n", cr))), nil},
		"18.3 another CR":       {remediated, healthCheck(stated(1, 0, entry("n", newCR("n", "Reboot", "x")))), []string{"18.3"}},
		"10.1 paused":           {notHealthy, healthCheck(paused, stated(1, 0, entry("n"))), nil},
		"8.5 gate closed":       {notHealthy, healthCheck(minHealthy("1"), stated(1, 0, entry("n"))), nil},
		"15.1 excluded":         {func(s *fixture) { s.node(past, failedNode("n", labelled(v1alpha1.LabelExclude, "true"))) }, healthCheck(stated(1, 0, entry("n"))), nil},
		"14.3 lease taken":      {func(s *fixture) { notHealthy(s); s.lease(past, newLease("n", "other", at(99), time.Minute)) }, healthCheck(stated(1, 0, entry("n"))), nil},
		"14.4 lease not valid":  {func(s *fixture) { notHealthy(s); s.lease(past, newLease("n", "other", at(9), time.Minute)) }, healthCheck(stated(1, 0, entry("n"))), []string{"P12"}},
		"11.4 a foreign CR":     {func(s *fixture) { notHealthy(s); s.cr(past, newCR("n", "Reboot", "one", foreign)) }, healthCheck(stated(1, 0, entry("n"))), nil},
		"12.2 place taken": {func(s *fixture) {
			s.node(past, failedNode("n", controlPlane))
			s.node(past, failedNode("m", controlPlane, labelled("pool", "b")))
			s.cr(past, newCR("m", "Rebuild", "x", foreign))
		}, healthCheck(stated(1, 0, entry("n"))), nil},
		"9.6 storm":                    {notHealthy, healthCheck(storm(0, 0, true), stated(1, 0, entry("n"))), nil},
		"9.5 the storm is over":        {healthy, healthCheck(storm(0, 0, true), stated(1, 1)), []string{"9.5"}},
		"9.2 a storm is due":           {notHealthy, healthCheck(storm(0, 0, false), minHealthy("1"), stated(1, 0, entry("n"))), []string{"9.2"}},
		"16.1 recovered":               {func(s *fixture) { healthy(s); s.cr(past, cr) }, healthCheck(stated(1, 0, sinceHealthy(entry("n", cr)))), []string{"16.1"}},
		"16.2 its CR is being deleted": {func(s *fixture) { healthy(s); s.cr(past, beingDeleted) }, healthCheck(stated(1, 0, sinceHealthy(entry("n", beingDeleted)))), nil},
		"16.2 no timestamp":            {func(s *fixture) { healthy(s); s.cr(past, beingDeleted) }, healthCheck(stated(1, 0, entry("n", beingDeleted))), []string{"16.2"}},
		"16.4 delayed":                 {func(s *fixture) { healthy(s); s.cr(past, cr) }, healthCheck(healthyDelay(-1), stated(1, 0, sinceHealthy(entry("n", cr)))), nil},
		"17.2 the Node is gone":        {func(s *fixture) { s.noNode(past, "n"); s.cr(past, cr) }, healthCheck(stated(0, 0, entry("n", cr))), []string{"17.2"}},
		"17.4 its CR is being deleted": {func(s *fixture) { s.noNode(past, "n"); s.cr(past, beingDeleted) }, healthCheck(stated(0, 0)), nil},
		"7.5 soon unhealthy":           {func(s *fixture) { s.node(past, newNode("n", "False", at(1000))) }, healthCheck(stated(1, 0, entry("n"))), nil},
		"14.9 a lease without CR":      {func(s *fixture) { healthy(s); s.lease(past, newLease("n", "NodeHealthCheck-nhc", at(99), time.Minute)) }, healthCheck(stated(1, 1)), []string{"14.9"}},
		"16.6 a confirmation": {func(s *fixture) {
			s.node(past, healthyNode("n", annotated(v1alpha1.AnnotationManuallyConfirmedHealthy)))
		}, healthCheck(stated(1, 1)), []string{"16.6"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			tc.setup(s)
			s.nhc(past, tc.nhc)
			found := (&snapshot{history: s.history, rv: s.rv, now: at(100)}).unsettled()
			require.Equal(t, tc.want, brokenRules(found), "%v", found)
		})
	}
}

// TestAgain: what was created and deleted before its watch told of it is judged in its
// turn.
func TestAgain(t *testing.T) {
	t.Parallel()
	j := NewJudge(Config{Tolerance: Quiet})
	j.DeletedByOthers("a uid")
	window := j.BeginFault(at(1), "x", Tolerance{Cache: time.Minute})
	j.violations = []Violation{{Rule: "1"}}
	again := j.Again()
	require.Empty(t, again.violations)
	require.Equal(t, 1, again.figures.Faults)
	require.True(t, again.deletedByOthers.Has("a uid"))
	require.Equal(t, 1, again.figures.Replays)
	again.EndFault(at(2), window)
	require.Equal(t, Quiet, again.toleranceAt(at(1000)))
}
