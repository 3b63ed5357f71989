// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// newRateLimiter returns the limit of all clients except those of the election and of the
// events.
func newRateLimiter(config *rest.Config) flowcontrol.RateLimiter {
	return flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
}

// errorCounter counts the requests that the API server did not answer with success
// (spec 20.2).
type errorCounter struct {
	errors *prometheus.CounterVec
}

func newErrorCounter(registry prometheus.Registerer) (*errorCounter, error) {
	c := &errorCounter{errors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nhc_api_errors_total",
		Help: "Requests to the API server that failed, by HTTP verb, resource and status code; the code is 0 if there was no answer.",
	}, []string{"verb", "resource", "code"})}
	if err := registry.Register(c.errors); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func (c *errorCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		switch {
		case err != nil && request.Context().Err() == nil:
			c.errors.WithLabelValues(request.Method, resourceOf(request.URL.Path), "0").Inc()
		case err == nil && response.StatusCode >= http.StatusBadRequest:
			c.errors.WithLabelValues(request.Method, resourceOf(request.URL.Path), strconv.Itoa(response.StatusCode)).Inc()
		}
		return response, err
	})
}

// resourceOf returns the resource in a path of the API, such as nodes in
// /api/v1/nodes/a and leases in /apis/coordination.k8s.io/v1/namespaces/x/leases/y.
// Paths of discovery have none.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return parts[0]
}
