// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestControlPlaneRace has ten control plane nodes fail at once, that ten
// NodeHealthChecks with four kinds select, and two more that select all of them. Seen
// from outside, there are never two under remediation (spec 12.2, P6).
func TestControlPlaneRace(t *testing.T) {
	t.Parallel()
	const rounds, members = 3, 10
	c := exclusiveCluster(t)
	kinds := append(slices.Clone(rungKinds), powerCycle)
	first := newEmptyScenario(t, c, t.Name(), powerCycle)
	first.installRungs()
	c.startController(t, "race", "--leader-elect=false", "--concurrent-syncs=12")
	nodes := make([]*scenario, members)
	for i := range nodes {
		nodes[i] = newControlPlaneScenario(t, c, strconv.Itoa(i), kinds[i%len(kinds)])
		nodes[i].createControlPlane("cp")
		nodes[i].labelNode("cp", map[string]any{"test.nhc-controller.io/race": ""})
		nodes[i].createNHC()
	}
	for i := range 2 {
		all := newControlPlaneScenario(t, c, "all"+strconv.Itoa(i), kinds[i])
		all.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"test.nhc-controller.io/race": ""}}
		})
		all.eventuallyCounts(members, members)
	}
	ctx, cancel := context.WithCancel(t.Context())
	history := recordCRs(t, ctx, c, kinds)
	for range rounds {
		var wg sync.WaitGroup
		for _, s := range nodes {
			wg.Go(func() { s.fail("cp") })
		}
		wg.Wait()
		for range members {
			// The remediator repairs the node that has a CR.
			var repaired *scenario
			patience.Eventually(t, "a control plane node under remediation", func() bool {
				crs := history.existing()
				if len(crs) != 1 {
					return false
				}
				for _, s := range nodes {
					if s.node("cp") == crs[0] {
						repaired = s
					}
				}
				return repaired != nil
			})
			name := repaired.node("cp")
			repaired.heal("cp")
			patience.Eventually(t, "it has recovered", func() bool { return !slices.Contains(history.existing(), name) })
		}
	}
	for _, s := range nodes {
		s.eventuallyCounts(1, 1)
	}
	cancel()
	history.wg.Wait()
	require.Equal(t, rounds*members, history.requireOneAtATime(t))
}

// crHistory is what the API server told of CRs. The kinds share one storage, so that
// resource versions order what happened.
type crHistory struct {
	wg     sync.WaitGroup
	mu     sync.Mutex
	events []crEvent
}

type crEvent struct {
	version uint64
	created bool // Else it is gone.
	node    string
	cr      string
}

// recordCRs follows all CRs of some kinds, until ctx is done.
func recordCRs(t *testing.T, ctx context.Context, c *cluster, kinds []remediationKind) *crHistory { //nolint:revive // t comes first here
	t.Helper()
	h := &crHistory{}
	for _, kind := range kinds {
		client := c.dynamic.Resource(kind.remediations)
		list, err := client.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
		watcher, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		require.NoError(t, err)
		h.wg.Go(func() {
			defer watcher.Stop()
			for event := range watcher.ResultChan() {
				h.add(event)
			}
		})
	}
	return h
}

func (h *crHistory) add(event watch.Event) {
	cr, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Modified {
		return
	}
	version, err := strconv.ParseUint(cr.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, crEvent{
		version: version, created: event.Type == watch.Added,
		node: cr.GetAnnotations()[v1alpha1.AnnotationNodeName], cr: cr.GetKind() + " " + cr.GetNamespace() + "/" + cr.GetName(),
	})
	slices.SortFunc(h.events, func(a, b crEvent) int { return int(int64(a.version) - int64(b.version)) })
}

// existing returns the nodes of the CRs that exist.
func (h *crHistory) existing() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	exist := map[string]string{}
	for _, event := range h.events {
		if event.created {
			exist[event.cr] = event.node
		} else {
			delete(exist, event.cr)
		}
	}
	var nodes []string
	for _, node := range exist {
		nodes = append(nodes, node)
	}
	return nodes
}

// requireOneAtATime requires that no two nodes were under remediation at a time, and
// returns the number of remediations.
func (h *crHistory) requireOneAtATime(t *testing.T) int {
	t.Helper()
	created := 0
	exist := map[string]string{}
	for _, event := range h.events {
		if !event.created {
			delete(exist, event.cr)
			continue
		}
		created++
		for other := range exist {
			t.Errorf("12.2: %s is created while %s exists", event.cr, other)
		}
		exist[event.cr] = event.node
	}
	require.Empty(t, exist)
	return created
}
