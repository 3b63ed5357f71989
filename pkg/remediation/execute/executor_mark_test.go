// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestMarkTimedOut(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		live    *unstructured.Unstructured
		patched bool
	}{
		"13.8 written":                                     {live: live("n", "n-uid"), patched: true},
		"13.8 on a failed one":                             {live: live("n", "n-uid", withCondition("Succeeded", "False")), patched: true},
		"13.8 on one that does not know":                   {live: live("n", "n-uid", withCondition("Succeeded", "Unknown")), patched: true},
		"13.8 other annotations do not matter":             {live: live("n", "n-uid", annotated("example.com/a", "b")), patched: true},
		"13.8 never on a success, as the live one shows":   {live: live("n", "n-uid", withCondition("Succeeded", "True"))},
		"13.8 written once":                                {live: live("n", "n-uid", annotated(v1alpha1.AnnotationTimedOut, "2025-01-01T00:00:00Z"))},
		"13.8 never changed, whatever it says":             {live: live("n", "n-uid", annotated(v1alpha1.AnnotationTimedOut, ""))},
		"P9 another object of this name is not touched":    {live: live("n", "of-the-next-life")},
		"13.8 nothing is written to what is there no more": {live: live("m", "n-uid")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor(tc.live)
			// The cache did not know of a success or a mark.
			outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: cr("n"), At: epoch}))
			require.Equal(t, remediation.Outcome{}, outcome)
			if !tc.patched {
				require.Empty(t, th.writes())
				require.Empty(t, th.written)
				return
			}
			require.Equal(t, []string{"patch n"}, th.writes())
			require.Equal(t, []string{"rebootremediations.example.com 7"}, th.written)
		})
	}
}

// TestMarkTimedOutBefore: a step that an earlier process has ended did so when the annotation
// says, so that a status that is lost can be rebuilt (spec 18.2).
func TestMarkTimedOutBefore(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Time{
		"2025-01-01T00:00:00Z": time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		"no time":              epoch,
	} {
		th := newTestExecutor(live("n", "n-uid", annotated(v1alpha1.AnnotationTimedOut, value)))
		own := cr("n")
		outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: own, At: epoch, EndsStep: true}))
		require.Equal(t, map[types.UID]time.Time{own.UID: want}, outcome.TimedOut)
		require.Empty(t, th.writes())
	}
}

// TestMarkTimedOutAnew: an earlier mark is replaced where the plan says so (spec 13.8).
func TestMarkTimedOutAnew(t *testing.T) {
	t.Parallel()
	marked := annotated(v1alpha1.AnnotationTimedOut, "2025-01-01T00:00:00Z")
	for name, tc := range map[string]struct {
		live   *unstructured.Unstructured
		writes []string
	}{
		"13.8 replaced":                      {live: live("n", "n-uid", marked), writes: []string{"patch n"}},
		"13.8 never on a success":            {live: live("n", "n-uid", marked, withCondition("Succeeded", "True"))},
		"P9 another object is left as it is": {live: live("n", "of-the-next-life", marked)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor(tc.live)
			outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: cr("n", timedOut), At: epoch, Anew: true}))
			require.Equal(t, remediation.Outcome{}, outcome)
			require.Equal(t, tc.writes, th.writes())
		})
	}
}

// The patch is of one key, bound to the object that was looked at.
func TestMarkTimedOutPatch(t *testing.T) {
	t.Parallel()
	th := newTestExecutor(live("n", "n-uid", annotated("example.com/a", "b")))
	at := time.Date(2026, 1, 1, 2, 0, 0, 999999999, time.FixedZone("CET", 3600))
	outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: cr("n"), At: at}))
	require.NoError(t, outcome.Err)

	requests := th.client.Actions()
	require.Len(t, requests, 2)
	require.Equal(t, "get", requests[0].GetVerb(), "13.8: as the live object shows it")
	patch := requests[1].(clienttesting.PatchActionImpl)
	require.Equal(t, types.MergePatchType, patch.GetPatchType())
	require.Equal(t, FieldManager, patch.GetPatchOptions().FieldManager)
	require.Empty(t, patch.GetSubresource(), "11.2: never status")
	require.Equal(t, testNamespace, patch.GetNamespace())
	require.JSONEq(t, `{"metadata": {
		"uid": "n-uid", "resourceVersion": "7",
		"annotations": {"remediation.medik8s.io/nhc-timed-out": "2026-01-01T01:00:00Z"}
	}}`, string(patch.GetPatch()), "11.2 13.8: that one key, an RFC 3339 UTC time in whole seconds")
}

func TestMarkTimedOutFails(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(crResource.GroupResource(), "n", errors.New("the webhook is down"))
	conflict := apierrors.NewConflict(crResource.GroupResource(), "n", errors.New("it was changed"))
	notFound := apierrors.NewNotFound(crResource.GroupResource(), "n")
	tests := map[string]struct {
		verb string
		err  error
		want error
	}{
		"17.2 the write is denied":         {verb: "patch", err: denied, want: denied},
		"17.2 it was changed in between":   {verb: "patch", err: conflict, want: conflict},
		"17.2 it cannot be read":           {verb: "get", err: errServer, want: errServer},
		"17.2 gone when looked at":         {verb: "get", err: notFound},
		"17.2 gone between look and write": {verb: "patch", err: notFound},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newTestExecutor(live("n", "n-uid"))
			th.react(tc.verb, "", tc.err)
			own := cr("n")
			outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: own, At: epoch}, remediation.Delete{CR: own}))
			require.Equal(t, []*object.CR{own}, outcome.Deleted, "17.2: a denied write does not hold up the deletion")
			if tc.want == nil {
				require.NoError(t, outcome.Err)
				return
			}
			require.ErrorIs(t, outcome.Err, tc.want)
			require.ErrorContains(t, outcome.Err, "node n")
		})
	}
}
