// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestNodeDeleted: the CR of a deleted node is told to stop and deleted, and status
// forgets it at once (spec 17.2, 17.4, 13.8).
func TestNodeDeleted(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	s.setFinalizers("a", hold)
	s.deleteNode("a")
	marked := s.eventuallyTimedOut("a")
	require.Equal(t, cr.GetUID(), marked.GetUID())
	s.eventuallyDeleting("a")
	s.eventuallyCounts(1, 1)
	s.eventuallyListed(map[string]int{}) // Without waiting for the finalizer.
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
	require.Equal(t, int32(0), *s.status().RemediatingNodes)
	s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+s.node("a"))
	s.catchUp()
	require.Empty(t, s.listed(), "17.4")
	s.requireRequests("patch", "a", 1, "13.8: written once")
	s.requireRequests("delete", "a", 1)
	require.Empty(t, s.eventsAbout("Node", s.node("a"), "RemediationRemoved"), "19.1: a deleted Node gets none")

	s.setFinalizers("a")
	s.eventuallyNoCR("a")
	s.catchUp()
	s.requireRequests("create", "a", 1)
	removed := slices.DeleteFunc(s.events("RemediationRemoved"), func(note string) bool { return !strings.HasSuffix(note, s.node("a")) })
	require.Len(t, removed, 1, "16.1: once")
}

// TestNodeReplaced: a remediator that deletes the Node for good finishes first
// (spec 17.3).
func TestNodeReplaced(t *testing.T) {
	t.Parallel()
	const expected = v1alpha1.RemediationPermanentNodeDeletionExpected
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	s.report("a", [2]string{expected, "True"})
	s.catchUp()
	s.deleteNode("a")
	s.eventuallyCounts(1, 1)
	for _, succeeded := range []string{"", "Unknown", "False"} {
		if succeeded != "" {
			s.report("a", [2]string{expected, "True"}, [2]string{v1alpha1.RemediationSucceeded, succeeded})
		}
		s.catchUp()
		now := s.cr("a")
		require.Nil(t, now.GetDeletionTimestamp(), "17.3: Succeeded is %q", succeeded)
		require.NotContains(t, now.GetAnnotations(), v1alpha1.AnnotationTimedOut)
		s.requireOnly("a", cr)
		require.Nil(t, s.entry("a").ConditionsHealthyTimestamp)
		require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	}
	s.report("a", [2]string{expected, "True"}, [2]string{v1alpha1.RemediationSucceeded, "True"})
	s.eventuallyNoCR("a")
	s.eventuallyListed(map[string]int{})
	s.eventuallyCounts(1, 1)
	require.Empty(t, s.crRequests("patch", "a"), "13.8: never with Succeeded=True")
	s.requireRequests("delete", "a", 1)
}

// TestNodeLeaves: a node under remediation that is no longer selected is not counted
// any more, but looked after (spec 7.1, 17.5).
func TestNodeLeaves(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c")
	s.createNHC()
	for _, name := range []string{"a", "b"} {
		s.fail(name)
		s.eventuallyCR(name)
		s.setFinalizers(name, hold)
		s.labelNode(name, map[string]any{scenarioLabel: s.name + "-left"})
		s.atEnd = append(s.atEnd, func(ctx context.Context) {
			_ = s.kube.CoreV1().Nodes().Delete(ctx, s.node(name), metav1.DeleteOptions{})
		})
	}
	a := s.cr("a")
	s.eventuallyCounts(1, 1)
	s.eventuallyListed(map[string]int{"a": 1, "b": 1})
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	s.catchUp()
	require.Equal(t, a.GetResourceVersion(), s.cr("a").GetResourceVersion(), "17.5: it stays")
	s.heal("a")
	s.eventuallyDeleting("a")
	s.eventually("conditionsHealthyTimestamp", func() bool { return s.entry("a").ConditionsHealthyTimestamp != nil })
	s.setFinalizers("a")
	s.eventuallyListed(map[string]int{"b": 1})
	s.eventuallyCounts(1, 1)

	// Nothing new is created for it.
	s.deleteCR("b")
	s.setFinalizers("b")
	s.eventuallyListed(map[string]int{})
	s.catchUp()
	require.Nil(t, s.cr("b"), "17.5")
	s.labelNode("b", map[string]any{scenarioLabel: s.name})
	s.eventuallyCR("b")
	s.eventuallyCounts(2, 1)

	// Deleted after it has left.
	s.labelNode("b", map[string]any{scenarioLabel: s.name + "-left"})
	s.eventuallyCounts(1, 1)
	s.deleteNode("b")
	s.eventuallyNoCR("b")
	s.eventuallyListed(map[string]int{})
}

// TestExclusion (spec 15).
func TestExclusion(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b", "c", "d")
	s.createNHC()
	excluded := func(name string) string {
		return fmt.Sprintf("Remediation skipped on node %s: node has Exclude from Remediation label", s.node(name))
	}
	s.labelNode("a", map[string]any{v1alpha1.LabelExclude: "true"})
	s.labelNode("b", map[string]any{v1alpha1.LabelExclude: "True"})
	s.labelNode("c", map[string]any{v1alpha1.LabelExclude: ""})
	for _, name := range []string{"a", "b", "c"} {
		s.fail(name)
	}
	s.eventuallyCR("b")
	s.eventuallyCR("c")
	s.eventuallyListed(map[string]int{"a": 0, "b": 1, "c": 1})
	s.eventuallyCounts(4, 1)
	s.eventuallyEvent("RemediationSkipped", excluded("a"))
	ignored := fmt.Sprintf("Node %s has exclude-from-remediation label with empty value, label will be ignored. Set value to 'true' to exclude node from remediation", s.node("c"))
	s.eventuallyEvent("InvalidNodeLabel", ignored)
	s.catchUp()
	require.Nil(t, s.cr("a"), "15.1")
	require.Equal(t, []string{excluded("a")}, s.events("RemediationSkipped"), "19.1: once")
	require.Equal(t, []string{excluded("a")}, s.eventsAbout("Node", s.node("a"), "RemediationSkipped"))
	require.Equal(t, []string{ignored}, s.events("InvalidNodeLabel"), "15.2: the empty value only, once")
	require.Equal(t, []string{ignored}, s.eventsAbout("Node", s.node("c"), "InvalidNodeLabel"))

	// Set under remediation: what runs is kept, and ends with the recovery.
	b := s.cr("b")
	s.labelNode("b", map[string]any{v1alpha1.LabelExclude: "true"})
	s.catchUp()
	require.Equal(t, b.GetResourceVersion(), s.cr("b").GetResourceVersion(), "15.3")
	s.deleteCR("b")
	s.eventuallyListed(map[string]int{"a": 0, "b": 0, "c": 1})
	s.catchUp()
	require.Nil(t, s.cr("b"), "15.3: nothing new is created")
	s.eventuallyEvent("RemediationSkipped", excluded("b"))
	s.labelNode("c", map[string]any{v1alpha1.LabelExclude: "true"})
	s.catchUpNodes()
	s.heal("c")
	s.eventuallyNoCR("c")

	// Removed: the node gets its CR.
	s.labelNode("a", map[string]any{v1alpha1.LabelExclude: nil})
	s.eventuallyCR("a")
	s.labelNode("b", map[string]any{v1alpha1.LabelExclude: "false"})
	s.eventuallyCR("b")
	s.requireRequests("create", "c", 1)
}

// TestLongNames: a node name of 253 characters works like any other (spec 11.1).
func TestLongNames(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	name := strings.Repeat("a", 253-len(s.node("")))
	s.createNodes(name)
	s.createNHC()
	s.eventuallyCounts(1, 1)
	s.fail(name)
	require.Len(t, s.eventuallyCR(name).GetName(), 253)
	s.eventuallyEvent("RemediationCreated", "Created remediation object for node "+s.node(name))
	s.eventually("the event about the node", func() bool { return len(s.eventsAbout("Node", s.node(name), "RemediationCreated")) == 1 })
	s.heal(name)
	s.eventuallyNoCR(name)
	s.eventuallyCounts(1, 1)

	// What exceeds that is cut.
	s.deleteTemplate()
	s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
	s.createTemplate(usualTemplate(), v1alpha1.AnnotationMultipleTemplates)
	s.eventuallyEnabled()
	s.fail(name)
	sum := sha256.Sum256([]byte(s.node(name) + "/" + s.name + "/" + s.name))
	want := s.node(name)[:253-9] + "-" + hex.EncodeToString(sum[:])[:8]
	s.eventuallyListed(map[string]int{name: 1})
	require.Equal(t, want, s.entry(name).Remediations[0].Resource.Name)
	s.heal(name)
	s.eventuallyCounts(1, 1)
	require.Empty(t, s.crs())
}

// TestNodeHealthCheckDeleted: its CRs go with it, by garbage collection (spec 4.5,
// 4.8).
func TestNodeHealthCheckDeleted(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	cr := s.eventuallyCR("a")
	s.setFinalizers("a", hold)
	s.deleteNHC()
	s.eventually("garbage collection", func() bool { now := s.cr("a"); return now != nil && now.GetDeletionTimestamp() != nil })
	require.NotContains(t, s.cr("a").GetAnnotations(), v1alpha1.AnnotationTimedOut)

	// Created again with the same name: it owns the existing CRs (spec 1.4).
	s.createNHC()
	s.eventuallyListed(map[string]int{"a": 1})
	s.requireOnly("a", cr)
	s.eventuallyTimedOut("a")
	s.catchUp()
	s.requireRequests("create", "a", 1, "P9")
	s.setFinalizers("a")
	s.eventually("a new CR", func() bool { now := s.cr("a"); return now != nil && now.GetUID() != cr.GetUID() })
	second := s.eventuallyCR("a")
	require.Equal(t, s.get().UID, second.GetOwnerReferences()[0].UID)
	s.requireOnly("a", second)
	s.heal("a")
	s.eventuallyCounts(2, 2)
	s.requireRequests("create", "a", 2)
	s.requireRequests("delete", "a", 1)
}

// TestTerminatingNodeHealthCheck: nothing new is created for one that is being
// deleted (spec 4.8).
func TestTerminatingNodeHealthCheck(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	nhcs := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural))
	s.patch(nhcs, s.name, map[string]any{"metadata": map[string]any{"finalizers": []string{hold}}})
	s.atEnd = append(s.atEnd, func(ctx context.Context) { s.patchMetadata(ctx, nhcs, s.name, map[string]any{"finalizers": nil}) })
	s.fail("b")
	s.eventuallyCR("b")
	s.deleteNHC()
	s.eventually("the deletion was seen", func() bool { return s.status().ObservedGeneration == 2 })
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0, "b": 1})
	s.eventuallyCounts(2, 0)
	s.heal("b")
	s.eventuallyNoCR("b")
	s.eventuallyListed(map[string]int{"a": 0})
	s.setCondition("a", corev1.NodeReady, corev1.ConditionFalse, metav1.Now().Time)
	s.catchUpNodes()
	require.Empty(t, s.crRequests("create", "a"), "4.8")
}
