// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

func TestResourceOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v1/nodes":                                      "nodes",
		"/api/v1/nodes/a":                                    "nodes",
		"/api/v1/nodes/a/status":                             "nodes",
		"/api/v1/namespaces/x/pods":                          "pods",
		"/api/v1/namespaces/x/pods/y":                        "pods",
		"/api/v1/namespaces":                                 "namespaces",
		"/api/v1/namespaces/x":                               "namespaces",
		"/apis/coordination.k8s.io/v1/leases":                "leases",
		"/apis/coordination.k8s.io/v1/namespaces/x/leases/y": "leases",
		"/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks/a/status":  "nodehealthchecks",
		"/apis/events.k8s.io/v1/namespaces/default/events":                 "events",
		"/apis/example.com/v1/namespaces/namespaces/namespaces/namespaces": "namespaces",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions":          "customresourcedefinitions",
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/":          "selfsubjectaccessreviews",
		"":                       "",
		"/":                      "",
		"/api":                   "",
		"/api/v1":                "",
		"/apis":                  "",
		"/apis/example.com":      "",
		"/apis/example.com/v1":   "",
		"/healthz":               "",
		"/version/of/nothing/at": "",
	} {
		require.Equal(t, want, resourceOf(path), "20.2 %q", path)
	}
}

func TestErrorCounter(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	counter, err := newErrorCounter(registry)
	require.NoError(t, err)
	status, failure := http.StatusOK, error(nil)
	transport := counter.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		if failure != nil {
			return nil, failure
		}
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	}))
	send := func(ctx context.Context, method string) {
		request, err := http.NewRequestWithContext(ctx, method, "https://cluster/api/v1/nodes/a", nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		require.ErrorIs(t, err, failure, "the answer is passed on")
		if err == nil {
			require.Equal(t, status, response.StatusCode)
			response.Body.Close()
		}
	}
	send(t.Context(), http.MethodGet)
	status = http.StatusNotModified
	send(t.Context(), http.MethodGet)
	require.Empty(t, counted(t, registry), "20.2: errors only")

	status = http.StatusForbidden
	send(t.Context(), http.MethodPatch)
	status = http.StatusConflict
	send(t.Context(), http.MethodPatch)
	send(t.Context(), http.MethodPatch)
	failure = errors.New("connection refused")
	send(t.Context(), http.MethodGet)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	send(cancelled, http.MethodGet) // We have given up ourselves.
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, map[string]float64{"0 nodes GET": 1, "403 nodes PATCH": 1, "409 nodes PATCH": 2}, counted(t, registry), "20.2")
	_, err = newErrorCounter(registry)
	require.Error(t, err, "a second one of the same name")
}

// counted returns counters by the values of their labels, which come sorted by name.
func counted(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			values[strings.Join(labels, " ")] = metric.GetCounter().GetValue()
		}
	}
	return values
}
