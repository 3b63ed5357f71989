// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// machineDeletionTemplate deletes Machines. It does not go with maxUnhealthy, which may
// allow too many deletions.
const machineDeletionTemplate = "MachineDeletionRemediationTemplate"

// SpecProblem returns the message of the first rule of admission that the spec
// breaks, and "" if it breaks none. The API server applies the same rules, but
// not to what was stored before the rules were installed.
//
// An empty selector is no problem here, although admission denies it: stored
// NodeHealthChecks with one continue to observe all nodes.
func SpecProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	for _, rule := range []func(*v1alpha1.NodeHealthCheckSpec) string{
		limitProblem,
		machineDeletionProblem,
		selectorProblem,
		templateProblem,
		stepProblem,
		conditionProblem,
		modeProblem,
	} {
		if problem := rule(spec); problem != "" {
			return problem
		}
	}
	return ""
}

func modeProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	if spec.Mode != "" && spec.Mode != v1alpha1.ModeEnforce && spec.Mode != v1alpha1.ModeDryRun {
		return fmt.Sprintf("mode must be Enforce or DryRun: %s", spec.Mode)
	}
	return ""
}

func limitProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	switch {
	case spec.MinHealthy != nil && spec.MaxUnhealthy != nil:
		return "minHealthy and maxUnhealthy cannot be specified at the same time"
	case spec.MinHealthy == nil && spec.MaxUnhealthy == nil:
		return "one of minHealthy and maxUnhealthy should be specified"
	case negative(spec.MinHealthy):
		return fmt.Sprintf("minHealthy must not be negative: %d", spec.MinHealthy.IntVal)
	case negative(spec.MaxUnhealthy):
		return fmt.Sprintf("maxUnhealthy must not be negative: %d", spec.MaxUnhealthy.IntVal)
	}
	return ""
}

func negative(limit *intstr.IntOrString) bool {
	return limit != nil && limit.Type == intstr.Int && limit.IntVal < 0
}

func machineDeletionProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	if spec.MaxUnhealthy == nil {
		return ""
	}
	if spec.RemediationTemplate != nil && strings.EqualFold(spec.RemediationTemplate.Kind, machineDeletionTemplate) {
		return "maxUnhealthy can't be used with " + machineDeletionTemplate
	}
	if slices.ContainsFunc(spec.EscalatingRemediations, func(step v1alpha1.EscalatingRemediation) bool {
		return strings.EqualFold(step.RemediationTemplate.Kind, machineDeletionTemplate)
	}) {
		return "maxUnhealthy can't be used with " + machineDeletionTemplate + " escalating remediation"
	}
	return ""
}

// selectorProblem does not quote the error, which names any one of several labels.
func selectorProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	if _, err := metav1.LabelSelectorAsSelector(&spec.Selector); err != nil {
		return "Invalid selector: an operator, a key or a value is none that a label selector may have"
	}
	return ""
}

func templateProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	escalating := len(spec.EscalatingRemediations) > 0
	switch {
	case spec.RemediationTemplate == nil && !escalating:
		return "Either RemediationTemplate or at least one EscalatingRemediations must be set"
	case spec.RemediationTemplate != nil && escalating:
		return "RemediationTemplate and EscalatingRemediations usage is mutual exclusive"
	case slices.ContainsFunc(Steps(spec), Step.Incomplete):
		return "remediationTemplate must have apiVersion, kind and name"
	}
	return ""
}

func stepProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	steps := map[int32]int{}
	for _, step := range spec.EscalatingRemediations {
		steps[step.Order]++
	}
	for _, step := range spec.EscalatingRemediations {
		if steps[step.Order] > 1 {
			return fmt.Sprintf("EscalatingRemediation Order must be unique: found duplicate order %d", step.Order)
		}
	}
	for _, step := range spec.EscalatingRemediations {
		if step.Timeout.Duration < v1alpha1.MinimumTimeout {
			return fmt.Sprintf("EscalatingRemediation Timeout must be at least one minute: found timeout %s", step.Timeout.Duration)
		}
	}
	templates := map[corev1.ObjectReference]int{}
	for i := range spec.EscalatingRemediations {
		templates[templateOf(&spec.EscalatingRemediations[i])]++
	}
	for i := range spec.EscalatingRemediations {
		if template := templateOf(&spec.EscalatingRemediations[i]); templates[template] > 1 {
			return duplicateTemplate(&template)
		}
	}
	return ""
}

func duplicateTemplate(reference *corev1.ObjectReference) string {
	return fmt.Sprintf("EscalatingRemediation RemediationTemplate must be unique: found duplicate %s %s/%s", reference.Kind, reference.Namespace, reference.Name)
}

// templateOf returns what identifies the template of a step (spec 4.3).
func templateOf(step *v1alpha1.EscalatingRemediation) corev1.ObjectReference {
	reference := &step.RemediationTemplate
	return corev1.ObjectReference{Kind: reference.Kind, Namespace: reference.Namespace, Name: reference.Name}
}

// conditionProblem finds a spec without conditions. Such a spec cannot judge any node
// (spec 4.2).
func conditionProblem(spec *v1alpha1.NodeHealthCheckSpec) string {
	if len(spec.UnhealthyConditions) == 0 {
		return "unhealthyConditions must not be empty, leave it out for the default"
	}
	return ""
}
