// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestExplain: one sentence that says what to do, and the cause behind it.
func TestExplain(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "remediation.medik8s.io", Resource: v1alpha1.Plural}
	rbac := errors.New(`User "kim" cannot list resource "nodehealthchecks" in API group "remediation.medik8s.io" at the cluster scope`)
	for name, tc := range map[string]struct {
		err  error
		verb string
		want string
	}{
		"no permission to read":  {apierrors.NewForbidden(resource, "", rbac), "list", "You may not list nodehealthchecks: ask for the ClusterRole nhc-view."},
		"no permission to write": {apierrors.NewForbidden(resource, "a", rbac), "patch", "You may not patch nodehealthchecks: ask for the ClusterRole nhc-edit, or nhc-operate to pause and resume."},
		"refused by admission":   {apierrors.NewForbidden(resource, "a", errors.New("denied by the policy")), "patch", `The API server refuses to patch nodehealthchecks: nodehealthchecks.remediation.medik8s.io "a" is forbidden: denied by the policy.`},
		"no such kind":           {apierrors.NewGenericServerResponse(404, "get", resource, "", "404 page not found", 0, true), "list", "This cluster has no nodehealthchecks: install the CustomResourceDefinitions of nhc-controller."},
		"no such object":         {apierrors.NewNotFound(resource, "a"), "get", `Cannot get nodehealthchecks: nodehealthchecks.remediation.medik8s.io "a" not found.`},
		"wrong credentials":      {apierrors.NewUnauthorized("no"), "list", "Cannot list nodehealthchecks: no."},
		"no configuration":       {clientcmd.ErrEmptyConfig, "use", "No cluster is configured: there is no kubeconfig, or it is empty. Set KUBECONFIG, or give --kubeconfig or --server."},
		"no API server":          {&url.Error{Op: "Get", URL: "https://x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, "list", "Cannot list nodehealthchecks: dial: connection refused."},
		"slow API server":        {context.DeadlineExceeded, "list", "Cannot list nodehealthchecks: context deadline exceeded."},
		"interrupted":            {context.Canceled, "list", "Interrupted."},
		"anything else":          {errors.New("teapot"), "list", "Cannot list nodehealthchecks: teapot."},
	} {
		err := Explain(tc.err, tc.verb, v1alpha1.Plural)
		require.EqualError(t, err, tc.want, name)
		require.ErrorIs(t, err, tc.err, name)
		require.Equal(t, err, Explain(err, "get", "nodes"), "%s: it stays as it is", name)
	}
	require.NoError(t, Explain(nil, "list", "nodes"))
	notServed := apierrors.NewGenericServerResponse(404, "get", resource, "", "404 page not found", 0, true)
	require.EqualError(t, Explain(notServed, "list", "events"), "This cluster has no events.")
}
