// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestPriorityLevels: requests of the controller have a queue of their own, and urgent
// ones do not share that of its events.
func TestPriorityLevels(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, deploy.ServiceAccount)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	tests := map[string]struct{ method, path, body, schema, level string }{
		"a node":              {method: http.MethodGet, path: "/api/v1/nodes", schema: "nhc-controller", level: "nhc-controller"},
		"its lease":           {method: http.MethodGet, path: "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases", schema: "nhc-controller", level: "nhc-controller"},
		"a NodeHealthCheck":   {method: http.MethodGet, path: "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", schema: "nhc-controller", level: "nhc-controller"},
		"discovery":           {method: http.MethodGet, path: "/apis", schema: "nhc-controller", level: "nhc-controller"},
		"the leader election": {method: http.MethodGet, path: "/apis/coordination.k8s.io/v1/namespaces/nhc-system/leases/nhc-controller", schema: "nhc-controller-leader", level: "leader-election"},
		"an event": {
			method: http.MethodPost, path: "/apis/events.k8s.io/v1/namespaces/default/events?dryRun=All", body: "{}",
			schema: "nhc-controller-events", level: "workload-low",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flows := c.kube.FlowcontrolV1()
			schema, err := flows.FlowSchemas().Get(t.Context(), tc.schema, metav1.GetOptions{})
			require.NoError(t, err)
			level, err := flows.PriorityLevelConfigurations().Get(t.Context(), tc.level, metav1.GetOptions{})
			require.NoError(t, err)
			// The API server reads them a moment after they were applied.
			patience.Eventually(t, "the API server uses them", func() bool {
				header := answer(t, client, tc.method, config.Host+tc.path, tc.body)
				return header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID) &&
					header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) == string(level.UID)
			})
		})
	}
}

// answer returns the header of the answer to a request.
func answer(t *testing.T, client *http.Client, method, url, body string) http.Header {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.Header
}
