// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestMetrics reads the metrics as Prometheus does, along the story of one node
// (spec 20, 22.4).
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	reader := c.createToken(t, "reader", true)
	stranger := c.createToken(t, "stranger", false)
	first := c.startController(t, "metrics-1", "--leader-elect-retry-period=1s")
	eventuallyReady(t, first)
	patience.Eventually(t, "the leader", func() bool { return c.leader(t) == "metrics-1" })

	for name, tc := range map[string]struct {
		authorization string
		want          int
	}{
		"no token":                 {want: http.StatusUnauthorized},
		"empty token":              {authorization: "Bearer ", want: http.StatusUnauthorized},
		"another scheme":           {authorization: "Basic " + reader, want: http.StatusUnauthorized},
		"unknown token":            {authorization: "Bearer unknown", want: http.StatusUnauthorized},
		"token without permission": {authorization: "Bearer " + stranger, want: http.StatusForbidden},
		"token with permission":    {authorization: "Bearer " + reader, want: http.StatusOK},
	} {
		response, body := c.get(t, first, tc.authorization)
		require.Equal(t, tc.want, response.StatusCode, "%s: %s", name, body)
		require.Equal(t, 1, response.ProtoMajor, "22.4: HTTP/1.1 only")
		require.Equal(t, "http/1.1", response.TLS.NegotiatedProtocol, "22.4: HTTP/1.1 only")
		require.Equal(t, tc.want == http.StatusOK, strings.Contains(body, "# TYPE"), name)
	}

	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	of := `{nodehealthcheck="` + s.name + `"}`
	ofKind := `{nodehealthcheck="` + s.name + `",remediation="PowerCycleRemediation"}`
	ofNode := fmt.Sprintf(`{name=%q,namespace=%q,remediation="PowerCycleRemediation"}`, s.node("a"), s.name)
	scrape := func(p *localkube.Process) series {
		response, body := c.get(t, p, "Bearer "+reader)
		require.Equal(t, http.StatusOK, response.StatusCode)
		return parseSeries(t, body)
	}
	eventuallySeries := func(p *localkube.Process, want series) {
		t.Helper()
		var got series
		s.eventually("the series", func() bool {
			got = series{}
			for name, value := range scrape(p) {
				if _, wanted := want[name]; wanted {
					got[name] = value
				}
			}
			return maps.Equal(got, want)
		})
	}
	eventuallySeries(first, series{
		"nhc_observed_nodes" + of: 3, "nhc_healthy_nodes" + of: 3, "nhc_unhealthy_nodes" + of: 0, "nhc_remediating_nodes" + of: 0,
		"nhc_gate_open" + of: 1, "nhc_paused" + of: 0, "nhc_disabled" + of: 0, "nhc_uncovered_nodes": 0,
	})
	all := scrape(first)
	for _, prefix := range []string{
		"workqueue_depth", "workqueue_adds_total", "rest_client_requests_total", "rest_client_request_duration_seconds_bucket",
		"leader_election_master_status", "go_goroutines", "process_cpu_seconds_total", "kubernetes_build_info",
		"workqueue_work_duration_seconds_count",
	} {
		require.True(t, all.hasPrefix(prefix), "20.3: %s", prefix)
	}
	require.False(t, all.hasPrefix("nodehealthcheck_ongoing_remediation"), "20.1: only while there is one")

	// A refused write is counted, and tried again.
	allow := s.deny(t, "creations", denial{
		group: s.kind.remediations.Group, resource: s.kind.remediations.Resource, operation: admissionregistrationv1.Create,
		unless: "false", try: s.tryCR,
	})
	s.fail("a")
	s.eventually("a refused creation is counted", func() bool {
		refused := 0.0
		for name, value := range scrape(first) {
			if strings.HasPrefix(name, "rest_client_requests_total{") && strings.Contains(name, `method="POST"`) && strings.Contains(name, `code="4`) {
				refused += value
			}
		}
		return refused >= 1
	})
	all = scrape(first)
	for _, counter := range []string{"started", "succeeded", "timed_out", "cancelled"} {
		require.True(t, all.has("nhc_remediations_"+counter+"_total"+ofKind), "20.3: from the first sync")
		require.Zero(t, all["nhc_remediations_"+counter+"_total"+ofKind], "nothing was started")
	}
	allow()

	cr := s.eventuallyCR("a")
	eventuallySeries(first, series{
		"nhc_observed_nodes" + of: 3, "nhc_healthy_nodes" + of: 2, "nhc_unhealthy_nodes" + of: 1, "nhc_remediating_nodes" + of: 1,
		"nhc_remediations_started_total" + ofKind: 1, "nodehealthcheck_ongoing_remediation" + ofNode: 1,
		"nhc_detection_to_creation_seconds_count" + of: 1,
	})

	// After a restart, running remediations are still shown, and do not count as new.
	require.NoError(t, first.Signal(syscall.SIGTERM))
	require.Equal(t, 0, exitCode(t, first))
	second := c.startController(t, "metrics-2")
	eventuallySeries(second, series{"nodehealthcheck_ongoing_remediation" + ofNode: 1, "nhc_remediating_nodes" + of: 1})
	require.Zero(t, scrape(second)["nhc_remediations_started_total"+ofKind], "20.2: it was started before")

	require.Equal(t, cr.GetUID(), s.cr("a").GetUID())
	s.recover("a", 3)
	ended := series{
		"nhc_healthy_nodes" + of: 3, "nhc_unhealthy_nodes" + of: 0, "nhc_remediating_nodes" + of: 0,
		"nhc_remediations_succeeded_total" + ofKind:                      1,
		"nodehealthcheck_unhealthy_node_duration_seconds_count" + ofNode: 1,
	}
	eventuallySeries(second, ended)
	all = scrape(second)
	require.False(t, all.hasPrefix("nodehealthcheck_ongoing_remediation"), "20.1: the series ends with the remediation")
	for _, other := range []string{"nhc_remediations_timed_out_total", "nhc_remediations_cancelled_total"} {
		require.Zero(t, all[other+ofKind], "20.2: every CR ends in exactly one of them")
	}
	for _, seconds := range []string{"30", "60", "120", "180", "240", "300", "600", "1200", "2400", "3600", "+Inf"} {
		bucket := strings.TrimSuffix(ofNode, "}") + `,le="` + seconds + `"}`
		require.True(t, all.has("nodehealthcheck_unhealthy_node_duration_seconds_bucket"+bucket), "20.1: %s", bucket)
	}

	s.updateNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"maintenance"} })
	s.deleteTemplate()
	s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
	eventuallySeries(second, series{"nhc_paused" + of: 1, "nhc_disabled" + of: 1})

	s.deleteNHC()
	s.eventually("the series of the NodeHealthCheck are gone", func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(scrape(second))), func(name string) bool {
			return strings.Contains(name, `nodehealthcheck="`+s.name+`"`)
		})
	})
	eventuallySeries(second, series{"nhc_uncovered_nodes": 3})
	require.True(t, scrape(second).has("nodehealthcheck_unhealthy_node_duration_seconds_count"+ofNode), "20.1: these stay")
}

// series are the values of a scrape by name and labels, sorted by label.
type series map[string]float64

func (s series) has(name string) bool {
	_, found := s[name]
	return found
}

func (s series) hasPrefix(prefix string) bool {
	for name := range s {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// parseSeries reads the text format, in which the samples of a library are written
// in one way.
func parseSeries(t *testing.T, body string) series {
	t.Helper()
	parsed := series{}
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		i := strings.LastIndex(line, " ")
		require.Positive(t, i, line)
		value, err := strconv.ParseFloat(line[i+1:], 64)
		require.NoError(t, err, line)
		require.NotContains(t, parsed, line[:i], "a series twice")
		parsed[line[:i]] = value
	}
	require.NoError(t, lines.Err())
	return parsed
}

// get scrapes a controller with a client that speaks HTTP/2 if it may.
func (c *cluster) get(t *testing.T, p *localkube.Process, authorization string) (*http.Response, string) {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, // The certificate is made at the start.
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address(t, p, "metrics")+"/metrics", http.NoBody)
	require.NoError(t, err)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

// createToken returns a token of a new ServiceAccount.
func (c *cluster) createToken(t *testing.T, name string, mayRead bool) string {
	t.Helper()
	accounts := c.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	if mayRead {
		_, err := c.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nhc-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}
