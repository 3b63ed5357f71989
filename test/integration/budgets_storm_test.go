// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// names returns a number of names with the same beginning.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return all
}

// each does something with many nodes, several at a time.
func (s *scenario) each(nodes []string, do func(node string)) {
	s.t.Helper()
	workqueue.ParallelizeUntil(s.t.Context(), 8, len(nodes), func(i int) { do(nodes[i]) })
}

// heldByBudget returns how many nodes wait for a budget.
func (s *scenario) heldByBudget() (n int) {
	for _, entry := range s.status().UnhealthyNodes {
		if entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedBudgetExhausted {
			n++
		}
	}
	return n
}

// TestBudgetZoneFails: with the sample for zones, a zone that fails as a whole is left alone, and the others are not.
// When it has been back for a while, its unhealthy nodes are remediated (spec B3.3, B3.6, B4.2).
func TestBudgetZoneFails(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startController(t, "zones")
	s := newScenario(t, c)
	zones := map[string][]string{}
	for _, zone := range []string{"a", "b", "c"} {
		zones[zone] = names(zone, 100)
		s.each(zones[zone], func(node string) {
			s.createNodes(node)
			s.patchNode(node, "labels", map[string]any{zoneLabel: "zone-" + zone})
		})
	}
	_, err := s.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "manifests", "samples", "budget-zones.yaml"))
	require.NoError(t, err)
	s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.PauseRequests = []string{"until the zone has failed as a whole"}
	})
	s.eventuallyCounts(300, 300)
	s.each(zones["a"], s.fail)
	s.eventuallyCounts(300, 200)
	s.updateNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = nil })
	s.eventually("the zone waits", func() bool { return s.heldByBudget() == 100 })
	require.Equal(t, "zones zone-a: 100 of at most 30 nodes are not healthy. A failure of the zone, which remediation does not repair (1st of 100 that wait)", s.entry("a000").Decision.Message)
	s.fail("b007")
	s.eventuallyCR("b007")
	s.eventually("the budget says so", func() bool {
		text, err := s.Kubectl(t.Context(), "get", "rbudget", "zones", `-o=jsonpath={.status.groups[0].name} {.status.groups[0].unhealthyNodes} {.status.conditions[?(@.type=="Exhausted")].message}`)
		return err == nil && strings.HasPrefix(text, "zone-a 100 100 nodes wait: "+s.node("a000")+", ") && strings.HasSuffix(text, " and 90 more")
	})
	require.Len(t, s.crs(), 1)

	s.each(zones["a"][2:], s.heal)
	s.eventually("FR-338: the last ones may still be booting", func() bool {
		return s.heldByBudget() == 2 && strings.HasPrefix(s.entry("a000").Decision.Message, "zones zone-a: cooldown, next begin at ")
	})
	_, err = s.Kubectl(t.Context(), "patch", "rbudget", "zones", "--type=merge", "--patch", `{"spec": {"cooldown": "5s"}}`)
	require.NoError(t, err)
	for _, node := range zones["a"][:2] {
		s.eventuallyCR(node)
		s.heal(node)
	}
	s.heal("b007")
	s.eventuallyNoneListed()
	created := 0
	for _, request := range s.requests(func(r localkube.Request) bool {
		return r.Resource == s.kind.remediations.Resource && r.Verb == "create"
	}) {
		if strings.HasPrefix(request.Name, s.node("a")) {
			created++
		}
	}
	require.Equal(t, 2, created, "B3.6: no other one begins, not even when few are left")
	_, err = s.Kubectl(t.Context(), "delete", "rbudget", "zones")
	require.NoError(t, err)
}
