// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

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

// BenchmarkReplay reads and replays 10,000 transitions of 1,000 nodes: one node after the other fails for
// ten minutes, every half minute, or a hundred of them within a minute, every hour.
func BenchmarkReplay(b *testing.B) {
	const all, failures, outage = 1000, 5000, 10 * time.Minute
	for name, failed := range map[string]func(i int) time.Duration{
		"one by one": func(i int) time.Duration { return time.Duration(i) * 30 * time.Second },
		"storms": func(i int) time.Duration {
			return time.Duration(i/100)*time.Hour + time.Duration(i%100)*time.Minute/100
		},
	} {
		b.Run(name, func(b *testing.B) {
			var ready []*corev1.Node
			nodeName := func(i int) string { return fmt.Sprintf("node-%03d", i%all) }
			for i := range all {
				ready = append(ready, node(nodeName(i), nil))
			}
			at := func(i int) time.Duration { return time.Minute + failed(i).Truncate(time.Second) }
			var events []changes
			recovered := 0
			for i := range failures {
				for ; recovered < i && at(recovered)+outage <= at(i); recovered++ {
					events = append(events, becomes(nodeName(recovered), corev1.ConditionTrue, at(recovered)+outage))
				}
				events = append(events, becomes(nodeName(i), corev1.ConditionUnknown, at(i)))
			}
			for ; recovered < failures; recovered++ {
				events = append(events, becomes(nodeName(recovered), corev1.ConditionTrue, at(recovered)+outage))
			}
			stream := streamOf(b, ready, events...)
			b.ReportAllocs()
			for b.Loop() {
				from, err := ReadRecording(strings.NewReader(stream))
				require.NoError(b, err)
				if result := Run(replayOf(from, unhealthyAfter(5*time.Minute))); result.Summary.Remediations != failures {
					b.Fatal(result.Summary, result.Notes)
				}
			}
		})
	}
}
