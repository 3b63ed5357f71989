// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func noCR(*object.CR) bool { return false }

// TestLastStates: the state that a deletion shows is kept until a report has used it.
func TestLastStates(t *testing.T) {
	t.Parallel()
	var states lastStates
	first, last := testCR("a", "1"), testCR("a", "1", crSucceeded)
	states.record("workers", first, true)
	states.record("workers", testCR("b", "2"), true)
	states.record("infra", testCR("c", "3"), true)
	left := func(cr *object.CR) bool { return cr.Name == "b" }
	require.Equal(t, []*object.CR{first}, states.gone("workers", left))
	states.record("workers", last, true)
	states.used("workers", []*object.CR{first})
	require.Equal(t, []*object.CR{last}, states.gone("workers", left), "a later one has not been used")
	states.used("workers", []*object.CR{last})
	require.Empty(t, states.gone("workers", left))
	require.Len(t, states.gone("workers", noCR), 1)
	states.forget("workers")
	require.Empty(t, states.gone("workers", noCR))
	require.Len(t, states.gone("infra", noCR), 1)
}

// TestLastStateOfADeletedCR: what a CR says at the very end is known as soon as the cache
// has lost it, be its handlers called or not.
func TestLastStateOfADeletedCR(t *testing.T) {
	t.Parallel()
	nhc := testCheck()
	cr := slotCR("n", func(cr *unstructured.Unstructured) {
		cr.SetUID("1")
		cr.SetOwnerReferences(object.Render(object.OwnerOf(nhc), object.Target{Node: "n"}, &object.Template{}).GetOwnerReferences())
	})
	foreign := slotCR("m", func(cr *unstructured.Unstructured) { cr.SetUID("2") })
	before := func(_ *testing.T, c *Controller) { c.index.SetCheck(checkOf(nhc)) }
	withRemediations(t, fakeRemediators{crs: []*unstructured.Unstructured{cr, foreign}}, before, func(t *testing.T, c *Controller) {
		t.Helper()
		client := c.Dynamic.Resource(readableKind.GroupVersion().WithResource("reboots")).Namespace(cr.GetNamespace())
		done := cr.DeepCopy()
		done.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Succeeded", "status": "True", "lastTransitionTime": epoch.Format(time.RFC3339)}}}
		_, err := client.Update(t.Context(), done, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, client.Delete(t.Context(), "n", metav1.DeleteOptions{}))
		awaitAnswers()
		found, err := c.findCRs(nhc, &nhcState{})
		require.NoError(t, err)
		require.False(t, remediated(found, "n"))
		gone := c.lastStates.gone(nhc.Name, found.has)
		require.Len(t, gone, 1, "of its own")
		require.True(t, gone[0].Fenced)
		require.Equal(t, epoch, gone[0].FencedSince)
	})
}
