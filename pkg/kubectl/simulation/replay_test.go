// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// recorded returns the recording that a function makes. At first, these nodes are ready.
func recorded(t *testing.T, write func(w *Writer), ready ...string) *Recording {
	t.Helper()
	var file bytes.Buffer
	w := NewWriter(&file, epoch)
	for _, name := range ready {
		w.Node(node(name, nil), epoch)
	}
	write(w)
	require.NoError(t, w.Err())
	from, err := Read(&file)
	require.NoError(t, err)
	return from
}

// becomes has a node recorded with another condition Ready.
func becomes(w *Writer, name string, status corev1.ConditionStatus, after time.Duration) {
	changed := node(name, nil)
	changed.Status.Conditions[0].Status, changed.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(epoch.Add(after))
	w.Node(changed, epoch.Add(after))
}

// replayOf returns the input that plays a recording with one NodeHealthCheck.
func replayOf(from *Recording, changes ...func(*v1alpha1.NodeHealthCheck)) *Input {
	in := NewReplay(from)
	in.Checks = []*v1alpha1.NodeHealthCheck{newNHC("workers", changes...)}
	return in
}

func maxUnhealthy(n int32) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.MaxUnhealthy = new(intstr.FromInt32(n)) }
}

func unhealthyAfter(d time.Duration) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.UnhealthyConditions[0].Duration.Duration = d }
}

// TestReplay: nodes change as recorded, and decisions follow.
func TestReplay(t *testing.T) {
	t.Parallel()
	from := recorded(t, func(w *Writer) {
		becomes(w, "a", corev1.ConditionUnknown, 10*time.Minute)
		becomes(w, "b", corev1.ConditionUnknown, 11*time.Minute)
		becomes(w, "a", corev1.ConditionTrue, 14*time.Minute)
		w.Gap(epoch.Add(15*time.Minute), epoch.Add(20*time.Minute))
		w.Delete("b", epoch.Add(20*time.Minute))
		w.Node(node("d", nil), epoch.Add(21*time.Minute))
		becomes(w, "d", corev1.ConditionUnknown, 22*time.Minute)
		w.Mark(epoch.Add(25 * time.Minute))
	}, "a", "b", "c")
	in := replayOf(from)
	result := Run(in)
	require.Equal(t, []string{
		"10m0s a fails: Ready=Unknown",
		"11m0s b fails: Ready=Unknown",
		"11m0s a is unhealthy: Ready=Unknown for 1m0s",
		"11m0s a remediation begins: RebootRemediationTemplate remediators/default",
		"12m0s b is unhealthy: Ready=Unknown for 1m0s",
		"12m0s b remediation begins: RebootRemediationTemplate remediators/default",
		"14m0s a recovers: as recorded",
		"14m0.2s a remediation ends: healthy; after 3m0s",
		"20m0s nothing is recorded: for 5m0s until now: changes may be missing, or late",
		"20m0s b is deleted",
		"20m0.2s b remediation ends: the node is gone; after 8m0s",
		"21m0s d is created",
		"22m0s d fails: Ready=Unknown",
		"23m0s d is unhealthy: Ready=Unknown for 1m0s",
		"23m0s d remediation begins: RebootRemediationTemplate remediators/default",
	}, told(result))
	require.Equal(t, 25*time.Minute, result.Duration.Duration)
	require.Equal(t, 3, result.Summary.Remediations)
	require.Equal(t, []string{"d"}, result.Summary.StillRemediated)
	after := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	require.Equal(t, []*Episode{
		{Node: "a", Check: "workers", Detected: *after(11 * time.Minute), Began: after(11 * time.Minute), Ended: after(14*time.Minute + reaction), Steps: 1},
		{Node: "b", Check: "workers", Detected: *after(12 * time.Minute), Began: after(12 * time.Minute), Ended: after(20*time.Minute + reaction), Steps: 1},
		{Node: "d", Check: "workers", Detected: *after(23 * time.Minute), Began: after(23 * time.Minute), Steps: 1},
	}, result.Episodes)
	require.Equal(t, Recorded{File: "storm", Nodes: 4, Changes: 6, Gaps: 1}, NewRecorded("storm", from))
	require.Equal(t, result, Run(in), "a recording can be played again")
}

// TestReplayTogether: nodes that recover within a moment do so together, also at the very end.
func TestReplayTogether(t *testing.T) {
	t.Parallel()
	from := recorded(t, func(w *Writer) {
		becomes(w, "a", corev1.ConditionUnknown, 10*time.Minute)
		becomes(w, "b", corev1.ConditionUnknown, 10*time.Minute)
		becomes(w, "a", corev1.ConditionTrue, 20*time.Minute)
		becomes(w, "b", corev1.ConditionTrue, 20*time.Minute+reaction/2)
	}, "a", "b", "c", "d")
	require.Equal(t, []string{
		"10m0s a b fails: Ready=Unknown",
		"11m0s a b is unhealthy: Ready=Unknown for 1m0s",
		"11m0s a b waits: GateClosed: 2 of 4 nodes are healthy, at least 3 have to be",
		"20m0s a recovers: as recorded",
		"20m0.1s b recovers: as recorded",
	}, told(Run(replayOf(from, maxUnhealthy(1)))))
}

// TestReplayStart: nodes that are unhealthy when the recording begins are remediated
// then.
func TestReplayStart(t *testing.T) {
	t.Parallel()
	from := recorded(t, func(w *Writer) {
		failed := node("a", nil)
		failed.Status.Conditions[0].Status = corev1.ConditionUnknown
		w.Node(failed, epoch)
		w.Node(node("b", nil), epoch)
		w.Mark(epoch.Add(time.Minute))
	})
	require.Equal(t, []string{
		"0s a is unhealthy: Ready=Unknown for 1h0m0s",
		"0s a remediation begins: RebootRemediationTemplate remediators/default",
	}, told(Run(replayOf(from))))
}

// TestCompare: each way in which remediations differ.
func TestCompare(t *testing.T) {
	t.Parallel()
	from := recorded(t, func(w *Writer) {
		becomes(w, "a", corev1.ConditionUnknown, 10*time.Minute)
		becomes(w, "b", corev1.ConditionUnknown, 10*time.Minute)
		becomes(w, "c", corev1.ConditionUnknown, 12*time.Minute)
		becomes(w, "a", corev1.ConditionTrue, 20*time.Minute)
		becomes(w, "b", corev1.ConditionTrue, 21*time.Minute)
		becomes(w, "c", corev1.ConditionTrue, 30*time.Minute)
		becomes(w, "a", corev1.ConditionUnknown, 40*time.Minute)
		becomes(w, "a", corev1.ConditionTrue, 43*time.Minute)
		w.Mark(epoch.Add(time.Hour))
	}, "a", "b", "c", "d")
	told := func(before, after *Result) (lines []string) {
		for _, d := range Compare("before", before, after).Differences {
			line := fmt.Sprintf("%s %s %s", d.After.Duration, d.Node, d.What)
			if d.By != nil {
				line += " by " + d.By.Duration.String()
			}
			lines = append(lines, line+": "+d.Why)
		}
		return lines
	}
	all := Run(replayOf(from))
	require.Empty(t, told(all, all))
	one := Run(replayOf(from, maxUnhealthy(2)))
	require.Equal(t, []string{
		"13m0s c would have started later by 7m0.2s: " + one.Episodes[2].Waits,
	}, told(all, one))
	require.Contains(t, one.Episodes[2].Waits, "GateClosed: ")
	require.Equal(t, []string{
		"20m0.2s c would have started earlier by 7m0.2s: without the wait for " + one.Episodes[2].Waits,
	}, told(one, all))
	slow := Run(replayOf(from, unhealthyAfter(5*time.Minute)))
	require.Equal(t, []string{
		"11m0s a would have started later by 4m0s: unhealthy 4m0s later",
		"11m0s b would have started later by 4m0s: unhealthy 4m0s later",
		"13m0s c would have started later by 4m0s: unhealthy 4m0s later",
		"41m0s a would not have started: the node would not have been unhealthy for long enough, or not selected",
	}, told(all, slow))
	require.Equal(t, []string{
		"15m0s a would have started earlier by 4m0s: unhealthy 4m0s earlier",
		"15m0s b would have started earlier by 4m0s: unhealthy 4m0s earlier",
		"17m0s c would have started earlier by 4m0s: unhealthy 4m0s earlier",
		"41m0s a would have started, too: by NodeHealthCheck workers",
	}, told(slow, all))
	none := Run(replayOf(from, maxUnhealthy(0)))
	comparison := Compare("the cluster", all, none)
	require.Equal(t, 4, comparison.Count(NotStarted))
	require.Equal(t, 4, comparison.Summary.Remediations)
	require.Contains(t, comparison.Differences[0].Why, "GateClosed: ")
	require.Zero(t, none.Summary.Remediations)
	escalated := Run(replayOf(from, steps(3*time.Minute, "Reboot", "Fence")))
	require.Equal(t, "11m0s a would have had other steps: 2 steps instead of 1", told(all, escalated)[0])
	delayed := Run(replayOf(from, func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.HealthyDelay = &metav1.Duration{Duration: 25 * time.Minute}
	}))
	require.Equal(t, []string{"41m0s a would not have started: the remediation before would not have ended"}, told(all, delayed))
}

// TestInterrupted: a simulation stops when it is told to.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	asked := 0
	result := Run(&Input{
		Checks: []*v1alpha1.NodeHealthCheck{newNHC("workers")}, Nodes: nodes("a"), Start: epoch, Duration: time.Hour, Fail: fail(time.Minute, "a"),
		Interrupted: func() bool { asked++; return asked > 2 },
	})
	require.Equal(t, 2*time.Minute, result.Duration.Duration)
}
