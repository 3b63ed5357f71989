// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// BenchmarkNodeEvent is an event of one of 10000 nodes, each of which two of 50
// NodeHealthChecks select.
func BenchmarkNodeEvent(b *testing.B) {
	const nodes, pools = 10_000, 49
	pool := func(i int) string { return fmt.Sprintf("pool-%02d", i%pools) }
	node := func(i int, changes ...func(*corev1.Node)) *corev1.Node {
		changes = append([]func(*corev1.Node){labelled("role", pool(i)), labelled("kubernetes.io/os", "linux")}, changes...)
		return testNode(fmt.Sprintf("node-%05d", i), changes...)
	}
	c := &Controller{nodeStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	all := selectorOf(selecting("all", metav1.LabelSelector{}))
	c.overlaps.set(c.nodeStore, "all", all)
	for i := range pools {
		c.overlaps.set(c.nodeStore, pool(i), selectorOf(selecting(pool(i), byRole(pool(i)))))
	}
	for i := range nodes {
		_ = c.nodeStore.Add(node(i))
		c.overlaps.nodeChanged(c.nodeStore, node(i).Name)
	}
	variants := map[string][2]*corev1.Node{
		"other label": {node(7), node(7, labelled("x", "y"))},
		"other pool":  {node(7), node(7, labelled("role", pool(8)))},
	}
	for name, variant := range variants {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_ = c.nodeStore.Update(variant[i%2])
				c.overlaps.nodeChanged(c.nodeStore, variant[0].Name)
			}
		})
	}
	b.Run("read by a sync", func(b *testing.B) {
		for b.Loop() {
			c.overlaps.of("all")
		}
	})
	b.Run("selector of all nodes", func(b *testing.B) {
		for b.Loop() {
			c.overlaps.remove("all")
			c.overlaps.set(c.nodeStore, "all", all)
		}
	})
}
