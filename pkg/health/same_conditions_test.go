// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestSameConditions(t *testing.T) {
	t.Parallel()
	ready, disk := condition(corev1.NodeReady, corev1.ConditionTrue, epoch), condition("Disk", corev1.ConditionFalse, epoch)
	heartbeat := ready
	heartbeat.Reason, heartbeat.Message, heartbeat.LastHeartbeatTime.Time = "KubeletReady", "kubelet is posting ready status", epoch.Add(1)
	for name, tc := range map[string]struct {
		a, b []corev1.NodeCondition
		want bool
	}{
		"21.1 none":                  {want: true},
		"21.1 the same":              {a: []corev1.NodeCondition{ready, disk}, b: []corev1.NodeCondition{ready, disk}, want: true},
		"21.1 a heartbeat":           {a: []corev1.NodeCondition{ready}, b: []corev1.NodeCondition{heartbeat}, want: true},
		"21.1 in another order":      {a: []corev1.NodeCondition{ready, disk}, b: []corev1.NodeCondition{disk, ready}, want: true},
		"21.1 one more":              {a: []corev1.NodeCondition{ready}, b: []corev1.NodeCondition{ready, disk}},
		"21.1 another type":          {a: []corev1.NodeCondition{ready}, b: []corev1.NodeCondition{condition("Disk", corev1.ConditionTrue, epoch)}},
		"21.1 another status":        {a: []corev1.NodeCondition{ready}, b: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionFalse, epoch)}},
		"21.1 another time":          {a: []corev1.NodeCondition{ready}, b: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue, epoch.Add(1))}},
		"21.1 one instead of a twin": {a: []corev1.NodeCondition{ready, ready}, b: []corev1.NodeCondition{ready, disk}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, SameConditions(tc.a, tc.b))
			require.Equal(t, tc.want, SameConditions(tc.b, tc.a), "P2: both ways")
		})
	}
}

// TestSameConditionsIsAnEquality holds for any two lists.
func TestSameConditionsIsAnEquality(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	list := func() (all []corev1.NodeCondition) {
		for range random.IntN(4) {
			all = append(all, condition([]corev1.NodeConditionType{"A", "B"}[random.IntN(2)], []corev1.ConditionStatus{"True", "False"}[random.IntN(2)], epoch))
		}
		return all
	}
	for range 2000 {
		a, b := list(), list()
		require.Equal(t, SameConditions(a, b), SameConditions(b, a), "%v %v", a, b)
		shuffled := slices.Clone(a)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.True(t, SameConditions(a, shuffled), "21.1: the order does not matter")
	}
}
