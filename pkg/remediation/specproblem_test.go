// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// The rules one by one, against the API server too: test/integration.
func TestSpecProblem(t *testing.T) {
	t.Parallel()
	step := func(order int32, kind string, timeout time.Duration) v1alpha1.EscalatingRemediation {
		return v1alpha1.EscalatingRemediation{
			Order:               order,
			RemediationTemplate: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind, Namespace: "remediators", Name: fmt.Sprint("t", order)},
			Timeout:             metav1.Duration{Duration: timeout},
		}
	}
	named := func(step v1alpha1.EscalatingRemediation, name string) v1alpha1.EscalatingRemediation {
		step.RemediationTemplate.Name = name
		return step
	}
	classic := func(change func(*v1alpha1.NodeHealthCheckSpec)) *v1alpha1.NodeHealthCheckSpec {
		spec := &v1alpha1.NodeHealthCheckSpec{
			Selector:            metav1.LabelSelector{MatchLabels: map[string]string{"example.com/role": "worker"}},
			MinHealthy:          new(intstr.FromString("51%")),
			UnhealthyConditions: []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}},
			RemediationTemplate: &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "ExampleTemplate", Name: "t"},
		}
		change(spec)
		return spec
	}
	escalating := func(steps ...v1alpha1.EscalatingRemediation) *v1alpha1.NodeHealthCheckSpec {
		return classic(func(s *v1alpha1.NodeHealthCheckSpec) {
			s.RemediationTemplate, s.EscalatingRemediations = nil, steps
		})
	}

	const incomplete = "remediationTemplate must have apiVersion, kind and name"
	for name, tc := range map[string]struct {
		spec *v1alpha1.NodeHealthCheckSpec
		want string
	}{
		"classic":       {spec: classic(func(*v1alpha1.NodeHealthCheckSpec) {})},
		"escalating":    {spec: escalating(step(2, "ATemplate", time.Minute), step(-1, "ATemplate", time.Hour))},
		"5.5 a dry run": {spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) { s.Mode = v1alpha1.ModeDryRun })},
		"4.7 a mode of a later version": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) { s.Mode = "Sometimes" }), want: "mode must be Enforce or DryRun: Sometimes",
		},
		"an invalid selector": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) {
				s.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Equals"}}
			}),
			want: "Invalid selector: an operator, a key or a value is none that a label selector may have",
		},
		"an empty selector is stored from earlier": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) { s.Selector = metav1.LabelSelector{} }),
		},
		"nothing at all: the first rule speaks": {
			spec: &v1alpha1.NodeHealthCheckSpec{},
			want: "one of minHealthy and maxUnhealthy should be specified",
		},
		"the limit comes before the selector": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) {
				s.MinHealthy = new(intstr.FromInt32(-3))
				s.Selector.MatchLabels["-"] = ""
			}),
			want: "minHealthy must not be negative: -3",
		},
		"the step with the lower timeout is found wherever it is": {
			spec: escalating(step(1, "ATemplate", time.Hour), step(2, "ATemplate", 59*time.Second)),
			want: "EscalatingRemediation Timeout must be at least one minute: found timeout 59s",
		},
		"every order counts": {
			spec: escalating(step(1, "A", time.Hour), step(7, "A", time.Hour), step(2, "A", time.Hour), step(7, "A", time.Hour)),
			want: "EscalatingRemediation Order must be unique: found duplicate order 7",
		},
		"the same template twice": {
			spec: escalating(step(1, "A", time.Hour), step(2, "B", time.Hour), named(step(3, "B", time.Hour), "t1"), named(step(4, "A", time.Hour), "t1")),
			want: "EscalatingRemediation RemediationTemplate must be unique: found duplicate A remediators/t1",
		},
		"O11 a reference without a name": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) { s.RemediationTemplate.Name = "" }), want: incomplete,
		},
		"O11 an empty reference": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) { s.RemediationTemplate = &corev1.ObjectReference{} }), want: incomplete,
		},
		"O11 a reference without an apiVersion": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) { s.RemediationTemplate.APIVersion = "" }), want: incomplete,
		},
		"4.3 a step whose reference has no kind": {spec: escalating(step(1, "A", time.Hour), step(2, "", time.Hour)), want: incomplete},
		"no condition to watch": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) { s.UnhealthyConditions = []v1alpha1.UnhealthyCondition{} }),
			want: "unhealthyConditions must not be empty, leave it out for the default",
		},
		"the case of the kind does not matter": {
			spec: classic(func(s *v1alpha1.NodeHealthCheckSpec) {
				s.MinHealthy, s.MaxUnhealthy = nil, new(intstr.FromInt32(1))
				s.RemediationTemplate.Kind = "machineDELETIONremediationtemplate"
			}),
			want: "maxUnhealthy can't be used with MachineDeletionRemediationTemplate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, SpecProblem(tc.spec))
		})
	}
}
