// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// fleet returns ten nodes after a change. The first ones are not ready.
func fleet(failing int, change func(number int, node *corev1.Node)) ([]*corev1.Node, sets.Set[string]) {
	var nodes []*corev1.Node
	names := sets.New[string]()
	for i := range 10 {
		status := corev1.ConditionTrue
		if i < failing {
			status = corev1.ConditionUnknown
			names.Insert(fmt.Sprintf("node-%d", i))
		}
		one := node(fmt.Sprintf("node-%d", i), ready(status, time.Hour))
		one.Labels = map[string]string{corev1.LabelHostname: one.Name, "pool": "workers"}
		change(i, one)
		nodes = append(nodes, one)
	}
	return nodes, names
}

func TestCommon(t *testing.T) {
	t.Parallel()
	zone := func(in func(number int) bool) func(int, *corev1.Node) {
		return func(number int, node *corev1.Node) {
			if in(number) {
				node.Labels["zone"] = "a"
			}
		}
	}
	first := func(n int) func(int) bool { return func(number int) bool { return number < n } }
	silent := func(number int, node *corev1.Node) {
		pressure := corev1.ConditionFalse
		if number < 4 {
			node.Labels["zone"] = "a"
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
			pressure = corev1.ConditionUnknown
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: pressure})
	}
	for name, tc := range map[string]struct {
		failing int
		change  func(int, *corev1.Node)
		want    []string
	}{
		"two only":                          {2, zone(first(2)), nil},
		"all fail":                          {10, zone(first(10)), nil},
		"nothing":                           {4, zone(first(0)), nil},
		"what follows from silence is none": {4, silent, []string{"zone=a"}},
		"not only they":                     {4, zone(first(5)), []string{"zone=a"}},
		"most of them":                      {4, zone(first(3)), []string{"zone=a"}},
		"too few":                           {4, zone(first(2)), nil},
		"others as well":                    {4, zone(first(8)), nil},
		"a kernel": {4, func(number int, node *corev1.Node) {
			if number < 4 {
				node.Status.NodeInfo.KernelVersion = "6.1"
			}
		}, []string{"kernel 6.1"}},
		"labels before conditions, and first what all of them have and no other": {4, func(number int, node *corev1.Node) {
			if number < 4 {
				node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue})
			}
			if number < 3 {
				node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "ADisk", Status: corev1.ConditionTrue})
				node.Labels["zone"] = "a"
				node.Spec.Taints = []corev1.Taint{{Key: "rack", Value: "7", Effect: corev1.TaintEffectNoSchedule}}
			}
		}, []string{"KernelDeadlock=True", "taint rack=7:NoSchedule", "zone=a"}},
	} {
		nodes, failing := fleet(tc.failing, tc.change)
		var found []string
		for _, shared := range common(nodes, failing, sets.New("Ready=Unknown")) {
			found = append(found, shared.What)
			require.Equal(t, []int{4, 6}, []int{shared.AllFailing, shared.AllOthers}, name)
		}
		require.Equal(t, tc.want, found, name)
	}
}
