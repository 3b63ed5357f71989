// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// listedMetric is a metric of the controller, as its collector describes it.
type listedMetric struct {
	Name string `json:"name"`
	// Type is counter, gauge, histogram, summary, or empty if the collector does not
	// tell: none of those that do not has series of other names than its own.
	Type   string   `json:"type"`
	Labels []string `json:"labels"`
	// Values are the values that a label can have, for labels with a closed list.
	Values map[string][]string `json:"values,omitempty"`
}

// TestListMetrics lists the metrics that the controller has, whether or not they
// have series yet. With NHC_METRICS_LIST it writes the list to that file, for
// hack/verify-monitoring.sh.
func TestListMetrics(t *testing.T) {
	t.Parallel()
	p := fakeProcess(t)
	require.NoError(t, registerExpiration(p.registry, time.Now))
	_, err := p.newMachineController(t.Context(), p.config(nil))
	require.NoError(t, err)
	// The metrics of clients are registered by the first client, and those of leader
	// election by the first candidate.
	_, err = newClients(&rest.Config{Host: "https://localhost"}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lock := &leaseLock{leaseServer: &leaseServer{}, identity: "a"}
	require.NoError(t, lead(ctx, lock, &p.options.LeaderElection, leaderelection.NewLeaderHealthzAdaptor(0), func(context.Context) error { return nil }))

	registries := []prometheus.Registerer{p.registry, legacyregistry.Registerer()}
	var list []listedMetric
	for _, registry := range registries {
		list = append(list, listMetrics(t, registry)...)
	}
	slices.SortFunc(list, func(a, b listedMetric) int { return cmp.Compare(a.Name, b.Name) })

	byName := map[string]listedMetric{}
	for i := range list {
		byName[list[i].Name] = list[i]
	}
	require.Len(t, byName, len(list), "a metric twice")
	require.Equal(t, "histogram", byName["nhc_episode_duration_seconds"].Type)
	require.Equal(t, []string{"nodehealthcheck"}, byName["nhc_episode_duration_seconds"].Labels)
	require.Equal(t, []string{"code", "host", "method"}, byName["rest_client_requests_total"].Labels)
	require.Equal(t, "histogram", byName["workqueue_queue_duration_seconds"].Type)
	require.Equal(t, []string{"name"}, byName["leader_election_master_status"].Labels)
	require.Contains(t, byName, "process_start_time_seconds")
	for i := range list {
		if name := list[i].Name; strings.HasPrefix(name, "nhc_") || strings.HasPrefix(name, "nodehealthcheck_") {
			require.NotEmpty(t, list[i].Type, name)
		}
	}

	file := os.Getenv("NHC_METRICS_LIST")
	if file == "" {
		return
	}
	content, err := json.MarshalIndent(list, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(content, '\n'), 0o600))
}

// nodeGauges are the metrics that are read from the caches at each scrape.
var nodeGauges = sets.New("nhc_node_decision", "nhc_node_recent_remediations", "nodehealthcheck_ongoing_remediation", "nodehealthcheck_old_remediation_cr")

// description is the only thing to learn from a prometheus.Desc.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ".*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

func listMetrics(t *testing.T, registry prometheus.Registerer) []listedMetric {
	t.Helper()
	described, ok := registry.(prometheus.Collector)
	require.True(t, ok, "%T does not describe what it collects", registry)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		described.Describe(descriptions)
	}()
	// Nothing may be registered while the registry is being read.
	var all []*prometheus.Desc
	for desc := range descriptions {
		all = append(all, desc)
	}

	// What has series is read from them: the values, and the types of collectors that
	// have several metrics.
	gatherer, ok := registry.(prometheus.Gatherer)
	require.True(t, ok)
	families, err := gatherer.Gather()
	require.NoError(t, err)
	types, names := map[string]string{}, map[string][]string{} // The name is that of a queue, or of the leader lease.
	for _, family := range families {
		types[family.GetName()] = strings.ToLower(family.GetType().String())
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" {
					names[family.GetName()] = append(names[family.GetName()], label.GetValue())
				}
			}
		}
	}

	var list []listedMetric
	for _, desc := range all {
		parts := description.FindStringSubmatch(desc.String())
		require.NotNil(t, parts, "cannot read %s", desc)
		metric := listedMetric{Name: parts[1], Type: types[parts[1]], Labels: []string{}, Values: map[string][]string{}}
		switch {
		case metric.Type != "":
		case nodeGauges.Has(metric.Name):
			metric.Type = "gauge"
		default:
			metric.Type = typeOf(registry, desc)
		}
		for label := range strings.SplitSeq(parts[2], ",") {
			if name, _, isConst := strings.Cut(label, "="); isConst {
				metric.Labels = append(metric.Labels, name)
			}
		}
		if parts[3] != "" {
			metric.Labels = append(metric.Labels, strings.Split(parts[3], ",")...)
		}
		slices.Sort(metric.Labels)
		if values := names[metric.Name]; len(values) > 0 {
			slices.Sort(values)
			metric.Values["name"] = slices.Compact(values)
		}
		for _, label := range metric.Labels {
			if values := valuesOf(metric.Name, label); values != nil {
				metric.Values[label] = values
			}
		}
		list = append(list, metric)
	}
	return list
}

// onlyDescribed has the description of another collector.
type onlyDescribed struct{ desc *prometheus.Desc }

func (o onlyDescribed) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- o.desc }
func (o onlyDescribed) Collect(chan<- prometheus.Metric)              {}

// typeOf finds the collector by trying to register its description once more.
func typeOf(registry prometheus.Registerer, desc *prometheus.Desc) string {
	existing, is := registry.Register(onlyDescribed{desc}).(prometheus.AlreadyRegisteredError) //nolint:errorlint // It is not wrapped.
	if !is {
		return ""
	}
	switch existing.ExistingCollector.(type) {
	case *prometheus.GaugeVec, *metrics.GaugeVec:
		return "gauge"
	case *prometheus.CounterVec, *metrics.CounterVec:
		return "counter"
	case *prometheus.HistogramVec, *metrics.HistogramVec:
		return "histogram"
	default:
		return ""
	}
}

// valuesOf returns the values that a label can have, if their list is closed.
func valuesOf(metric, label string) []string {
	var values []string
	switch {
	case label == "reason" && metric == "nhc_nodes_waiting":
		for reason, decision := range v1alpha1.DecisionReasons() {
			if decision != v1alpha1.DecisionRemediating {
				values = append(values, string(reason))
			}
		}
	case label == "type" && metric == "nhc_node_decision":
		for _, decision := range v1alpha1.DecisionReasons() {
			values = append(values, string(decision))
		}
	case label == "reason" && metric == "nhc_node_decision":
		for reason := range v1alpha1.DecisionReasons() {
			values = append(values, string(reason))
		}
	case label == "reason" && metric == "nhc_mhc_machines_waiting":
		for reason, decision := range v1beta1.DecisionReasons() {
			if decision != v1alpha1.DecisionRemediating {
				values = append(values, string(reason))
			}
		}
	case label == "outcome" && metric == "nhc_episodes_total":
		for _, outcome := range []v1alpha1.EpisodeOutcome{
			v1alpha1.OutcomeRecovered, v1alpha1.OutcomeRecoveredWithoutRemediation, v1alpha1.OutcomeReplaced, v1alpha1.OutcomeNodeDeleted, v1alpha1.OutcomeCancelled,
		} {
			values = append(values, string(outcome))
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}
