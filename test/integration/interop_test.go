// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestInterop has the real kinds of the remediators that users run, and small
// stand-ins for what these do (the numbers are those of the list of what is easy to get
// wrong with them).
func TestInterop(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	installRealRemediators(t, c)
	c.startController(t, "interop", "--leader-elect=false")

	for name := range realRemediators {
		t.Run("11.1-"+name+"-accepts-what-is-rendered", func(t *testing.T) { testRendered(t, c, name) })
	}
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"interop-9-FAR-fails-at-once-and-MDR-is-next", testMDRAfterFAR},
		{"interop-8-FAR-denies-the-annotation", testFARDeniesTheAnnotation},
		{"interop-7-FAR-has-succeeded", testFARHasSucceeded},
		{"interop-6-SNR-is-released-by-the-annotation", testSNRIsReleased},
		{"interop-1-CUR-runs-at-every-write", testCURRunsAtEveryWrite},
		{"interop-14-the-node-is-cordoned-and-recreated", testMetal3RecreatesTheNode},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c) })
	}
}

// testRendered: the schema of a remediator accepts its CR (spec 11.1, 11.2).
func testRendered(t *testing.T, c *cluster, name string) {
	s, steps := newRealScenario(t, c, name)
	step := steps[0]
	s.createNodes("a.example.com", "b")
	s.createNHC(classicStep(step))
	s.fail("a.example.com")
	cr := step.eventuallyCROf("a.example.com")
	spec, _, err := unstructured.NestedMap(step.template.Object, "spec", "template", "spec")
	require.NoError(t, err)
	require.Equal(t, spec, cr.Object["spec"], "11.1")
	_, several := step.template.GetAnnotations()[v1alpha1.AnnotationMultipleTemplates]
	require.Equal(t, slices.Contains([]string{"cur", "far", "snr"}, name), several)
	require.Equal(t, several, cr.GetName() != s.node("a.example.com"), "interop 2: MDR, SBR and Metal3 find the node by name")
	require.Len(t, cr.GetOwnerReferences(), 1)
	require.Empty(t, cr.GetFinalizers())
	require.Empty(t, cr.GetGenerateName(), "11.1")
	s.heal("a.example.com")
	step.eventuallyGone("a.example.com")
	require.Len(t, step.writes("create"), 1)
	require.Empty(t, step.writes("patch", "update"), "11.2")
}

// testMDRAfterFAR: FAR fails at once, and MDR replaces the node (spec 13.3, 17.2, 17.3).
func testMDRAfterFAR(t *testing.T, c *cluster) {
	s, steps := newRealScenario(t, c, "far", "mdr")
	far, mdr := steps[0], steps[1]
	far.runFAR("False")
	mdr.run(func(event watch.EventType, cr *unstructured.Unstructured) {
		if event != watch.Added {
			return
		}
		// MDR knows the node by the name of its CR.
		if _, err := mdr.kube.CoreV1().Nodes().Get(mdr.t.Context(), cr.GetName(), metav1.GetOptions{}); err != nil {
			mdr.tell(cr, [2]string{"Processing", "False"}, [2]string{v1alpha1.RemediationSucceeded, "False"})
			return
		}
		mdr.tell(cr, [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationPermanentNodeDeletionExpected, "Unknown"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"})
	})
	s.createNodes("a", "b")
	s.createNHC(escalatingSteps(steps))
	s.fail("a")
	replacing := mdr.eventuallyCROf("a")
	failed := far.crOf("a")
	s.requireTimedOut(failed)
	require.Equal(t, []string{realFinalizer}, failed.GetFinalizers(), "13.3: it stays")
	entry := s.entry("a")
	require.Len(t, entry.Remediations, 2)
	require.Equal(t, failed.GetUID(), entry.Remediations[0].Resource.UID)
	require.NotNil(t, entry.Remediations[0].TimedOut)
	require.Empty(t, s.events("NoTemplateLeft"), "interop 2: MDR has found its node")
	require.Equal(t, s.node("a"), replacing.GetName())

	// MDR deletes the Machine, and the Node goes with it (interop 11).
	s.patch(mdr.crClient(), replacing.GetName(), realConditions(
		[2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationPermanentNodeDeletionExpected, "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"}), "status")
	s.createNodes("canary")
	s.fail("canary")
	mdr.eventuallyCROf("canary") // The MDR of the canary was reported after ours.
	mdr.eventually("the canary is being replaced", func() bool {
		list, _, _ := unstructured.NestedSlice(mdr.crOf("canary").Object, "status", "conditions")
		return len(list) > 0
	})
	s.heal("canary")
	mdr.eventuallyGone("canary")
	s.deleteNode("a")
	s.eventually("FAR's CR does not count any more", func() bool { return len(s.entry("a").Remediations) == 1 })
	require.Nil(t, mdr.crOf("a").GetDeletionTimestamp(), "17.3")
	require.Equal(t, replacing.GetUID(), s.entry("a").Remediations[0].Resource.UID, "17.3")
	require.NotContains(t, mdr.crOf("a").GetAnnotations(), v1alpha1.AnnotationTimedOut, "17.3")
	require.NotNil(t, far.crOf("a").GetDeletionTimestamp(), "17.2, interop 6: it hangs, which is FAR's affair")
	s.patch(mdr.crClient(), replacing.GetName(), realConditions(
		[2]string{"Processing", "False"}, [2]string{v1alpha1.RemediationPermanentNodeDeletionExpected, "True"}, [2]string{v1alpha1.RemediationSucceeded, "True"}), "status")
	s.eventually("all is over", func() bool { return mdr.crOf("a") == nil && s.entry("a") == nil })
	s.eventuallyNoNodeLease("a")
}

// testFARDeniesTheAnnotation, as its webhook does: the next step begins (spec 13.5).
func testFARDeniesTheAnnotation(t *testing.T, c *cluster) {
	s, steps := newRealScenario(t, c, "far", "sbr")
	far, sbr := steps[0], steps[1]
	far.runFAR("False")
	s.createNodes("a")
	s.deny(t, "far-webhook-"+s.name, denial{
		group: far.kind.remediations.Group, resource: far.kind.remediations.Resource, operation: admissionregistrationv1.Update,
		unless: "request.namespace != '" + s.name + "' || !has(object.metadata.annotations) || !('" + v1alpha1.AnnotationTimedOut + "' in object.metadata.annotations)",
		try: func(ctx context.Context, dryRun []string) error {
			probe := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"agent": "fence_dummy"}}}
			probe.SetGroupVersionKind(far.kind.remediations.GroupVersion().WithKind(far.kind.name))
			probe.SetName("probe")
			if _, err := far.crClient().Create(ctx, probe, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			_, err := far.crClient().Patch(ctx, "probe", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationTimedOut+`":""}}}`), metav1.PatchOptions{DryRun: dryRun})
			return err
		},
	})
	s.createNHC(escalatingSteps(steps))
	s.fail("a")
	require.Equal(t, s.node("a"), sbr.eventuallyCROf("a").GetName())
	require.NotContains(t, far.crOf("a").GetAnnotations(), v1alpha1.AnnotationTimedOut)
	require.NotNil(t, s.entry("a").Remediations[0].TimedOut, "13.3")
	s.heal("a")
	sbr.eventuallyGone("a")
	require.Nil(t, far.crOf("a"))
}

// testFARHasSucceeded: its CR is never told that time is up (spec 13.8).
func testFARHasSucceeded(t *testing.T, c *cluster) {
	s, steps := newRealScenario(t, c, "far", "mdr")
	far := steps[0]
	far.runFAR("True")
	s.createNodes("a", "canary")
	s.createNHC(escalatingSteps(steps))
	s.fail("a")
	far.eventuallyCROf("a")
	far.eventuallySucceeded("a")
	s.fail("canary")
	far.eventuallyCROf("canary")
	s.heal("canary")
	far.eventuallyGone("canary")
	require.NotContains(t, far.crOf("a").GetAnnotations(), v1alpha1.AnnotationTimedOut)
	// Somebody deletes it although the node is not healthy yet.
	require.NoError(t, far.crClient().Delete(t.Context(), far.crOf("a").GetName(), metav1.DeleteOptions{}))
	s.eventually("another attempt", func() bool { return len(far.writes("create")) == 3 })
	far.eventuallyCROf("a")
	far.eventuallySucceeded("a") // Before that, a CR of a deleted node is timed out, and rightly.
	s.deleteNode("a")
	s.eventually("no entry", func() bool { return s.entry("a") == nil })
	require.Empty(t, far.writes("patch", "update"), "13.8: never on a CR with Succeeded=True")
}

// testSNRIsReleased: the annotation releases SNR, also if another client deletes its CR (spec 13.8, 17.2).
func testSNRIsReleased(t *testing.T, c *cluster) {
	s, steps := newRealScenario(t, c, "snr")
	snr := steps[0]
	snr.run(func(event watch.EventType, cr *unstructured.Unstructured) {
		_, stopped := cr.GetAnnotations()[v1alpha1.AnnotationTimedOut]
		switch {
		case event == watch.Added:
			snr.holdOn(cr, realFinalizer)
			snr.tell(cr, [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"}) // Without its agent it stays so (interop 10).
		case event == watch.Modified && stopped && len(cr.GetFinalizers()) > 0:
			snr.tell(cr, [2]string{"Processing", "False"}, [2]string{v1alpha1.RemediationSucceeded, "False"})
			snr.holdOn(cr)
		}
	})
	s.createNodes("a", "b")
	s.createNHC(classicStep(snr))
	s.fail("a")
	snr.eventuallyCROf("a")
	s.eventually("its finalizer", func() bool { return len(snr.crOf("a").GetFinalizers()) > 0 })
	s.deleteNode("a")
	snr.eventuallyGone("a")
	// The same when somebody deletes it while the node is unhealthy.
	s.fail("b")
	old := snr.eventuallyCROf("b")
	s.eventually("its finalizer", func() bool { return len(snr.crOf("b").GetFinalizers()) > 0 })
	require.NoError(t, snr.crClient().Delete(t.Context(), old.GetName(), metav1.DeleteOptions{}))
	s.eventually("a new CR", func() bool { cr := snr.crOf("b"); return cr != nil && cr.GetUID() != old.GetUID() })
	require.Len(t, snr.writes("patch", "update"), 2)
}

// testCURRunsAtEveryWrite of its CR, so that there is to be none (spec 11.2).
func testCURRunsAtEveryWrite(t *testing.T, c *cluster) {
	s, steps := newRealScenario(t, c, "cur", "sbr")
	cur := steps[0]
	var mu sync.Mutex
	runs := map[types.UID]int{}
	cur.run(func(event watch.EventType, cr *unstructured.Unstructured) {
		mu.Lock()
		defer mu.Unlock()
		if event != watch.Deleted && cr.GetDeletionTimestamp() == nil {
			runs[cr.GetUID()]++
		}
	})
	ran := func(cr *unstructured.Unstructured) int {
		mu.Lock()
		defer mu.Unlock()
		return runs[cr.GetUID()]
	}
	s.createNodes("a", "b", "c")
	s.createNHC(escalatingSteps(steps))
	for _, name := range []string{"a", "b"} {
		s.fail(name)
		cur.eventuallyCROf(name)
	}
	cr := cur.crOf("a")
	// Whatever makes the controller look at it again.
	s.patchStatus(nil)
	cur.eventuallyCROf("a")
	s.updateNHC(pause("test"))
	s.updateNHC(pause())
	s.labelNode("a", map[string]any{v1alpha1.LabelExclude: "true"})
	s.labelNode("a", map[string]any{v1alpha1.LabelExclude: nil})
	s.fail("a")
	s.fail("c")
	cur.eventuallyCROf("c")
	require.Equal(t, cr.GetResourceVersion(), cur.crOf("a").GetResourceVersion(), "11.2: a CR is written once")
	require.Equal(t, 1, ran(cr), "11.2")
	// CUR never reports how it ended: somebody else's Succeeded stands for the timeout.
	s.patch(cur.crClient(), cr.GetName(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationTimedOut: metav1.Now().UTC().Format(time.RFC3339)}}})
	steps[1].eventuallyCROf("a")
	s.heal("b")
	s.eventually("no entry", func() bool { return s.entry("b") == nil })
	require.Equal(t, 2, ran(cr), "11.2: nothing but nhc-timed-out")
	s.heal("a")
	cur.eventuallyGone("a")
	require.Len(t, cur.writes("create"), 3)
	require.Empty(t, cur.writes("patch", "update"))
}

// testMetal3RecreatesTheNode: the CR counts again with the new Node (spec 17.4, P9).
func testMetal3RecreatesTheNode(t *testing.T, c *cluster) {
	s, steps := newRealScenario(t, c, "metal3")
	metal3 := steps[0]
	metal3.run(func(event watch.EventType, cr *unstructured.Unstructured) {
		if event == watch.Added {
			metal3.holdOn(cr, realFinalizer)
		}
	})
	s.createNodes("a", "b")
	s.createNHC(classicStep(metal3))
	s.fail("a")
	cr := metal3.eventuallyCROf("a")
	s.eventually("its finalizer", func() bool { return len(metal3.crOf("a").GetFinalizers()) > 0 })
	s.patch(s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), s.node("a"), map[string]any{"spec": map[string]any{"unschedulable": true}})
	s.catchUpNodes()
	s.requireOnly("a", metal3.crOf("a"))
	s.deleteNode("a")
	s.eventually("no entry", func() bool { return s.entry("a") == nil })
	s.createNodes("a")
	s.eventually("the CR counts again", func() bool { entry := s.entry("a"); return entry != nil && len(entry.Remediations) == 1 })
	s.eventuallyCounts(2, 1)
	require.Equal(t, cr.GetUID(), metal3.crOf("a").GetUID())
	metal3.holdOn(cr)
	metal3.eventuallyGone("a")
	s.eventuallyCounts(2, 2)
	require.Len(t, metal3.writes("create"), 1, "P9")
}
