// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var (
	// limitPattern is what the API accepts in minHealthy and maxUnhealthy as a string.
	limitPattern = regexp.MustCompile(`^((100|[0-9]{1,2})%|[0-9]+)$`)
	// readablePattern is what was accepted once, and still says something.
	readablePattern = regexp.MustCompile(`^[0-9]+%?$`)
)

// FuzzGate: with any stored limit, the gate is open if and only if enough nodes are
// healthy. One more healthy node never closes it. A value that is no limit keeps it
// closed.
func FuzzGate(f *testing.F) {
	for _, text := range []string{
		"", "%", "0", "0%", "1%", "51%", "100%", "101%", "007", "00%", "2147483647", "2147483648", "2147483648%", "2170000000A", "99999999999999999999", "99999999999999999999%",
		"-1", "+1", "-1%", "1.5", "1.5%", "0x10", "1_0", "1e3", " 1", "1 ", "50%%", "%50", "٥", "NaN",
	} {
		f.Add(true, int32(0), text, uint16(10), uint16(7))
		f.Add(true, int32(0), text, uint16(101), uint16(101))
		f.Add(true, int32(0), text, uint16(0), uint16(0))
	}
	for _, number := range []int32{0, 1, -1, 7, math.MaxInt32, math.MinInt32} {
		f.Add(false, number, "", uint16(10), uint16(7))
	}
	f.Fuzz(func(t *testing.T, isText bool, number int32, text string, nodes, well uint16) {
		limit := intstr.FromInt32(number)
		if isText {
			limit = intstr.FromString(text)
		}
		observed, healthy := int(nodes), min(int(well), int(nodes))
		readable := isText && readablePattern.MatchString(text) || !isText && number >= 0
		valid := isText && limitPattern.MatchString(text) || !isText && number >= 0
		for _, gate := range []struct{ now, more Gate }{
			{EvaluateGate(&limit, nil, observed, healthy), EvaluateGate(&limit, nil, observed, healthy+1)},
			{EvaluateGate(nil, &limit, observed, healthy), EvaluateGate(nil, &limit, observed, healthy+1)},
		} {
			require.Equal(t, gate.now.Required, gate.more.Required)
			require.False(t, gate.now.Open && !gate.more.Open, "8.1: a healthy node more closes it")
			require.Equal(t, readable && healthy >= gate.now.Required, gate.now.Open, "8.1")
		}
		require.False(t, EvaluateGate(&limit, &limit, observed, healthy).Open, "both are given")
		scaled, err := intstr.GetScaledValueFromIntOrPercent(&limit, observed, true)
		if valid && err == nil && scaled <= math.MaxInt32 { // Else, or as a plain number in a string, Kubernetes has no answer.
			require.Equal(t, scaled, EvaluateGate(&limit, nil, observed, healthy).Required, "8.2")
			require.Equal(t, observed-scaled, EvaluateGate(nil, &limit, observed, healthy).Required, "8.2")
		}
	})
}

// FuzzJudge: whatever times a kubelet writes, the verdict changes at its deadline and
// never before, and is not changed by conditions that no rule is about.
func FuzzJudge(f *testing.F) {
	for _, seconds := range []int64{0, 1, -1, -62135596800, 253402300799, 253402300800, math.MaxInt64 / 2, math.MinInt64 / 2} {
		for _, duration := range []int64{0, 1, -1, int64(5 * time.Minute), math.MaxInt64, math.MinInt64} {
			f.Add("Ready", "Unknown", seconds, duration, int64(0))
		}
	}
	f.Fuzz(func(t *testing.T, typ, status string, since, duration, now int64) {
		rules := []v1alpha1.UnhealthyCondition{rule(corev1.NodeReady, corev1.ConditionUnknown, time.Duration(duration))}
		conditions := []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionUnknown, time.Unix(since, 0)),
			condition(corev1.NodeConditionType(typ), corev1.ConditionStatus(status), time.Unix(now, 0)),
		}
		if typ == string(corev1.NodeReady) && status == string(corev1.ConditionUnknown) {
			conditions = conditions[:1]
		}
		judge := func(conditions []corev1.NodeCondition, at time.Time) Verdict {
			seen := (*Sighting)(nil).Next(&conditions[0], true, time.Unix(now, 0))
			return Judge(rules, Evidence{Conditions: conditions, Seen: []Sighting{seen}}, at)
		}
		verdict := judge(conditions, time.Unix(now, 0))
		require.Equal(t, judge(conditions[:1], time.Unix(now, 0)), verdict)
		require.NotEqual(t, Healthy, verdict.State, "7.2")
		if time.Unix(since, 0).IsZero() {
			require.Equal(t, SoonUnhealthy, verdict.State, "7.2: it has no lastTransitionTime")
			require.Zero(t, verdict.Deadline)
			return
		}
		require.False(t, verdict.Since.After(time.Unix(now, 0)), "7.2: nothing begins in the future")
		require.Equal(t, Unhealthy, judge(conditions, verdict.Deadline).State, "7.3: at the deadline")
		require.Equal(t, SoonUnhealthy, judge(conditions, verdict.Deadline.Add(-1)).State, "7.3: not before")
		require.Equal(t, time.Duration(duration), verdict.Deadline.Sub(verdict.Since))
	})
}
