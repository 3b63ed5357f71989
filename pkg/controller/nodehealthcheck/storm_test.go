// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// stormy sets the storm rules of a NodeHealthCheck.
func stormy(threshold *int32, cooldown *metav1.Duration) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.StormRecoveryThreshold, nhc.Spec.StormCooldownDuration = threshold, cooldown
	}
}

// TestStormStatus goes through a storm with threshold and cooldown (spec 9.8 to 9.10).
func TestStormStatus(t *testing.T) {
	t.Parallel()
	s := newStory(t, stormy(new(int32(5)), &metav1.Duration{Duration: time.Minute}))
	sync := func(storm health.Storm) []string {
		s.observe = func(w *observed) { w.Gate.Open, w.Storm = true, storm }
		return s.sync()
	}
	at := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }
	condition := func(conditionType string) metav1.Condition {
		found := meta.FindStatusCondition(s.nhc.Status.Conditions, conditionType)
		require.NotNil(t, found, conditionType)
		require.Equal(t, "HealthyNodeThresholdChange", found.Reason, "9.8")
		require.EqualValues(t, 3, found.ObservedGeneration, "18.5")
		return *found
	}
	is := func(conditionType string, status metav1.ConditionStatus, since int, message string) {
		t.Helper()
		found := condition(conditionType)
		require.Equal(t, status, found.Status)
		require.Equal(t, at(since), found.LastTransitionTime.Time)
		require.Equal(t, message, found.Message)
	}

	sync(health.Storm{})
	require.Nil(t, meta.FindStatusCondition(s.nhc.Status.Conditions, "StormActive"), "9.8: absent before the first storm")
	require.Nil(t, meta.FindStatusCondition(s.nhc.Status.Conditions, "StormCooldownActive"))
	require.False(t, *s.nhc.Status.StormRecoveryActive, "9.9")
	require.Nil(t, s.nhc.Status.StormRecoveryStartTime, "9.9")

	storm := health.Storm{Active: true, Since: at(1)}
	require.Equal(t, []string{"StormRecoveryStarted: Storm recovery mode activated - delaying remediation until threshold is reached"}, sync(storm))
	is("StormActive", "True", 1, "Storm mode is activated - preventing any new remediation until the storm is over and cooldown duration expired")
	is("StormCooldownActive", "False", 1, "Cooldown cleared - storm threshold triggered")
	require.True(t, *s.nhc.Status.StormRecoveryActive, "9.9")
	require.Equal(t, at(1), s.nhc.Status.StormRecoveryStartTime.Time, "9.9")
	require.Equal(t, storm, health.StormOf(&s.nhc.Status), "P8: status is enough to go on")
	allowed := meta.FindStatusCondition(s.nhc.Status.Conditions, "RemediationAllowed")
	require.Equal(t, "StormActive", allowed.Reason)
	require.Equal(t, metav1.ConditionFalse, allowed.Status)

	storm.CalmSince = at(2)
	require.Equal(t, []string{"StormRecoveryCooldownStarted: Storm recovery mode will exit after cooldown delay"}, sync(storm))
	is("StormActive", "True", 1, condition("StormActive").Message)
	is("StormCooldownActive", "True", 2, "Storm cooldown delay started - waiting before resuming normal remediation")
	require.Equal(t, storm, health.StormOf(&s.nhc.Status), "P8")
	before := s.nhc.Status.DeepCopy()
	require.Empty(t, sync(storm))
	require.Equal(t, before, &s.nhc.Status, "P3")

	storm.CalmSince = time.Time{}
	require.Empty(t, sync(storm))
	is("StormCooldownActive", "False", 4, "Cooldown cleared - storm threshold triggered")
	storm.CalmSince = at(5)
	require.Len(t, sync(storm), 1, "19.1: a cooldown starts again")
	is("StormCooldownActive", "True", 5, condition("StormCooldownActive").Message)

	s.restart()
	require.Equal(t, []string{"StormRecoveryEnded: Storm recovery mode deactivated - normal remediation resumed"}, sync(health.Storm{}))
	is("StormActive", "False", 6, "Storm mode is deactivated, remediation can occur normally")
	is("StormCooldownActive", "False", 5+1, "Storm cooldown completed")
	require.False(t, *s.nhc.Status.StormRecoveryActive)
	require.Nil(t, s.nhc.Status.StormRecoveryStartTime)
	require.Equal(t, health.Storm{}, health.StormOf(&s.nhc.Status))
	require.Empty(t, sync(health.Storm{}))
}

// TestStormCooldownByAnotherClock: a cooldown that was found to have begun in the future
// begins anew, and status says so once (P3, P12).
func TestStormCooldownByAnotherClock(t *testing.T) {
	t.Parallel()
	s := newStory(t, stormy(nil, &metav1.Duration{Duration: time.Minute}))
	s.observe = func(w *observed) {
		w.Gate.Open, w.Storm = true, health.Storm{Active: true, Since: epoch, CalmSince: epoch.Add(time.Hour)}
	}
	s.sync()
	rules := health.StormRulesOf(&s.nhc.Spec)
	s.observe = func(w *observed) {
		w.Gate.Open = true
		w.Storm = health.StormOf(&s.nhc.Status).Next(rules, health.StormInput{Gate: w.Gate}, s.now)
	}
	begun := s.now
	s.sync()
	calm := meta.FindStatusCondition(s.nhc.Status.Conditions, "StormCooldownActive")
	require.Equal(t, begun, calm.LastTransitionTime.Time)
	before := s.nhc.Status
	s.sync()
	require.Equal(t, before, s.nhc.Status)
	require.Equal(t, begun.Add(time.Minute), health.StormOf(&s.nhc.Status).End(rules))
}

func TestStormUnconfigured(t *testing.T) {
	t.Parallel()
	s := newStory(t, stormy(new(int32(5)), &metav1.Duration{Duration: time.Minute}))
	storm := health.Storm{Active: true, Since: epoch, CalmSince: epoch}
	s.observe = func(w *observed) { w.Storm = storm }
	s.sync()

	s.nhc.Spec.StormCooldownDuration = nil
	storm.CalmSince = time.Time{}
	s.sync()
	require.Nil(t, meta.FindStatusCondition(s.nhc.Status.Conditions, "StormCooldownActive"), "9.10")
	require.NotNil(t, meta.FindStatusCondition(s.nhc.Status.Conditions, "StormActive"))

	s.nhc.Spec.StormCooldownDuration, s.nhc.Spec.StormRecoveryThreshold = &metav1.Duration{Duration: time.Minute}, nil
	s.sync()
	require.Nil(t, s.nhc.Status.StormRecoveryActive, "9.9: present with a threshold")
	require.NotNil(t, s.nhc.Status.StormRecoveryStartTime, "9.9: present during the storm")

	s.nhc.Spec.StormCooldownDuration = nil
	storm = health.Storm{}
	require.Equal(t, []string{"StormRecoveryEnded: Storm recovery mode deactivated - normal remediation resumed"}, s.sync(), "19.1")
	require.Nil(t, meta.FindStatusCondition(s.nhc.Status.Conditions, "StormActive"), "9.10")
	require.Nil(t, s.nhc.Status.StormRecoveryStartTime, "9.10")
	require.Nil(t, s.nhc.Status.StormRecoveryActive, "9.10")
}

// TestSkippedForStorm: told when the storm begins to keep a node waiting, and once.
func TestSkippedForStorm(t *testing.T) {
	t.Parallel()
	s := newStory(t, stormy(new(int32(0)), nil))
	storm := health.Storm{Active: true, Since: epoch}
	s.nhc.Status.StormRecoveryActive, s.nhc.Status.StormRecoveryStartTime = new(true), new(metav1.NewTime(epoch))
	s.observe = func(w *observed) { w.Gate.Open, w.Storm = true, storm }
	const note = "RemediationSkipped: Storm recovery active: skipping creation of new remediations"
	require.NotContains(t, s.sync(well("a")), note)
	require.Contains(t, s.sync(sick("a", refused("StormActive"))), note, "19.2")
	require.NotContains(t, s.sync(sick("a", refused("StormActive"))), note)
	require.NotContains(t, s.sync(sick("a", refused("StormActive")), sick("b", refused("StormActive"))), note)
	s.restart()
	require.NotContains(t, s.sync(sick("a", refused("StormActive"))), note, "19.3: the decision in status says it")
}
