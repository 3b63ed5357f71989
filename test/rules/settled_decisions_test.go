// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// withDecision has a node of status have a decision with these parts.
func withDecision(e v1alpha1.UnhealthyNode, kind v1alpha1.DecisionType, reason v1alpha1.DecisionReason, change ...func(*v1alpha1.Decision)) v1alpha1.UnhealthyNode {
	e.Decision = &v1alpha1.Decision{Type: kind, Reason: reason, Message: "because", Since: metav1.NewTime(at(50))}
	for _, change := range change {
		change(e.Decision)
	}
	return e
}

// TestSettledDecisions compares decisions with what they are about.
func TestSettledDecisions(t *testing.T) {
	t.Parallel()
	const remediating, waiting, held, exhausted = v1alpha1.DecisionRemediating, v1alpha1.DecisionWaiting, v1alpha1.DecisionHeld, v1alpha1.DecisionExhausted
	atWork := newCR("n", "Reboot", "one", func(cr *CR) { cr.Created = at(50) })
	over := newCR("n", "Rebuild", "three", marked)
	failed := newCR("n", "Reboot", "one", func(cr *CR) { cr.Created, cr.Succeeded = at(50), "False" })
	beingDeleted := newCR("n", "Reboot", "one", deleting, marked)
	excluded := func(s *fixture) { s.node(past, failedNode("n", labelled(v1alpha1.LabelExclude, "true"))) }
	message := func(text string) func(*v1alpha1.Decision) {
		return func(d *v1alpha1.Decision) { d.Message = text }
	}
	nextCheck := func(second float64) func(*v1alpha1.Decision) {
		return func(d *v1alpha1.Decision) { d.NextCheckTime = new(metav1.NewTime(at(second))) }
	}
	since := func(second float64) func(*v1alpha1.Decision) {
		return func(d *v1alpha1.Decision) { d.Since = metav1.NewTime(at(second)) }
	}
	runRows(t, map[string]row{
		"at work":               {remediated(atWork), healthCheck(escalating, stated(1, 0, withDecision(entry("n", atWork), remediating, "StepRunning", nextCheck(110)))), nil},
		"not at work":           {notHealthy, healthCheck(paused, stated(1, 0, withDecision(entry("n"), remediating, "StepRunning"))), []string{"23b.5", "23b.5", "5.4"}},
		"the check is overdue":  {remediated(atWork), healthCheck(escalating, stated(1, 0, withDecision(entry("n", atWork), remediating, "StepRunning", nextCheck(99)))), []string{"23b.5"}},
		"in the future":         {remediated(atWork), healthCheck(escalating, stated(1, 0, withDecision(entry("n", atWork), remediating, "StepRunning", since(101)))), []string{"23b.5"}},
		"no message":            {remediated(atWork), healthCheck(escalating, stated(1, 0, withDecision(entry("n", atWork), remediating, "StepRunning", message("")))), []string{"23b.5"}},
		"another type":          {remediated(atWork), healthCheck(escalating, stated(1, 0, withDecision(entry("n", atWork), held, "StepRunning"))), []string{"23b.5"}},
		"no success":            {remediated(atWork), healthCheck(escalating, stated(1, 0, withDecision(entry("n", atWork), remediating, "StepSucceeded"))), []string{"23b.5"}},
		"failed":                {remediated(failed), healthCheck(stated(1, 0, withDecision(entry("n", failed), exhausted, "StepFailed"))), nil},
		"not failed":            {remediated(atWork), healthCheck(stated(1, 0, withDecision(entry("n", atWork), exhausted, "StepFailed"))), []string{"23b.5"}},
		"no step is left":       {remediated(over), healthCheck(escalating, stated(1, 0, withDecision(entry("n", over), exhausted, "NoTemplateLeft"))), nil},
		"a step is left":        {remediated(atWork), healthCheck(escalating, stated(1, 0, withDecision(entry("n", atWork), exhausted, "NoTemplateLeft"))), []string{"23b.5"}},
		"paused":                {notHealthy, healthCheck(paused, stated(1, 0, withDecision(entry("n"), held, "Paused"))), nil},
		"paused, no message":    {notHealthy, healthCheck(paused, stated(1, 0, withDecision(entry("n"), held, "Paused", message("")))), []string{"23b.5"}},
		"5.4 the gate is first": {excluded, healthCheck(minHealthy("1"), stated(1, 0, withDecision(entry("n"), held, "Excluded"))), []string{"5.4"}},
		"excluded":              {excluded, healthCheck(stated(1, 0, withDecision(entry("n"), held, "Excluded"))), nil},
		"not excluded":          {notHealthy, healthCheck(paused, stated(1, 0, withDecision(entry("n"), held, "Excluded"))), []string{"23b.5", "5.4"}},
		"it was recovering":     {notHealthy, healthCheck(paused, stated(1, 0, withDecision(entry("n"), waiting, "Recovering"))), []string{"23b.5", "5.4"}},
		"being deleted":         {recovered(beingDeleted), healthCheck(stated(1, 0, withDecision(sinceHealthy(entry("n", beingDeleted), 50), waiting, "AwaitingDeletion"))), nil},
		"healthy, and paused":   {recovered(beingDeleted), healthCheck(paused, stated(1, 0, withDecision(sinceHealthy(entry("n", beingDeleted), 50), held, "Paused"))), []string{"23b.5"}},
		"delayed":               {recovered(atWork), healthCheck(healthyDelay(time.Minute), stated(1, 0, withDecision(delayed(sinceHealthy(entry("n", atWork), 50)), "Delayed", "HealthyDelay", nextCheck(110)))), nil},
		"not delayed":           {recovered(beingDeleted), healthCheck(stated(1, 0, withDecision(sinceHealthy(entry("n", beingDeleted), 50), "Delayed", "HealthyDelay"))), []string{"23b.5"}},
		"a lease is free":       {func(s *fixture) { notHealthy(s); s.lease(past, newLease("n", "x", at(99), time.Minute)) }, healthCheck(stated(1, 0, withDecision(entry("n"), waiting, "LeaseTaken"))), nil},
		"the slot is free":      {excluded, healthCheck(stated(1, 0, withDecision(entry("n"), waiting, "ControlPlaneBusy"))), []string{"23b.5", "5.4"}},
		"a failure is not told": {excluded, healthCheck(stated(1, 0, withDecision(entry("n"), waiting, "CreateFailed"))), nil},
		"replaced":              {gone(newCR("n", "Reboot", "one", func(cr *CR) { cr.Permanent = "True" })), healthCheck(stated(0, 0, withDecision(sinceHealthy(entry("n", newCR("n", "Reboot", "one")), 1), remediating, "AwaitingReplacement"))), nil},
	})
	s := newFixture()
	notHealthy(s)
	s.nhc(past, healthCheck(paused, stated(1, 0, entry("n"))))
	require.Equal(t, []string{"23b.5"}, brokenRules(s.snapshotAt(at(100)).unsettled()))
}
