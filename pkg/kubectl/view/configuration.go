// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Configuration is the part of the spec of a NodeHealthCheck that an operator on call needs.
type Configuration struct {
	Selector string `json:"selector"`
	// Limit is minHealthy or maxUnhealthy, empty if neither is given.
	Limit string `json:"limit,omitempty"`
	// Rules are the unhealthyConditions, compared with no node.
	Rules []Rule `json:"rules"`
	Steps []Step `json:"steps,omitempty"`
	// HealthyDelay is absent if the spec has none.
	HealthyDelay string `json:"healthyDelay,omitempty"`
}

// NewConfiguration returns what the spec of a NodeHealthCheck says, nil if there is none of this name.
func NewConfiguration(snapshot *Snapshot, name string) *Configuration {
	for _, nhc := range snapshot.NodeHealthChecks {
		if nhc.Name == name {
			return configurationOf(nhc)
		}
	}
	return nil
}

func configurationOf(nhc *v1alpha1.NodeHealthCheck) *Configuration {
	spec := &nhc.Spec
	configuration := &Configuration{Selector: metav1.FormatLabelSelector(&spec.Selector), Rules: []Rule{}, Steps: steps(nhc)}
	switch {
	case spec.MinHealthy != nil:
		configuration.Limit = "minHealthy " + spec.MinHealthy.String()
	case spec.MaxUnhealthy != nil:
		configuration.Limit = "maxUnhealthy " + spec.MaxUnhealthy.String()
	}
	if spec.HealthyDelay != nil {
		configuration.HealthyDelay = spec.HealthyDelay.Duration.String()
	}
	for _, rule := range spec.UnhealthyConditions {
		configuration.Rules = append(configuration.Rules, newRule(rule))
	}
	return configuration
}

// newRule returns one of the unhealthyConditions, compared with no node.
func newRule(rule v1alpha1.UnhealthyCondition) Rule {
	return Rule{Condition: string(rule.Type) + "=" + string(rule.Status), Duration: rule.Duration.Duration.String()}
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
