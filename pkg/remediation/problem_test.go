// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func step(kind, namespace, name string) Step {
	return Step{Reference: corev1.ObjectReference{APIVersion: testGroupVersion, Kind: kind, Namespace: namespace, Name: name}}
}

// rebootStep refers to the template that reboot returns.
func rebootStep() Step { return step(testKind+"Template", testNamespace, "reboot") }

func ofVersion(s Step, apiVersion string) Step {
	s.Reference.APIVersion = apiVersion
	return s
}

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		got             *Problem
		reason, message string
	}{
		"6.1 not found": {
			got:     Missing(rebootStep().Reference),
			reason:  "RemediationTemplateNotFound",
			message: "Remediation template not found: there is no RebootRemediationTemplate remediators/reboot",
		},
		"6.1 cluster-scoped": {
			got:     Missing(step(testKind+"Template", "", "reboot").Reference),
			reason:  "RemediationTemplateNotFound",
			message: "Remediation template not found: there is no RebootRemediationTemplate reboot",
		},
		"6.1 no namespace": {
			got:     CheckScope(step(testKind+"Template", "", "reboot"), true),
			reason:  "RemediationTemplateNotFound",
			message: "Remediation template not found: RebootRemediationTemplate is a namespaced kind, but no namespace is provided for reboot",
		},
		"6.1 invalid": {
			got:     CheckTemplate([]Step{rebootStep()}, rebootStep(), reboot(func(t *object.Template) { t.Spec = nil })),
			reason:  "RemediationTemplateInvalid",
			message: `Remediation template is invalid: "invalid template remediators/reboot, didn't find spec.template.spec"`,
		},
		"6.1 the same kind twice": {
			got:     CheckTemplate([]Step{rebootStep(), step(testKind+"Template", testNamespace, "other")}, rebootStep(), reboot()),
			reason:  "RemediationTemplateInvalid",
			message: `Remediation template is invalid: "Using multiple templates of same kind is not supported for this template: RebootRemediationTemplate"`,
		},
		"6.1 an invalid template is reported before its kind": {
			got:     CheckTemplate([]Step{rebootStep(), rebootStep()}, rebootStep(), reboot(func(t *object.Template) { t.Spec = nil })),
			reason:  "RemediationTemplateInvalid",
			message: `Remediation template is invalid: "invalid template remediators/reboot, didn't find spec.template.spec"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, &Problem{Reason: tc.reason, Message: tc.message}, tc.got)
		})
	}
}

func TestForbiddenProblem(t *testing.T) {
	t.Parallel()
	problem := Forbidden("create", schema.GroupResource{Group: "example.com", Resource: "rebootremediations"})
	require.Equal(t, "RemediationTemplateForbidden", problem.Reason)
	for _, part := range []string{"create", "rebootremediations", "example.com", `rbac.ext-remediation/aggregate-to-ext-remediation: "true"`} {
		require.Contains(t, problem.Message, part, "6.1: verb, resource and group, and the aggregation label")
	}
}

func TestCheckReference(t *testing.T) {
	t.Parallel()
	require.Nil(t, CheckReference(rebootStep()))
	for _, kind := range []string{"RebootRemediation", "Template"} {
		problem := CheckReference(step(kind, "n", "x"))
		require.NotNil(t, problem, "6.1 %q", kind)
		require.Equal(t, "RemediationTemplateInvalid", problem.Reason)
		require.Contains(t, problem.Message, kind, "6.1: names the kind")
		require.Contains(t, problem.Message, "suffix Template", "6.1: and the missing suffix")
	}
}

// TestReferenceIsIncomplete: O11 such a spec is invalid, and no problem of its template (spec 4.3, 4.7).
func TestReferenceIsIncomplete(t *testing.T) {
	t.Parallel()
	require.False(t, rebootStep().Incomplete())
	for _, incomplete := range []Step{step("", "n", "x"), step("RebootRemediation", "n", ""), ofVersion(rebootStep(), "")} {
		require.True(t, incomplete.Incomplete(), "%v", incomplete)
		require.Nil(t, CheckReference(incomplete), "%v", incomplete)
	}
}

// TestCheckUnique: references that differ in a namespace that means nothing are to the same template
// (spec 4.3, 6.1).
func TestCheckUnique(t *testing.T) {
	t.Parallel()
	at := func(order int32, s Step, namespace string) Step {
		s.Order, s.Reference.Namespace = order, namespace
		return s
	}
	one, two := at(1, rebootStep(), "a"), at(2, rebootStep(), "b")
	const message = `Remediation template is invalid: "EscalatingRemediation RemediationTemplate must be unique: found duplicate RebootRemediationTemplate a/reboot"`
	for name, tc := range map[string]struct {
		steps      []Step
		namespaced bool
		want       string
	}{
		"6.1 two namespaces of a cluster-scoped kind": {steps: []Step{one, two}, want: message},
		"6.1 another version is no other template":    {steps: []Step{ofVersion(one, "example.com/v2"), two}, want: message},
		"6.1 two namespaces of a namespaced kind":     {steps: []Step{one, two}, namespaced: true},
		"6.1 another group":                           {steps: []Step{ofVersion(one, "example.org/v1"), two}},
		"6.1 another name":                            {steps: []Step{at(1, step(testKind+"Template", "a", "other"), "a"), two}},
		"6.1 the only one":                            {steps: []Step{two}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problem := CheckUnique(tc.steps, tc.steps[0], tc.namespaced)
			require.Equal(t, problem == nil, CheckUnique(tc.steps, two, tc.namespaced) == nil)
			if tc.want == "" {
				require.Nil(t, problem)
				return
			}
			require.Equal(t, &Problem{Reason: "RemediationTemplateInvalid", Message: tc.want}, problem)
		})
	}
}

func TestCheckScope(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		namespace  string
		namespaced bool
		problem    bool
	}{
		"6.1 namespaced with a namespace":        {namespace: "n", namespaced: true},
		"6.1 namespaced without a namespace":     {namespaced: true, problem: true},
		"6.1 cluster-scoped without a namespace": {},
		"6.1 cluster-scoped with a namespace":    {namespace: "n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := CheckScope(step("RebootTemplate", tc.namespace, "x"), tc.namespaced)
			require.Equal(t, tc.problem, got != nil)
			if tc.problem {
				require.Equal(t, "RemediationTemplateNotFound", got.Reason)
				require.Contains(t, got.Message, "no namespace is provided")
			}
		})
	}
}

func TestCheckRemediationScope(t *testing.T) {
	t.Parallel()
	require.Nil(t, CheckRemediationScope(rebootStep(), true, true))
	require.Nil(t, CheckRemediationScope(rebootStep(), false, false))
	for _, templateNamespaced := range []bool{true, false} {
		problem := CheckRemediationScope(rebootStep(), templateNamespaced, !templateNamespaced)
		require.NotNil(t, problem)
		require.Equal(t, "RemediationTemplateInvalid", problem.Reason)
		require.Contains(t, problem.Message, "kinds RebootRemediationTemplate and RebootRemediation must")
	}
}

func TestCheckTemplateOfSameKind(t *testing.T) {
	t.Parallel()
	other := step(testKind+"Template", "elsewhere", "other")
	tests := map[string]struct {
		steps    []Step
		template *object.Template
		problem  bool
	}{
		"6.1 the only one":                    {steps: []Step{rebootStep()}, template: reboot()},
		"6.1 of two kinds":                    {steps: []Step{rebootStep(), step("FenceTemplate", testNamespace, "reboot")}, template: reboot()},
		"6.1 the same kind in another group":  {steps: []Step{rebootStep(), ofVersion(rebootStep(), "example.org/v1")}, template: reboot()},
		"6.1 two of one kind, supported":      {steps: []Step{rebootStep(), other}, template: reboot(supportsMultiple)},
		"6.1 two of one kind, not supported":  {steps: []Step{rebootStep(), other}, template: reboot(), problem: true},
		"6.1 the position does not matter":    {steps: []Step{other, rebootStep()}, template: reboot(), problem: true},
		"6.1 another version is no other one": {steps: []Step{rebootStep(), ofVersion(other, "example.com/v2")}, template: reboot(), problem: true},
		"6.1 the same template twice":         {steps: []Step{rebootStep(), rebootStep()}, template: reboot(), problem: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.problem, CheckTemplate(tc.steps, rebootStep(), tc.template) != nil)
		})
	}
}
