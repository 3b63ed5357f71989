// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"slices"
	"testing"

	"github.com/prometheus/alertmanager/config/common"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"
)

// firing is an alert of one cluster with its severity.
func firing(t *testing.T, name string, more ...string) model.LabelSet {
	t.Helper()
	rule, exists := alerts(t)[name]
	require.True(t, exists, name)
	labels := model.LabelSet{"alertname": model.LabelValue(name), "cluster": "east", "namespace": "nhc-system", "severity": model.LabelValue(rule.Labels["severity"])}
	for i := 0; i < len(more); i += 2 {
		labels[model.LabelName(more[i])] = model.LabelValue(more[i+1])
	}
	return labels
}

func inhibitions(t *testing.T) []*inhibit.InhibitRule {
	t.Helper()
	var config struct {
		InhibitRules []common.InhibitRule `yaml:"inhibit_rules"`
	}
	require.NoError(t, yaml.UnmarshalStrict(read(t, root+"/manifests/monitoring/alertmanager.yaml"), &config))
	require.NotEmpty(t, config.InhibitRules)
	var rules []*inhibit.InhibitRule
	for _, rule := range config.InhibitRules {
		rules = append(rules, inhibit.NewInhibitRule(rule))
	}
	return rules
}

// inhibits reports whether one of the rules has an alert inhibit another one, as Alertmanager
// does.
func inhibits(rules []*inhibit.InhibitRule, source, target model.LabelSet) bool {
	return slices.ContainsFunc(rules, func(rule *inhibit.InhibitRule) bool {
		for label := range rule.Equal {
			if source[label] != target[label] {
				return false
			}
		}
		return rule.SourceMatchers.Matches(source) && rule.TargetMatchers.Matches(target) && !rule.SourceMatchers.Matches(target)
	})
}

// TestInhibitions: one cause notifies once, and never hides what is more severe or elsewhere.
func TestInhibitions(t *testing.T) {
	t.Parallel()
	rules := inhibitions(t)
	gate := firing(t, "NodeHealthCheckGateClosed", "nodehealthcheck", "workers")
	absent := firing(t, "NodeHealthCheckControllerAbsent")
	errors := firing(t, "NodeHealthCheckAPIErrors")
	for name, tc := range map[string]struct {
		source, target model.LabelSet
		want           bool
	}{
		"no controller":                 {source: absent, target: gate, want: true},
		"no controller elsewhere":       {source: firing(t, "NodeHealthCheckControllerAbsent", "cluster", "west"), target: gate},
		"no leader":                     {source: firing(t, "NodeHealthCheckNoLeader"), target: firing(t, "NodeHealthCheckRemediationRunningLong", "node", "n1"), want: true},
		"no leader, and Machines":       {source: firing(t, "NodeHealthCheckNoLeader"), target: firing(t, "MachineHealthCheckShortCircuit", "exported_namespace", "machines", "name", "workers"), want: true},
		"no leader, and budgets":        {source: firing(t, "NodeHealthCheckNoLeader"), target: firing(t, "RemediationBudgetExhausted", "budget", "zones"), want: true},
		"an invalid budget":             {source: firing(t, "RemediationBudgetInvalid", "budget", "zones"), target: firing(t, "RemediationBudgetExhausted", "budget", "zones"), want: true},
		"another budget":                {source: firing(t, "RemediationBudgetInvalid", "budget", "zones"), target: firing(t, "RemediationBudgetExhausted", "budget", "pace")},
		"a closed gate and a budget":    {source: gate, target: firing(t, "RemediationBudgetExhausted", "budget", "zones")},
		"an alert of others":            {source: absent, target: model.LabelSet{"alertname": "KubeNodeNotReady", "cluster": "east", "namespace": "nhc-system"}},
		"a storm with a closed gate":    {source: gate, target: firing(t, "NodeHealthCheckStormActive", "nodehealthcheck", "workers"), want: true},
		"a storm of other nodes":        {source: gate, target: firing(t, "NodeHealthCheckStormActive", "nodehealthcheck", "masters")},
		"all remediations failed":       {source: gate, target: firing(t, "NodeHealthCheckRemediationExhausted", "nodehealthcheck", "workers")},
		"an API server in trouble":      {source: errors, target: firing(t, "NodeHealthCheckAPIRequestFailing", "verb", "GET"), want: true},
		"what it costs":                 {source: errors, target: firing(t, "NodeHealthCheckRemediationCreationFailing", "nodehealthcheck", "workers")},
		"a creation that is refused":    {source: firing(t, "NodeHealthCheckRemediationCreationFailing"), target: firing(t, "NodeHealthCheckAPIRequestFailing", "verb", "POST"), want: true},
		"a read that fails besides":     {source: firing(t, "NodeHealthCheckRemediationCreationFailing"), target: firing(t, "NodeHealthCheckAPIRequestFailing", "verb", "GET")},
		"a watch that fails":            {source: firing(t, "NodeHealthCheckWatchFailing", "cache", "nodes"), target: firing(t, "NodeHealthCheckAPIRequestFailing", "verb", "GET"), want: true},
		"a write that fails besides":    {source: firing(t, "NodeHealthCheckWatchFailing", "cache", "nodes"), target: firing(t, "NodeHealthCheckAPIRequestFailing", "verb", "PUT")},
		"a backlog behind a stuck sync": {source: firing(t, "NodeHealthCheckSyncStuck"), target: firing(t, "NodeHealthCheckSyncBacklog"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, inhibits(rules, tc.source, tc.target))
		})
	}
}

// TestInhibitionsBySeverity: whichever alerts there are, none hides one that is more severe.
func TestInhibitionsBySeverity(t *testing.T) {
	t.Parallel()
	severity := map[model.LabelValue]int{"info": 1, "warning": 2, "critical": 3}
	rules, inhibiting := inhibitions(t), 0
	var all []model.LabelSet
	for name := range alerts(t) {
		all = append(all, firing(t, name, "verb", "GET"), firing(t, name, "verb", "POST"))
	}
	for _, source := range all {
		for _, target := range all {
			if inhibits(rules, source, target) {
				inhibiting++
				require.GreaterOrEqual(t, severity[source["severity"]], severity[target["severity"]], "%s hides %s", source, target)
				require.False(t, inhibits(rules, target, source), "%s and %s hide each other", source, target)
			}
		}
	}
	require.Greater(t, inhibiting, 40)
}
