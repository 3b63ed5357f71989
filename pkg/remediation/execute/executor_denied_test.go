// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestMarkTimedOutDenied: only a denial lets a step end without the annotation (spec 13.5,
// P5), whether the CR has failed or its time is up.
func TestMarkTimedOutDenied(t *testing.T) {
	t.Parallel()
	resource := crResource.GroupResource()
	for name, tc := range map[string]struct {
		verb string
		err  error
		ends bool
	}{
		"13.5 denied":                           {verb: "patch", err: apierrors.NewForbidden(resource, "n", errors.New("ValidatingAdmissionPolicy 'far' denied request")), ends: true},
		"13.5 denied with a code of its own":    {verb: "patch", err: apierrors.NewBadRequest(`admission webhook "far" denied the request: no`), ends: true},
		"P5 a permission is missing":            {verb: "patch", err: apierrors.NewForbidden(resource, "n", errors.New(`User "x" cannot patch resource "rebootremediations" in API group "example.com"`))},
		"13.5 invalid":                          {verb: "patch", err: apierrors.NewInvalid(crResource.GroupVersion().WithKind("RebootRemediation").GroupKind(), "n", nil), ends: true},
		"P5 bad request":                        {verb: "patch", err: apierrors.NewBadRequest("no")},
		"P5 the server failed":                  {verb: "patch", err: apierrors.NewInternalError(errors.New("etcd"))},
		"13.5 a webhook that does not answer":   {verb: "patch", err: apierrors.NewInternalError(errors.New(`failed calling webhook "far"`)), ends: true},
		"P5 others write all the time":          {verb: "patch", err: apierrors.NewConflict(resource, "n", nil)},
		"P5 too many requests":                  {verb: "patch", err: apierrors.NewTooManyRequests("busy", 1)},
		"P5 it took too long":                   {verb: "patch", err: apierrors.NewTimeoutError("slow", 1)},
		"P5 the server is not available":        {verb: "patch", err: apierrors.NewServiceUnavailable("later")},
		"P5 the token has expired":              {verb: "patch", err: apierrors.NewUnauthorized("expired")},
		"P5 the connection was lost":            {verb: "patch", err: io.ErrUnexpectedEOF},
		"P5 it was read in vain":                {verb: "get", err: io.ErrUnexpectedEOF},
		"P9 it was gone before it was read":     {verb: "get", err: apierrors.NewNotFound(resource, "n")},
		"P9 it went between look and write":     {verb: "patch", err: apierrors.NewNotFound(resource, "n")},
		"P9 it is another one by now (its uid)": {verb: "uid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uid := types.UID("n-uid")
			if tc.verb == "uid" {
				uid = "of-the-next-life"
			}
			th := newTestExecutor(live("n", uid))
			th.react(tc.verb, "", tc.err)
			for _, own := range []*object.CR{cr("n", failed), cr("n")} {
				outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: own, At: epoch, EndsStep: true}))
				_, ended := outcome.TimedOut[own.UID]
				require.Equal(t, tc.ends, ended)
				require.Equal(t, tc.ends, outcome.Err == nil)
			}
		})
	}
}

// TestMarkTimedOutConflict: the remediator writes to its object, too.
func TestMarkTimedOutConflict(t *testing.T) {
	t.Parallel()
	th := newTestExecutor(live("n", "n-uid"))
	conflicts := 3
	th.client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(crResource.GroupResource(), "n", nil)
	})
	own := cr("n", failed)
	outcome := th.run(t.Context(), actions(remediation.MarkTimedOut{CR: own, At: epoch, EndsStep: true}))
	require.NoError(t, outcome.Err)
	require.Contains(t, outcome.TimedOut, own.UID)
	require.Equal(t, []string{"rebootremediations.example.com 7"}, th.written, "P5: it was written in the end")
}
