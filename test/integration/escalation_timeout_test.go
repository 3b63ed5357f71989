// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestStepTimeout: a step that has not succeeded ends by time (spec 13.3). In the simulation, steps also end by time after a
// success, after a pause, and while the annotation is denied.
func TestStepTimeout(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	l.createNodes("a")
	l.createNHC(l.escalation(time.Minute))
	l.fail("a")
	l.eventuallyStep("a", 0)
	l.report("a", [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"})
	crs := l.eventuallyStep("a", 1)
	end := crs[0].GetCreationTimestamp().Add(time.Minute)
	require.False(t, crs[1].GetCreationTimestamp().Time.Before(end), "13.3: not before its time")
	require.False(t, l.entry("a").Remediations[0].TimedOut.Time.Before(end), "13.3: not before its time")
	l.requireEnded("a", 0, crs[0])
	require.Len(t, l.patches("a"), 1, "13.8: once")
	require.Empty(t, l.events("NoTemplateLeft"))
}

// denyTimedOut denies the annotation on CRs of the scenario.
func (l *ladder) denyTimedOut() (allow func()) {
	l.t.Helper()
	return l.deny(l.t, "timed-out-"+l.name, denial{
		group: l.kind.remediations.Group, resource: l.kind.remediations.Resource, operation: admissionregistrationv1.Update,
		unless: fmt.Sprintf("request.namespace != '%s' || !has(object.metadata.annotations) || !('%s' in object.metadata.annotations)", l.name, v1alpha1.AnnotationTimedOut),
		try: func(ctx context.Context, dryRun []string) error {
			patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationTimedOut + `":"dry-run"}}}`)
			_, err := l.crClient().Patch(ctx, l.node("a"), types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
	})
}

// TestEscalationWithoutAnnotation: a remediator that has failed may deny the annotation
// (spec 13.5).
func TestEscalationWithoutAnnotation(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	l.createNodes("a")
	l.createNHC(l.escalation())
	l.fail("a")
	l.eventuallyStep("a", 0)
	allow := l.denyTimedOut()
	l.reportFailure("a")
	crs := l.eventuallyStep("a", 1)
	require.NotContains(t, crs[0].GetAnnotations(), v1alpha1.AnnotationTimedOut)
	require.Len(t, l.patches("a"), 1, "it was tried")
	allow()
	l.catchUp()
	require.Len(t, l.eventuallyStep("a", 1), 2)
	l.rungs[1].reportFailure("a")
	crs = l.eventuallyExhausted("a")
	l.requireEnded("a", 1, crs[1])
	require.NotContains(t, crs[0].GetAnnotations(), v1alpha1.AnnotationTimedOut)
	l.heal("a")
	l.eventuallyCounts(1, 1)
	require.Empty(t, l.listed())
}

// TestEscalationWhileTheRemediatorWrites: a write that somebody else was faster with is
// repeated, it was not denied (spec P5, 13.3).
func TestEscalationWhileTheRemediatorWrites(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	names := []string{"a", "b", "c", "d", "e", "f"}
	l.createNodes(names...)
	l.createNHC(l.escalation())
	for _, name := range names {
		l.fail(name)
	}
	var wg sync.WaitGroup
	for _, name := range names {
		l.eventuallyStep(name, 0)
		wg.Go(func() {
			for i := range 40 {
				l.patchMetadata(t.Context(), l.crClient(), l.node(name), map[string]any{"labels": map[string]string{"test.nhc-controller.io/write": fmt.Sprint(i)}})
			}
		})
		l.reportFailure(name)
	}
	wg.Wait()
	for _, name := range names {
		crs := l.eventuallyStep(name, 1)
		l.requireEnded(name, 0, crs[0])
	}
}
