// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// pages are all that a large cluster makes large.
var pages = []string{"/", "/check?name=workers", "/nodes?list=unhealthy-nodes", "/nodes?list=next-to-become-unhealthy", "/history", "/node?name=node-0017", "/node?name=node"}

// large is a cluster with this number of nodes and episodes. Two thirds of the nodes are not healthy.
func large(nodes, episodes int) *view.Snapshot {
	s := &view.Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{workers(), simple("gpu", v1alpha1.PhaseEnabled, 4, 4, "50%")}}
	status := &s.NodeHealthChecks[0].Status
	status.UnhealthyNodes, status.RemediationHistory = nil, nil
	for i := range nodes {
		name := fmt.Sprintf("node-%04d", i)
		switch i % 3 {
		case 0:
			s.Nodes = append(s.Nodes, node(name, corev1.ConditionTrue, time.Hour))
		case 1:
			s.Nodes = append(s.Nodes, node(name, corev1.ConditionUnknown, 3*time.Minute))
		default:
			s.Nodes = append(s.Nodes, node(name, corev1.ConditionUnknown, 9*time.Minute))
			status.UnhealthyNodes = append(status.UnhealthyNodes, unhealthy(name, 9*time.Minute, decision(v1alpha1.DecidedBudgetExhausted, "zones eu-1a: 1 of at most 1 nodes are under remediation. Ask the platform team", nil)))
		}
	}
	for i := range episodes {
		detected := time.Duration(i) * time.Hour
		status.RemediationHistory = append(status.RemediationHistory, episode(fmt.Sprintf("node-%04d", i%nodes), detected+time.Hour, time.Minute, time.Hour, v1alpha1.OutcomeRecovered, step("PowerCycleRemediation", detected+59*time.Minute, time.Minute, v1alpha1.StepRecovered)))
	}
	return s
}

// TestLargeCluster: pages have bounded rows, and say how many are elsewhere.
func TestLargeCluster(t *testing.T) {
	t.Parallel()
	d := newDashboard(newSource(large(5000, 2000)))
	for _, target := range pages {
		answer := get(t, d, target)
		require.Less(t, answer.Body.Len(), 1<<20, target)
		t.Logf("%s: %d kB", target, answer.Body.Len()>>10)
	}
	overview := read(t, d, "/")
	require.Contains(t, overview, `<a href="nodes?list=unhealthy-nodes">Show each of the 1666</a>`)
	require.Contains(t, overview, "<td>1666 nodes</td>", "they wait for the same")
	require.Contains(t, overview, "1642 of 1667 are not shown here.")
	require.Contains(t, read(t, d, "/check?name=workers"), `<a href="nodes?check=workers&amp;list=unhealthy-nodes">Show each of the 1666</a>`)
	seen := map[string]bool{}
	for part := 1; part <= 9; part++ {
		page := read(t, d, fmt.Sprintf("/nodes?list=unhealthy-nodes&page=%d", part))
		for line := range strings.SplitSeq(page, "\n") {
			if _, name, found := strings.Cut(line, `<td><a href="node?name=`); found {
				seen[name[:len("node-0000")]] = true
			}
		}
		require.Equal(t, part < 9, strings.Contains(page, `rel="next"`))
		require.Equal(t, part > 1, strings.Contains(page, `rel="prev"`))
	}
	require.Len(t, seen, 1666, "each is on one of the pages")
	require.Contains(t, read(t, d, "/nodes?list=unhealthy-nodes&page=99"), "1601 to 1666 of 1666 rows")
	require.Contains(t, read(t, d, "/history?page=2"), "51 to 100 of 2000 nodes")
}
