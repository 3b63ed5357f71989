// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

const (
	decisions, recent = "nhc_node_decision", "nhc_node_recent_remediations"
	failedEpisodes    = "nhc_failed_episodes_total"
)

// TestNodeMetrics: the metrics show what status says about single nodes, also if another process wrote it.
func TestNodeMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, registry := newTestController(t, clock.RealClock{})
		s := &story{registry: registry}
		require.Empty(t, s.values(t, decisions))

		entry := func(node string, decision *v1alpha1.Decision) v1alpha1.UnhealthyNode {
			return v1alpha1.UnhealthyNode{Name: node, Decision: decision}
		}
		running := &v1alpha1.Decision{Type: v1alpha1.DecisionRemediating, Reason: v1alpha1.DecidedStepRunning}
		taken := &v1alpha1.Decision{Type: v1alpha1.DecisionWaiting, Reason: v1alpha1.DecidedLeaseTaken}
		episode := func(node string, ago time.Duration, steps ...v1alpha1.EpisodeStep) v1alpha1.Episode {
			return v1alpha1.Episode{Node: node, Started: new(metav1.NewTime(time.Now().Add(-ago))), Steps: steps}
		}
		reboot := v1alpha1.EpisodeStep{Kind: "RebootRemediation"}
		workers := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
			nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{entry("a", running), entry("b", taken), entry("b", taken), entry("c", nil)}
			nhc.Status.RemediationHistory = []v1alpha1.Episode{
				episode("a", 0, reboot), episode("a", time.Hour, reboot, reboot), episode("a", 24*time.Hour-time.Second, reboot), episode("a", 24*time.Hour, reboot),
				episode("b", 24*time.Hour, reboot), episode("c", 0), {Node: "d"},
			}
		})
		others := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
			nhc.Name = "others"
			nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{entry("b", running)}
		})
		require.NoError(t, c.Checks.Store.Add(workers))
		require.NoError(t, c.Checks.Store.Add(others))
		require.Equal(t, map[string]float64{
			"/a/workers/StepRunning/Remediating": 1, "/b/workers/LeaseTaken/Waiting": 1, "/b/others/StepRunning/Remediating": 1,
		}, s.values(t, decisions), "20.2: an entry twice does not fail the scrape")
		require.Equal(t, map[string]float64{"/a/workers": 3}, s.values(t, recent), "20.2: episodes with a remediation, not steps, nor dry runs")
		time.Sleep(time.Second)
		require.Equal(t, map[string]float64{"/a/workers": 2}, s.values(t, recent), "20.2: without a sync")

		families, err := registry.Gather()
		require.NoError(t, err)
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		require.NoError(t, err)
		require.Empty(t, problems)

		require.NoError(t, c.Checks.Store.Delete(workers))
		require.Equal(t, map[string]float64{"/b/others/StepRunning/Remediating": 1}, s.values(t, decisions), "20.2: series of a deleted NHC are removed")
		require.Empty(t, s.values(t, recent))
	})
}

// TestRemediationsOfNodes: the gauges of the upstream operator do not name the NodeHealthCheck, and only the leader has them.
func TestRemediationsOfNodes(t *testing.T) {
	t.Parallel()
	cr := func(name string, age time.Duration, owners ...string) *unstructured.Unstructured {
		return slotCR(name, func(cr *unstructured.Unstructured) {
			cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: "n"})
			cr.SetCreationTimestamp(metav1.NewTime(epoch.Add(-age)))
			var references []metav1.OwnerReference
			for _, owner := range owners {
				references = append(references, metav1.OwnerReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: owner, UID: types.UID(owner)})
			}
			cr.SetOwnerReferences(references)
		})
	}
	entry := func(node string, uids ...types.UID) v1alpha1.UnhealthyNode {
		entry := v1alpha1.UnhealthyNode{Name: node}
		for _, uid := range uids {
			resource := corev1.ObjectReference{Kind: readableKind.Kind, Namespace: "ns", UID: uid}
			entry.Remediations = append(entry.Remediations, v1alpha1.Remediation{Resource: resource})
		}
		return entry
	}
	remediators := fakeRemediators{
		status: []v1alpha1.UnhealthyNode{entry("n", "1", "2"), entry("m", "3"), entry("o")},
		crs: []*unstructured.Unstructured{
			cr("young", 48*time.Hour-time.Minute, "workers"), cr("old", 48*time.Hour, "workers"), cr("older", 49*time.Hour, "others"),
			cr("foreign", 50*time.Hour, "unknown"), cr("shared", 50*time.Hour, "workers", "others"),
		},
	}
	held := clocktesting.NewFakePassiveClock(epoch)
	for i, cr := range remediators.crs {
		cr.SetUID(types.UID(fmt.Sprint(i)))
	}
	withRemediations(t, remediators, func(_ *testing.T, c *Controller) { c.Clock = held }, func(t *testing.T, c *Controller) {
		t.Helper()
		others := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
			nhc.Name, nhc.Status.UnhealthyNodes = "others", []v1alpha1.UnhealthyNode{entry("n", "4")}
		})
		require.NoError(t, c.Checks.Store.Add(others))
		s := &story{registry: prometheus.NewPedanticRegistry()}
		require.NoError(t, s.registry.Register(nodeCollector{c}))
		const ongoing, old = "nodehealthcheck_ongoing_remediation", "nodehealthcheck_old_remediation_cr"
		require.Equal(t, map[string]float64{"/m/ns/RebootRemediation": 1, "/n/ns/RebootRemediation": 1}, s.values(t, ongoing), "20.1: one series for all")
		require.Equal(t, map[string]float64{"/n/": 4}, s.values(t, old), "17.6 20.1: of each NodeHealthCheck, the namespace is empty")
		held.SetTime(epoch.Add(time.Minute))
		require.Equal(t, map[string]float64{"/n/": 5}, s.values(t, old), "17.6: without a sync")

		workers, err := c.nhcs.Get("workers")
		require.NoError(t, err)
		require.NoError(t, c.Checks.Store.Delete(workers))
		require.Equal(t, map[string]float64{"/n/ns/RebootRemediation": 1}, s.values(t, ongoing), "20.1: the other one goes on")
		require.Equal(t, map[string]float64{"/n/": 2}, s.values(t, old))
		require.NoError(t, c.Checks.Store.Update(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Name = "others" })))
		require.Empty(t, s.values(t, ongoing), "20.1: deleted when it has ended")
	})
}

// TestFailedEpisodes: a remediation that failed counts once no later one has helped.
func TestFailedEpisodes(t *testing.T) {
	t.Parallel()
	second := func(cr *object.CR) {
		cr.Kind, cr.CreationTimestamp = "FenceRemediation", metav1.NewTime(epoch.Add(time.Minute))
	}
	fence, marked := testCR("n", "2", second), testCR("n", "2", second, crMarked)
	first := testCR("n", "1", crMarked)
	for name, tc := range map[string]struct {
		syncs [][]part
		want  map[string]float64
	}{
		"the only step timed out": {
			syncs: [][]part{{sick("n", own(first))}, {well("n")}},
			want:  map[string]float64{"/workers/RebootRemediation": 1},
		},
		"each step timed out": {
			syncs: [][]part{{sick("n", own(first))}, {sick("n", own(first, marked))}, {well("n")}},
			want:  map[string]float64{"/workers/FenceRemediation": 1},
		},
		"a later step repaired the node": {
			syncs: [][]part{{sick("n", own(first))}, {sick("n", own(first, fence))}, {well("n", own(fence), deleted(fence))}, {well("n")}},
		},
		"the remediation helped":       {syncs: [][]part{{sick("n", own(testCR("n", "1")))}, {well("n")}}},
		"nothing was done":             {syncs: [][]part{{sick("n")}, {well("n")}}},
		"it is not over":               {syncs: [][]part{{sick("n", own(first))}, {sick("n", own(first))}}},
		"the node was deleted instead": {syncs: [][]part{{sick("n", own(testCR("n", "1")))}, {sick("n", nodeDeleted)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			for _, parts := range tc.syncs {
				s.sync(parts...)
			}
			got := s.values(t, failedEpisodes)
			require.Equal(t, tc.want, got, "20.2")
		})
	}
}
