// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	root       = "../.."
	repository = "https://github.com/nhc-controller/nhc-controller/blob/main/"
	runbooks   = repository + "docs/runbooks/"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// fromEnv reads a file that hack/verify-monitoring.sh has made.
func fromEnv(t *testing.T, name string) []byte {
	t.Helper()
	require.NotEmpty(t, os.Getenv(name), "run hack/verify-monitoring.sh, which sets %s", name)
	return read(t, os.Getenv(name))
}

func existing(t *testing.T) catalogue {
	t.Helper()
	var metrics []Metric
	require.NoError(t, json.Unmarshal(fromEnv(t, "NHC_METRICS_LIST"), &metrics))
	all := newCatalogue(metrics)
	all.addAlerts(slices.Sorted(maps.Keys(alerts(t))))
	return all
}

func alerts(t *testing.T) map[string]monitoringv1.Rule {
	t.Helper()
	var rules monitoringv1.PrometheusRuleSpec
	require.NoError(t, yaml.UnmarshalStrict(read(t, root+"/manifests/monitoring/rules.yaml"), &rules))
	byName := map[string]monitoringv1.Rule{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			require.NotEmpty(t, rule.Alert)
			require.NotContains(t, byName, rule.Alert, "an alert twice")
			byName[rule.Alert] = rule
		}
	}
	require.NotEmpty(t, byName)
	return byName
}

// TestAlertsThatPage: FR-332 what comes and goes all day pages once. An alert that inhibits all others must
// not outlast its cause: it would hide them.
func TestAlertsThatPage(t *testing.T) {
	t.Parallel()
	flapping := read(t, "flapping_alerts.yaml")
	inhibiting := []string{"NodeHealthCheckControllerAbsent", "NodeHealthCheckNoLeader"}
	for name, alert := range alerts(t) {
		pages := alert.Labels["severity"] == "critical" && !slices.Contains(inhibiting, name)
		require.Equal(t, pages, alert.KeepFiringFor != nil, "%s: keep_firing_for", name)
		require.Equal(t, pages, strings.Contains(string(flapping), "- name: "+name+"\n"), "%s: a test over a day", name)
	}
}

var (
	usedLabel = regexp.MustCompile(`\$labels\.([a-zA-Z_]+)`)
	headings  = []string{"## Look", "## Do", "## Do not"}
	covered   = regexp.MustCompile(`(?m)^(?:- )?\*\*([A-Za-z]+)\*\* \((info|warning|critical)\): `)
)

// TestAlerts checks that each alert says what an operator needs to know, and reads
// only what exists.
func TestAlerts(t *testing.T) {
	t.Parallel()
	metrics := existing(t)
	for name, alert := range alerts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Regexp(t, `^(NodeHealthCheck|MachineHealthCheck|RemediationBudget)[A-Za-z]+$`, name)
			require.Contains(t, []string{"info", "warning", "critical"}, alert.Labels["severity"])
			require.NotEmpty(t, alert.Annotations["summary"])
			require.NotEmpty(t, alert.Annotations["description"])
			runbook := strings.TrimPrefix(alert.Annotations["runbook_url"], runbooks)
			content := string(read(t, root+"/docs/runbooks/"+runbook))
			require.Contains(t, content, "**"+name+"** ("+alert.Labels["severity"]+"): ", runbook)
			labels, _, err := metrics.check(alert.Expr.String())
			require.NoError(t, err)
			for _, text := range alert.Annotations {
				for _, label := range usedLabel.FindAllStringSubmatch(text, -1) {
					require.Contains(t, labels, label[1], text)
				}
			}
		})
	}
}

// TestRunbooks checks that each runbook says what it should, and has the name of one of the alerts
// that it is about; and that each alert has one.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(root + "/docs/runbooks/*.md")
	require.NoError(t, err)
	index := string(read(t, root+"/docs/monitoring.md"))
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		content := string(read(t, file))
		require.True(t, strings.HasPrefix(content, "# "+name+"\n"), name)
		var found []string
		for line := range strings.Lines(content) {
			if strings.HasPrefix(line, "## ") {
				found = append(found, strings.TrimSpace(line))
			}
		}
		require.Equal(t, headings, found, name)
		require.Contains(t, content, "$ kubectl ", name)
		var about []string
		for _, alert := range covered.FindAllStringSubmatch(content, -1) {
			about = append(about, alert[1])
			require.Contains(t, index, "["+alert[1]+"](runbooks/"+name+".md)", "docs/monitoring.md")
		}
		require.Contains(t, about, name)
		names = append(names, about...)
	}
	require.Equal(t, slices.Sorted(maps.Keys(alerts(t))), slices.Sorted(slices.Values(names)))
}

// TestAlertTests checks that there are tests in which each alert fires, and tests in
// which it does not.
func TestAlertTests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_alerts.yaml")
	require.NoError(t, err)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		var tests struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string `json:"alertname"`
					ExpAlerts []any  `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			} `json:"tests"`
		}
		require.NoError(t, yaml.Unmarshal(read(t, file), &tests))
		for _, test := range tests.Tests {
			for _, alert := range test.AlertRuleTest {
				if len(alert.ExpAlerts) > 0 {
					fires[alert.Alertname] = true
				} else {
					silent[alert.Alertname] = true
				}
			}
		}
	}
	all := slices.Sorted(maps.Keys(alerts(t)))
	require.Equal(t, all, slices.Sorted(maps.Keys(fires)), "fires in a test")
	require.Equal(t, all, slices.Sorted(maps.Keys(silent)), "is silent in a test")
}

// TestLateSeries checks that there is a test for each alert in which its series begin with
// what it is about. The one about the absence of all series has no such series.
func TestLateSeries(t *testing.T) {
	t.Parallel()
	var tests struct {
		Tests []struct {
			Name           string `json:"name"`
			PromqlExprTest []struct {
				ExpSamples []struct {
					Labels string `json:"labels"`
				} `json:"exp_samples"`
			} `json:"promql_expr_test"`
		} `json:"tests"`
	}
	require.NoError(t, yaml.Unmarshal(read(t, "late_alerts.yaml"), &tests))
	tested := []string{"NodeHealthCheckControllerAbsent"}
	for _, test := range tests.Tests {
		tested = append(tested, test.Name)
		last := test.PromqlExprTest[len(test.PromqlExprTest)-1]
		require.Len(t, last.ExpSamples, 1, test.Name)
		require.Equal(t, fmt.Sprintf("{alertname=%q}", test.Name), last.ExpSamples[0].Labels)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(alerts(t))), tested)
}

// objects returns the objects in a stream of YAML, by kind and name.
func objects(t *testing.T, stream []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for document := range strings.SplitSeq(string(stream), "\n---\n") {
		var object metav1.PartialObjectMetadata
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		key := object.Kind + "/" + object.Name
		require.NotContains(t, found, key)
		found[key] = []byte(document)
	}
	return found
}

func strict[T any](t *testing.T, objects map[string][]byte, key string) *T {
	t.Helper()
	require.Contains(t, objects, key)
	var object T
	require.NoError(t, yaml.UnmarshalStrict(objects[key], &object), key)
	return &object
}

// TestManifests checks, strictly against the types of the operator, that Prometheus
// would find the controller and be let in.
func TestManifests(t *testing.T) {
	t.Parallel()
	built := objects(t, fromEnv(t, "NHC_MONITORING_MANIFESTS"))
	require.Equal(t, []string{
		"ClusterRoleBinding/nhc-metrics-reader", "ConfigMap/nhc-controller-dashboard", "PrometheusRule/nhc-controller",
		"Secret/nhc-metrics-reader", "ServiceAccount/nhc-metrics-reader", "ServiceMonitor/nhc-controller",
	}, slices.Sorted(maps.Keys(built)))
	installed := objects(t, read(t, root+"/manifests/install.yaml"))

	monitor := strict[monitoringv1.ServiceMonitor](t, built, "ServiceMonitor/nhc-controller")
	service := strict[corev1.Service](t, installed, "Service/nhc-controller-metrics")
	require.Equal(t, service.Namespace, monitor.Namespace)
	for label, value := range monitor.Spec.Selector.MatchLabels {
		require.Equal(t, value, service.Labels[label], label)
	}
	require.Equal(t, job, service.Labels[monitor.Spec.JobLabel])
	require.Len(t, monitor.Spec.Endpoints, 1)
	endpoint := monitor.Spec.Endpoints[0]
	require.Equal(t, service.Spec.Ports[0].Name, endpoint.Port)

	secret := strict[corev1.Secret](t, built, "Secret/"+endpoint.Authorization.Credentials.Name)
	require.Equal(t, monitor.Namespace, secret.Namespace)
	require.Equal(t, corev1.SecretTypeServiceAccountToken, secret.Type)
	require.Equal(t, corev1.ServiceAccountTokenKey, endpoint.Authorization.Credentials.Key)
	account := strict[corev1.ServiceAccount](t, built, "ServiceAccount/"+secret.Annotations[corev1.ServiceAccountNameKey])
	require.Equal(t, secret.Namespace, account.Namespace)
	binding := strict[rbacv1.ClusterRoleBinding](t, built, "ClusterRoleBinding/nhc-metrics-reader")
	require.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}}, binding.Subjects)
	role := strict[rbacv1.ClusterRole](t, installed, "ClusterRole/"+binding.RoleRef.Name)
	require.Equal(t, []rbacv1.PolicyRule{{NonResourceURLs: []string{endpoint.Path}, Verbs: []string{"get"}}}, role.Rules)

	rule := strict[monitoringv1.PrometheusRule](t, built, "PrometheusRule/nhc-controller")
	var plain monitoringv1.PrometheusRuleSpec
	require.NoError(t, yaml.UnmarshalStrict(read(t, root+"/manifests/monitoring/rules.yaml"), &plain))
	require.Len(t, rule.Spec.Groups, len(plain.Groups), "run hack/update-monitoring.sh")
	for i, group := range plain.Groups {
		require.Len(t, rule.Spec.Groups[i].Rules, len(group.Rules), "run hack/update-monitoring.sh")
		for j := range group.Rules {
			require.Equal(t, group.Rules[j], rule.Spec.Groups[i].Rules[j], "run hack/update-monitoring.sh")
		}
	}

	dashboard := strict[corev1.ConfigMap](t, built, "ConfigMap/nhc-controller-dashboard")
	require.JSONEq(t, string(read(t, root+"/manifests/monitoring/dashboard.json")), dashboard.Data["nhc-controller.json"])
}
