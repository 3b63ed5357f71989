// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests manifests/monitoring and docs/runbooks.
// hack/verify-monitoring.sh runs it.
package monitoring

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// job is the job of the controller in Prometheus.
const job = "nhc-controller"

// Metric is a metric that the controller has, in the list that TestListMetrics of
// the controller writes.
type Metric struct {
	Name   string              `json:"name"`
	Type   string              `json:"type"`
	Labels []string            `json:"labels"`
	Values map[string][]string `json:"values"`
}

// targetLabels are what Prometheus and its operator add to each series.
var targetLabels = []string{"cluster", "job", "instance", "namespace", "service", "pod", "container", "endpoint"}

// catalogue knows all series there are, by name.
type catalogue map[string]Metric

// newCatalogue adds what follows from the metrics: the series of histograms, and
// those that Prometheus makes for each target.
func newCatalogue(metrics []Metric) catalogue {
	c := catalogue{}
	for _, metric := range metrics {
		all := slices.Clone(targetLabels)
		for _, label := range metric.Labels {
			if slices.Contains(targetLabels, label) {
				label = "exported_" + label
			}
			all = append(all, label)
		}
		metric.Labels = all
		if metric.Type != "histogram" {
			c[metric.Name] = metric
			continue
		}
		c[metric.Name+"_sum"], c[metric.Name+"_count"] = metric, metric
		bucket := metric
		bucket.Labels = append([]string{"le"}, metric.Labels...)
		c[metric.Name+"_bucket"] = bucket
	}
	for _, name := range []string{"up", "scrape_duration_seconds"} {
		c[name] = Metric{Name: name, Type: "gauge", Labels: targetLabels}
	}
	return c
}

// addAlerts adds the series that Prometheus makes of alerts, with the labels that ours have.
func (c catalogue) addAlerts(names []string) {
	c[alertSeries] = Metric{
		Name: alertSeries, Type: "gauge", Labels: append([]string{"alertname", "alertstate", "severity", "nodehealthcheck", "node", "reason", "remediation", "budget", "exported_namespace", "name"}, targetLabels...),
		Values: map[string][]string{"alertname": names, "alertstate": {"pending", "firing"}},
	}
}

const alertSeries = "ALERTS"

// ourAlerts is how the dashboard selects all of our alerts.
const ourAlerts = "(NodeHealthCheck|MachineHealthCheck|RemediationBudget).+"

// own reports whether only this project has metrics of this name.
func own(name string) bool {
	return strings.HasPrefix(name, "nhc_") || strings.HasPrefix(name, "nodehealthcheck_")
}

// check parses an expression, and returns the labels that its result may have, and the names of the
// series that it reads. It fails if it reads or groups by a series, a label or a value that does not
// exist. What the result of an alert really has is up to the tests of promtool.
func (c catalogue) check(query string) (result, series []string, err error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, nil, err
	}
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	// replaced are the labels that label_replace adds, outermost those of the outermost aggregation.
	var known, named, replaced, outermost []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch e := node.(type) {
		case *parser.VectorSelector:
			series = append(series, e.Name)
			known = append(known, c.selector(e, complain)...)
		case *parser.AggregateExpr:
			named = append(named, e.Grouping...)
			if outermost == nil && !e.Without {
				outermost = e.Grouping
			}
		case *parser.BinaryExpr:
			if e.VectorMatching != nil {
				named = append(named, e.VectorMatching.MatchingLabels...)
			}
		case *parser.Call:
			switch e.Func.Name {
			case "histogram_quantile":
				named = append(named, "le")
			case "label_replace":
				replaced = append(replaced, e.Args[1].(*parser.StringLiteral).Val)
			}
		}
		return nil
	})
	for _, label := range named {
		if !slices.Contains(known, label) && !slices.Contains(replaced, label) {
			complain("there is no label %q, but %v", label, known)
		}
	}
	result = known
	if outermost != nil {
		result = outermost
	}
	return slices.Concat(result, replaced), series, errors.Join(problems...)
}

type complaint func(format string, args ...any)

func (c catalogue) selector(selector *parser.VectorSelector, complain complaint) []string {
	metric, exists := c[selector.Name]
	if !exists {
		complain("there is no series %q", selector.Name)
		return nil
	}
	ofJob := own(selector.Name)
	for _, matcher := range selector.LabelMatchers {
		switch {
		case matcher.Name == "__name__":
			continue
		case !slices.Contains(metric.Labels, matcher.Name):
			complain("%s has no label %q", selector.Name, matcher.Name)
			continue
		case strings.Contains(matcher.Value, "$"): // A variable of the dashboard.
			continue
		}
		values := metric.Values[matcher.Name]
		if matcher.Name == "job" {
			ofJob = true
			values = []string{job}
		}
		ofJob = ofJob || matcher.Name == "alertname"
		if values == nil || (selector.Name == alertSeries && matcher.Value == ourAlerts) {
			continue
		}
		named := matcher.SetMatches()
		if matcher.Type == labels.MatchEqual || matcher.Type == labels.MatchNotEqual {
			named = []string{matcher.Value}
		}
		if len(named) == 0 {
			complain("%s: %s is no list of values", selector.Name, matcher)
		}
		for _, value := range named {
			if !slices.Contains(values, value) {
				complain("%s: %s is never %q", selector.Name, matcher.Name, value)
			}
		}
	}
	if !ofJob {
		complain("%s is not only ours, and needs the matcher job=%q", selector.Name, job)
	}
	return metric.Labels
}
