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

// TestInhibitions: one cause notifies once, and never hides an alert that is more severe or
// elsewhere.
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
		"no controller elsewhere":    {source: firing(t, "NodeHealthCheckControllerAbsent", "cluster", "west"), target: gate},
		"no leader":                  {source: firing(t, "NodeHealthCheckNoLeader"), target: firing(t, "NodeHealthCheckRemediationRunningLong", "node", "n1"), want: true},
		"no leader, and Machines":    {source: firing(t, "NodeHealthCheckNoLeader"), target: firing(t, "MachineHealthCheckShortCircuit", "exported_namespace", "machines", "name", "workers"), want: true},
		"no leader, and budgets":     {source: firing(t, "NodeHealthCheckNoLeader"), target: firing(t, "RemediationBudgetExhausted", "budget", "zones"), want: true},
		"another budget":             {source: firing(t, "RemediationBudgetInvalid", "budget", "zones"), target: firing(t, "RemediationBudgetExhausted", "budget", "pace")},
		"a closed gate and a budget": {source: gate, target: firing(t, "RemediationBudgetExhausted", "budget", "zones")},
		"an alert of others":         {source: absent, target: model.LabelSet{"alertname": "KubeNodeNotReady", "cluster": "east", "namespace": "nhc-system"}},
		"a storm of other nodes":     {source: gate, target: firing(t, "NodeHealthCheckStormActive", "nodehealthcheck", "masters")},
		"all remediations failed":    {source: gate, target: firing(t, "NodeHealthCheckRemediationExhausted", "nodehealthcheck", "workers")},
		"what it costs":              {source: errors, target: firing(t, "NodeHealthCheckRemediationCreationFailing", "nodehealthcheck", "workers")},
		"a read that fails besides":  {source: firing(t, "NodeHealthCheckRemediationCreationFailing"), target: firing(t, "NodeHealthCheckAPIRequestFailing", "method", "GET")},
		"a write that fails besides": {source: firing(t, "NodeHealthCheckWatchFailing", "cache", "nodes"), target: firing(t, "NodeHealthCheckAPIRequestFailing", "method", "PUT")},
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

// cause is something that goes wrong, with all alerts that fire for it, as promtool tests them one by one. The first one
// notifies.
type cause struct {
	name   string
	alerts []model.LabelSet
}

// causes have every alert at least once.
func causes(t *testing.T) []cause {
	t.Helper()
	of := func(name string, more ...string) model.LabelSet { return firing(t, name, more...) }
	workers := []string{"nodehealthcheck", "workers"}
	machines := []string{"exported_namespace", "machines", "name", "workers"}
	return []cause{
		{"no controller, in the middle of a failure", []model.LabelSet{of("NodeHealthCheckControllerAbsent"), of("NodeHealthCheckGateClosed", workers...), of("MachineHealthCheckShortCircuit", machines...), of("NodeHealthCheckWatchFailing", "cache", "nodes")}},
		{"no leader, in the middle of a failure", []model.LabelSet{of("NodeHealthCheckNoLeader"), of("NodeHealthCheckRemediationExhausted", workers...), of("NodeHealthCheckSyncBacklog"), of("NodeHealthCheckCertificateExpiring")}},
		{"a request hangs", []model.LabelSet{of("NodeHealthCheckSyncStuck"), of("NodeHealthCheckSyncBacklog"), of("NodeHealthCheckAPIErrors"), of("NodeHealthCheckAPIRequestFailing", "method", "GET")}},
		{"the API server is overloaded", []model.LabelSet{of("NodeHealthCheckAPIErrors"), of("NodeHealthCheckSyncBacklog"), of("NodeHealthCheckAPIRequestFailing", "method", "GET"), of("NodeHealthCheckAPIRequestFailing", "method", "PUT")}},
		{"a permission to update is missing", []model.LabelSet{of("NodeHealthCheckAPIRequestFailing", "method", "PUT")}},
		{"a permission to create is missing", []model.LabelSet{of("NodeHealthCheckRemediationCreationFailing", workers...), of("NodeHealthCheckAPIRequestFailing", "method", "POST")}},
		{"a permission to watch is missing", []model.LabelSet{
			of("NodeHealthCheckWatchFailing", "cache", "remediationbudgets"), of("NodeHealthCheckAPIRequestFailing", "method", "GET"),
			of("NodeHealthCheckNodesWaiting", append(workers, "reason", "BudgetExhausted")...), of("MachineHealthCheckMachinesWaiting", append(machines, "reason", "BudgetExhausted")...),
		}},
		{"too many NodeHealthChecks", []model.LabelSet{of("NodeHealthCheckSyncBacklog")}},
		{"a clock that is corrected", []model.LabelSet{of("NodeHealthCheckClockUntrusted"), of("NodeHealthCheckClockSkew")}},
		{"a clock that is slightly ahead", []model.LabelSet{of("NodeHealthCheckClockSkew")}},
		{"a certificate is not renewed", []model.LabelSet{of("NodeHealthCheckCertificateExpiring")}},
		{"a template is missing", []model.LabelSet{of("NodeHealthCheckDisabled", workers...)}},
		{"a pause was forgotten", []model.LabelSet{of("NodeHealthCheckPaused", workers...)}},
		{"a mass failure", []model.LabelSet{of("NodeHealthCheckGateClosed", workers...), of("NodeHealthCheckStormActive", workers...)}},
		{"a storm that does not end", []model.LabelSet{of("NodeHealthCheckStormActive", workers...)}},
		{"a limit that no cluster meets", []model.LabelSet{of("NodeHealthCheckGateClosedWithoutFailure", workers...)}},
		{"a selector that is wrong", []model.LabelSet{of("NodeHealthCheckSelectsNoNode", workers...)}},
		{"two selectors of the same nodes", []model.LabelSet{of("NodeHealthCheckSelectorOverlap")}},
		{"a pool without a NodeHealthCheck", []model.LabelSet{of("NodeHealthCheckNodesUncovered")}},
		{"a machine that is broken", []model.LabelSet{of("NodeHealthCheckRemediationExhausted", workers...)}},
		{"a remediator that does not help", []model.LabelSet{of("NodeHealthCheckRemediationFailed", append(workers, "remediation", "PowerCycleRemediation")...)}},
		{"a fault that comes back", []model.LabelSet{of("NodeHealthCheckNodeRemediatedRepeatedly", append(workers, "node", "n1")...)}},
		{"a remediator that hangs", []model.LabelSet{of("NodeHealthCheckRemediationRunningLong", append(workers, "node", "n1")...)}},
		{"a delay that does not end", []model.LabelSet{of("NodeHealthCheckOldRemediation", "node", "n1")}},
		{"a lease of another controller", []model.LabelSet{of("NodeHealthCheckNodesWaiting", append(workers, "reason", "LeaseTaken")...)}},
		{"a budget that is wrong", []model.LabelSet{of("RemediationBudgetInvalid", "budget", "zones"), of("RemediationBudgetExhausted", "budget", "zones")}},
		{"a budget that is small", []model.LabelSet{of("RemediationBudgetExhausted", "budget", "zones")}},
		{"too many Machines", []model.LabelSet{of("MachineHealthCheckShortCircuit", machines...)}},
		{"a Machine without an owner", []model.LabelSet{of("MachineHealthCheckMachinesWaiting", append(machines, "reason", "NoController")...)}},
		{"a provider that does not delete", []model.LabelSet{of("MachineHealthCheckRemediationOverdue", machines...)}},
		{"an image that does not boot", []model.LabelSet{of("MachineHealthCheckBackOff")}},
		{"two controllers of Machines", []model.LabelSet{of("MachineHealthCheckNotActive")}},
	}
}

// TestOneCauseNotifiesOnce: of the alerts that fire for a cause, all but the first are inhibited. Every alert notifies of
// some cause.
func TestOneCauseNotifiesOnce(t *testing.T) {
	t.Parallel()
	rules := inhibitions(t)
	silent := alerts(t)
	for _, cause := range causes(t) {
		var notify []model.LabelSet
		for _, target := range cause.alerts {
			if !slices.ContainsFunc(cause.alerts, func(source model.LabelSet) bool { return inhibits(rules, source, target) }) {
				notify = append(notify, target)
			}
		}
		require.Equal(t, cause.alerts[:1], notify, cause.name)
		delete(silent, string(notify[0]["alertname"]))
	}
	require.Empty(t, silent, "no cause has them")
}
