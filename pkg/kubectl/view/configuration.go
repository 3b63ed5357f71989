// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Configuration is what the spec of a NodeHealthCheck says, nil if there is none of this name.
func Configuration(snapshot *Snapshot, name string) *Part {
	i := slices.IndexFunc(snapshot.NodeHealthChecks, func(nhc *v1alpha1.NodeHealthCheck) bool { return nhc.Name == name })
	if i < 0 {
		return nil
	}
	nhc := snapshot.NodeHealthChecks[i]
	spec, limit, delay := &nhc.Spec, Unknown, Unknown
	switch {
	case spec.MinHealthy != nil:
		limit = "minHealthy " + spec.MinHealthy.String()
	case spec.MaxUnhealthy != nil:
		limit = "maxUnhealthy " + spec.MaxUnhealthy.String()
	}
	if spec.HealthyDelay != nil {
		delay = spec.HealthyDelay.Duration.String()
	}
	check := &CheckOfNode{Name: name, Steps: steps(nhc), Rules: spec.UnhealthyConditions}
	return &Part{
		Fields: []Field{{"Selector", Text(metav1.FormatLabelSelector(&spec.Selector))}, {"Limit", Text(limit)}, {"Healthy delay", Text(delay)}},
		Tables: []Table{rulesOf(check), stepsOf(check, time.Time{})},
	}
}

// rulesOf is a table of the unhealthyConditions of a NodeHealthCheck.
func rulesOf(check *CheckOfNode) Table {
	table := Table{Title: "Conditions that " + check.Name + " looks at", Header: []string{"UNHEALTHY IF", "FOR"}}
	for _, rule := range check.Rules {
		table.Add(Text(string(rule.Type)+"="+string(rule.Status)), Text(rule.Duration.Duration.String()))
	}
	return table
}

// steps returns the steps of a NodeHealthCheck, in their order.
func steps(nhc *v1alpha1.NodeHealthCheck) (shown []Step) {
	for _, step := range remediation.Steps(&nhc.Spec) {
		next := Step{Kind: step.Reference.Kind, Template: step.Reference.Namespace + "/" + step.Reference.Name}
		if step.Escalating() {
			next.Timeout = step.Timeout.String()
		}
		shown = append(shown, next)
	}
	return shown
}
