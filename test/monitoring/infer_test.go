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

// own reports whether nobody else has metrics of this name.
func own(name string) bool {
	return strings.HasPrefix(name, "nhc_") || strings.HasPrefix(name, "nodehealthcheck_")
}

// check parses an expression, and returns the labels that its result has and the
// names of the series it reads. It fails if the expression cannot mean what it says:
// it reads a series, a label or a value that does not exist.
func (c catalogue) check(query string) (result, series []string, err error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, nil, err
	}
	var problems []error
	result = c.infer(expr, func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, is := node.(*parser.VectorSelector); is {
			series = append(series, selector.Name)
		}
		return nil
	})
	return result, series, errors.Join(problems...)
}

type complaint func(format string, args ...any)

// infer returns the labels that the result of an expression has.
func (c catalogue) infer(expr parser.Expr, complain complaint) []string {
	switch e := expr.(type) {
	case *parser.VectorSelector:
		return c.selector(e, complain)
	case *parser.MatrixSelector:
		return c.infer(e.VectorSelector, complain)
	case *parser.SubqueryExpr:
		return c.infer(e.Expr, complain)
	case *parser.ParenExpr:
		return c.infer(e.Expr, complain)
	case *parser.UnaryExpr:
		return c.infer(e.Expr, complain)
	case *parser.StepInvariantExpr:
		return c.infer(e.Expr, complain)
	case *parser.AggregateExpr:
		inner := c.infer(e.Expr, complain)
		contained(e.Grouping, inner, complain)
		if e.Without {
			return without(inner, e.Grouping)
		}
		if e.Op == parser.TOPK || e.Op == parser.BOTTOMK {
			return inner
		}
		return e.Grouping
	case *parser.BinaryExpr:
		return c.binary(e, complain)
	case *parser.Call:
		return c.call(e, complain)
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nil
	default:
		complain("the test does not know %T", expr)
		return nil
	}
}

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

func (c catalogue) binary(e *parser.BinaryExpr, complain complaint) []string {
	left, right := c.infer(e.LHS, complain), c.infer(e.RHS, complain)
	if e.LHS.Type() == parser.ValueTypeScalar {
		return right
	}
	matching := e.VectorMatching
	if e.RHS.Type() == parser.ValueTypeScalar || matching == nil {
		return left
	}
	if matching.On {
		contained(matching.MatchingLabels, left, complain)
		contained(matching.MatchingLabels, right, complain)
	} else if e.Op != parser.LOR && !sameSet(without(left, matching.MatchingLabels), without(right, matching.MatchingLabels)) {
		complain("%s: the sides have different labels: %v and %v", e, left, right)
	}
	switch {
	case e.Op == parser.LOR:
		return slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(left), right...))))
	case e.Op.IsSetOperator(), e.Op.IsComparisonOperator() && !e.ReturnBool, matching.Card == parser.CardManyToOne:
		return append(slices.Clone(left), matching.Include...)
	case matching.Card == parser.CardOneToMany:
		return append(slices.Clone(right), matching.Include...)
	case matching.On:
		return matching.MatchingLabels
	default:
		return without(left, matching.MatchingLabels)
	}
}

func (c catalogue) call(call *parser.Call, complain complaint) []string {
	var result []string
	for _, arg := range call.Args {
		if arg.Type() == parser.ValueTypeVector || arg.Type() == parser.ValueTypeMatrix {
			result = c.infer(arg, complain)
		}
	}
	switch call.Func.Name {
	case "histogram_quantile":
		contained([]string{"le"}, result, complain)
		return without(result, []string{"le"})
	case "label_replace":
		return append(slices.Clone(result), call.Args[1].(*parser.StringLiteral).Val)
	case "absent", "absent_over_time", "scalar", "label_join":
		return nil // Nothing here relies on what they add.
	default:
		return result
	}
}

func contained(wanted, existing []string, complain complaint) {
	for _, label := range wanted {
		if !slices.Contains(existing, label) {
			complain("there is no label %q, but %v", label, existing)
		}
	}
}

func without(all, removed []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(label string) bool { return slices.Contains(removed, label) })
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
