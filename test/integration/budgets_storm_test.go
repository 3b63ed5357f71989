// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
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

// remediationsAtOnce follows the remediation objects of a scenario. The result tells how many there
// were at the same time at most, and how many in total.
func (s *scenario) remediationsAtOnce() func() (most, total int) {
	s.t.Helper()
	list, err := s.crClient().List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	watcher, err := s.crClient().Watch(s.t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(s.t, err)
	var mu sync.Mutex
	present, most, total := map[string]bool{}, 0, 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() { // All of them, in the order in which they were stored.
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			mu.Lock()
			if event.Type == watch.Added {
				total++
			}
			if present[object.GetName()] = true; event.Type == watch.Deleted {
				delete(present, object.GetName())
			}
			most = max(most, len(present))
			mu.Unlock()
		}
	}()
	s.t.Cleanup(func() { watcher.Stop(); <-done })
	return func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return most, total
	}
}

// TestBudgetFlappingReporter: something reports again and again that most nodes fail and recover.
// At no instant are more under remediation than the budget permits (spec B3.2).
func TestBudgetFlappingReporter(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	nodes := names("n", 30)
	s.each(nodes, func(node string) { s.createNodes(node) })
	s.createBudget(maxConcurrent(3))
	s.createNHC()
	s.eventuallyCounts(30, 30)
	counted := s.remediationsAtOnce()
	for round := range 6 {
		s.each(nodes[:18], s.fail)
		s.eventually("some are under remediation", func() bool { return len(s.crs()) > 0 })
		s.each(nodes[:18], s.heal)
		s.eventually("some have recovered", func() bool { _, total := counted(); return total-len(s.crs()) > round })
	}
	s.eventuallyNoneListed()
	s.eventually("none is left", func() bool { return len(s.crs()) == 0 })
	most, total := counted()
	require.LessOrEqual(t, most, 3)
	require.GreaterOrEqual(t, total, 6)
	s.eventuallyBudget(30, 0, 0, 3)
}

// TestBudgetEditedInAStorm: a budget is widened, tightened, made a brake and released while many
// nodes fail. Each version binds from two seconds after it was written (spec B4.2).
func TestBudgetEditedInAStorm(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	nodes := names("n", 16)
	s.each(nodes, func(node string) { s.createNodes(node) })
	s.createBudget(maxConcurrent(2))
	s.createNHC()
	running := func() (found []string) {
		for _, cr := range s.crs() {
			found = append(found, strings.TrimPrefix(cr.GetName(), s.name+"-"))
		}
		return found
	}
	eventuallyRunning := func(n int) []string {
		t.Helper()
		s.eventually(fmt.Sprintf("%d are under remediation", n), func() bool { return len(running()) == n })
		return running()
	}
	healAll := func(nodes []string) {
		t.Helper()
		for _, node := range nodes {
			s.heal(node)
			s.eventuallyNoCR(node)
		}
	}
	s.each(nodes, s.fail)
	eventuallyRunning(2)
	s.updateBudget(maxConcurrent(5))
	first := eventuallyRunning(5)
	s.updateBudget(maxConcurrent(1))
	s.eventually("the budget is evaluated anew", func() bool { return s.budget().Status.ObservedGeneration == 3 })
	healAll(first[:4])
	require.Equal(t, first[4:], running(), "B4.2: it is stricter now")

	s.updateBudget(func(spec *v1alpha1.RemediationBudgetSpec) { spec.MaxConcurrent = new(intstr.FromString("0%")) })
	braked := time.Now()
	healAll(first[4:])
	s.pass(braked.Add(4 * time.Second))
	released := time.Now()
	s.updateBudget(maxConcurrent(3))
	begun := s.requests(func(r localkube.Request) bool {
		return r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && r.Verb == "create" && r.Time.After(braked.Add(2*time.Second)) && r.Time.Before(released)
	})
	require.Empty(t, begun, "B4.2: the brake")
	for left := len(nodes) - 5; left > 0; {
		some := eventuallyRunning(min(3, left))
		healAll(some)
		left -= len(some)
	}
	s.eventuallyNoneListed()
	require.True(t, slices.Equal(nil, running()))
}
