// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

func healthyDelay(delay time.Duration) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.HealthyDelay = &metav1.Duration{Duration: delay} }
}

// newDelayed returns a scenario with nodes that are healthy again, but delayed.
func newDelayed(t *testing.T, delay time.Duration, names ...string) *scenario {
	t.Helper()
	s := newScenario(t, sharedCluster(t))
	s.createNodes(names...)
	s.createNHC(healthyDelay(delay))
	s.beginDelay(names...)
	return s
}

// beginDelay has nodes fail and become healthy again.
func (s *scenario) beginDelay(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.fail(name)
	}
	for _, name := range names {
		s.eventuallyCR(name)
		s.heal(name)
	}
	for _, name := range names {
		s.eventuallyDelayed(name)
	}
}

// eventuallyDelayed waits until a node is delayed, and returns since when.
func (s *scenario) eventuallyDelayed(name string) time.Time {
	s.t.Helper()
	s.eventually("node "+name+" is delayed", func() bool {
		entry := s.entry(name)
		return entry != nil && entry.HealthyDelayed != nil
	})
	entry := s.entry(name)
	require.True(s.t, *entry.HealthyDelayed, "16.4: true or absent")
	require.NotNil(s.t, entry.ConditionsHealthyTimestamp)
	return entry.ConditionsHealthyTimestamp.Time
}

// requireDelayed requires that nothing has become of a delayed node yet.
func (s *scenario) requireDelayed(name string) {
	s.t.Helper()
	cr := s.cr(name)
	require.NotNil(s.t, cr)
	require.Nil(s.t, cr.GetDeletionTimestamp(), "16.4")
	require.NotContains(s.t, cr.GetAnnotations(), v1alpha1.AnnotationTimedOut)
	s.requireOnly(name, cr)
	require.True(s.t, *s.entry(name).HealthyDelayed, "16.4")
	require.Empty(s.t, s.crRequests("delete", name), "16.4")
	require.Equal(s.t, v1alpha1.PhaseRemediating, s.status().Phase, "16.2")
}

// confirm confirms by hand that a node is healthy.
func (s *scenario) confirm(name string, value any) {
	s.t.Helper()
	s.patch(s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), s.node(name),
		metadataPatch("annotations", map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: value}))
}

func (s *scenario) confirmed(name string) bool {
	s.t.Helper()
	_, confirmed := s.nodeObject(name).Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	return confirmed
}

func (s *scenario) nodeObject(name string) *corev1.Node {
	s.t.Helper()
	node, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), s.node(name), metav1.GetOptions{})
	require.NoError(s.t, err)
	return node
}

// backDateHealth has a node be healthy for longer than it is, as far as its condition
// and status tell.
func (s *scenario) backDateHealth(name string, age time.Duration) {
	s.t.Helper()
	since := time.Now().Add(-age)
	s.setCondition(name, corev1.NodeReady, corev1.ConditionTrue, since)
	s.catchUpNodes()
	status := s.status()
	for i := range status.UnhealthyNodes {
		if status.UnhealthyNodes[i].Name == s.node(name) {
			status.UnhealthyNodes[i].ConditionsHealthyTimestamp = new(metav1.NewTime(since.Truncate(time.Second)))
		}
	}
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
		map[string]any{"status": map[string]any{"unhealthyNodes": status.UnhealthyNodes}}, "status")
}

// TestHealthyDelay: how long a node has to stay healthy (spec 16.2, 16.4). TestPlanHealthyDelay has the other
// values, and the simulation has them change while delays run.
func TestHealthyDelay(t *testing.T) {
	t.Parallel()
	const delay = 15 * time.Second // Long enough for a slow machine to see it run.
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC(healthyDelay(delay))
	s.fail("a")
	s.eventuallyCR("a")
	require.Nil(t, s.entry("a").HealthyDelayed, "16.4: true or absent")
	s.setFinalizers("a", rungFinalizer)
	s.heal("a")
	since := s.eventuallyDelayed("a")
	require.False(t, since.Before(s.transition("a")), "16.4: when it is first seen healthy")
	s.eventuallyCounts(2, 1)
	s.eventuallyDeleting("a")
	s.requireRequests("delete", "a", 1)
	require.False(t, s.crRequests("delete", "a")[0].Time.Before(since.Add(delay)), "16.4: at timestamp + delay")
	s.eventually("healthyDelayed is gone", func() bool { return s.entry("a").HealthyDelayed == nil })
	require.Equal(t, since.UTC(), s.entry("a").ConditionsHealthyTimestamp.UTC(), "16.4: it stays")
	s.eventuallyCounts(2, 1)
	s.setFinalizers("a")
	s.eventuallyCounts(2, 2)
	require.Empty(t, s.listed())
	require.Len(t, s.crRequests("delete", "a"), 1)
}

// TestHealthyDelayChanged: the current value applies to running delays (spec 16.5).
func TestHealthyDelayChanged(t *testing.T) {
	t.Parallel()
	s := newDelayed(t, 2*time.Hour, "a", "b")
	s.backDateHealth("a", time.Hour)
	s.updateNHC(healthyDelay(30 * time.Minute))
	s.eventuallyNoCR("a")
	s.eventually("no entry", func() bool { return s.entry("a") == nil })
	s.requireDelayed("b")
}

// TestManualConfirmation ends the delay of one node (spec 16.6, 11.2).
func TestManualConfirmation(t *testing.T) {
	t.Parallel()
	t.Run("16.6-any-value", func(t *testing.T) {
		t.Parallel()
		s := newDelayed(t, -time.Second, "a", "b")
		s.setFinalizers("a", rungFinalizer)
		before := s.nodeObject("a")
		s.confirm("a", "false") // Any value.
		s.eventuallyDeleting("a")
		s.eventually("healthyDelayed is cleared", func() bool { return s.entry("a").HealthyDelayed == nil })
		s.catchUpNodes()
		require.True(t, s.confirmed("a"), "16.6: as long as there is a CR for it")
		s.setFinalizers("a")
		s.eventually("the confirmation is removed", func() bool { return !s.confirmed("a") })
		s.eventually("no entry", func() bool { return s.entry("a") == nil })
		s.requireDelayed("b")

		after := s.nodeObject("a")
		for _, node := range []*corev1.Node{before, after} {
			node.ResourceVersion, node.ManagedFields = "", nil
		}
		require.Equal(t, before, after, "11.2: that one key")
		patches := s.requests(func(r localkube.Request) bool { return isWrite(r) && r.Resource == "nodes" && r.Name == s.node("a") })
		require.Len(t, patches, 1)
		require.True(t, s.crRequests("delete", "a")[0].Time.Before(patches[0].Time), "16.6: the request for deletion always comes first")

		// It was for this episode only.
		s.beginDelay("a")
		s.requireOnly("a", s.cr("a"))
		require.Nil(t, s.cr("a").GetDeletionTimestamp())
	})
	t.Run("16.6-of-whichever-NodeHealthCheck", func(t *testing.T) {
		t.Parallel()
		s := newDelayed(t, -time.Second, "a")
		other := s.otherScenario()
		other.createTemplate(usualTemplate())
		other.createNHC(healthyDelay(-time.Second), func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}
		})
		theirs := other.ownCR(s.node("a"))
		other.setFinalizersOf(theirs.GetName(), rungFinalizer)
		other.eventually("both remediate", func() bool { return *other.status().RemediatingNodes == 1 })
		s.confirm("a", "")
		s.eventuallyNoCR("a")
		s.eventuallyCounts(1, 1)
		other.eventually("the other one has ended the delay, too", func() bool { return other.status().UnhealthyNodes[0].HealthyDelayed == nil })
		s.catchUpNodes()
		require.True(t, s.confirmed("a"), "16.6: a CR is left")
		other.setFinalizersOf(theirs.GetName())
		s.eventually("the confirmation is removed", func() bool { return !s.confirmed("a") })
		other.eventuallyCounts(1, 1)
	})
}

// otherScenario returns a scenario for another NodeHealthCheck.
func (s *scenario) otherScenario() *scenario {
	s.t.Helper()
	return newEmptyScenario(s.t, s.cluster, s.t.Name()+"/other", s.kind)
}

// ownCR creates a CR that the NodeHealthCheck owns, but did not create.
func (s *scenario) ownCR(node string) *metav1.PartialObjectMetadata {
	s.t.Helper()
	cr := s.createForeignCR(node, map[string]string{v1alpha1.AnnotationNodeName: node, v1alpha1.AnnotationTemplateName: s.name})
	owner := map[string]any{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": v1alpha1.Kind, "name": s.name, "uid": s.get().UID}
	s.patch(s.crClient(), node, map[string]any{"metadata": map[string]any{"ownerReferences": []any{owner}}})
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: cr.GetName(), UID: cr.GetUID()}}
}

// setFinalizersOf replaces the finalizers of a CR.
func (s *scenario) setFinalizersOf(cr string, finalizers ...string) {
	s.t.Helper()
	s.patch(s.crClient(), cr, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

// TestHealthyDelayCrash: a delay goes on in the next process, unless the node may have failed while there
// was none (spec P8, P11).
func TestHealthyDelayCrash(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	first := c.startController(t, "delay-1", "--leader-elect=false")
	s.createNodes("a", "b", "c")
	s.createNHC(healthyDelay(time.Hour))
	s.beginDelay("a", "b", "c")
	s.backDateHealth("a", 50*time.Minute)
	s.backDateHealth("c", 50*time.Minute)
	s.backDateHealth("b", time.Hour-10*time.Second)
	s.catchUpNodes()
	before := s.status().UnhealthyNodes
	require.NoError(t, first.Kill())
	again := time.Now().Truncate(time.Second)
	s.setCondition("c", corev1.NodeReady, corev1.ConditionTrue, again)
	second := c.startController(t, "delay-2", "--leader-elect=false")
	eventuallyReady(t, second)
	s.eventuallyNoCR("b")
	s.eventually("no entry", func() bool { return s.entry("b") == nil })
	require.Equal(t, before[0], *s.entry("a"), "P8")
	s.requireDelayed("a")
	s.eventually("P11: the delay begins anew", func() bool { return !s.entry("c").ConditionsHealthyTimestamp.Time.Before(again) })
	s.backDateHealth("a", time.Hour)
	s.eventuallyNoCR("a")
	s.eventuallyCounts(3, 2)
}
