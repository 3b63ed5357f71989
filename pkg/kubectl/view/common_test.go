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
	notReady := Shared{What: "Ready=Unknown", Failing: 4, AllFailing: 4, AllOthers: 6}
	for name, tc := range map[string]struct {
		failing int
		change  func(int, *corev1.Node)
		want    []Shared
	}{
		"two only":       {2, zone(first(2)), nil},
		"all fail":       {10, zone(first(10)), nil},
		"the condition":  {4, zone(first(0)), []Shared{notReady}},
		"and a zone":     {4, zone(first(5)), []Shared{notReady, {What: "zone=a", Failing: 4, AllFailing: 4, Others: 1, AllOthers: 6}}},
		"most of them":   {4, zone(first(3)), []Shared{notReady, {What: "zone=a", Failing: 3, AllFailing: 4, AllOthers: 6}}},
		"too few":        {4, zone(first(2)), []Shared{notReady}},
		"others as well": {4, zone(first(8)), []Shared{notReady}},
		"a kernel": {4, func(number int, node *corev1.Node) {
			if number < 4 {
				node.Status.NodeInfo.KernelVersion = "6.1"
			}
		}, []Shared{notReady, {What: "kernel 6.1", Failing: 4, AllFailing: 4, AllOthers: 6}}},
	} {
		nodes, failing := fleet(tc.failing, tc.change)
		require.Equal(t, tc.want, append([]Shared(nil), common(nodes, failing)...), name)
	}
}
