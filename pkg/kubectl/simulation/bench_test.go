// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// BenchmarkRun simulates an hour of nodes that fail, all at once or one after the other, and are
// never repaired.
func BenchmarkRun(b *testing.B) {
	for name, between := range map[string]time.Duration{"5000 at once": 0, "200 one by one": time.Second} {
		all := 5000
		if between > 0 {
			all = 200
		}
		b.Run(name, func(b *testing.B) {
			in := &Input{Checks: []*v1alpha1.NodeHealthCheck{newNHC("workers", steps(10*time.Minute, "Reboot", "Fence"))}, Start: epoch, Duration: time.Hour}
			for i := range all {
				in.Nodes = append(in.Nodes, node(fmt.Sprintf("node-%04d", i), nil))
				in.Fail = append(in.Fail, Change{Node: in.Nodes[i].Name, After: time.Duration(i) * between})
			}
			b.ReportAllocs()
			for b.Loop() {
				if result := Run(in); len(result.Summary.StillExhausted) != all {
					b.Fatal(len(result.Summary.StillExhausted), result.Notes)
				}
			}
		})
	}
}
