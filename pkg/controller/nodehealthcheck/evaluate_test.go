// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestConstraints: what a sync has seen becomes the circumstances that TestPermissions
// judges.
func TestConstraints(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nhc      func(*v1alpha1.NodeHealthCheck)
		observed func(*snapshot)
		node     func(*corev1.Node)
		want     remediation.Constraints
	}{
		"5.2 nothing": {},
		"5.2 Disabled by its templates": {
			observed: func(s *snapshot) { s.templates.problem = &remediation.Problem{} },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"6.5 P5 templates that were not read": {
			observed: func(s *snapshot) { s.templates.unknown, s.templates.templates = true, nil },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"6.5 P1 a template that was not read concerns its step": {
			observed: func(s *snapshot) { s.templates.unknown, s.templates.templates = true, []*object.Template{{}, nil} },
		},
		"6.5 unless the condition is True and stays so": {
			nhc: func(nhc *v1alpha1.NodeHealthCheck) {
				nhc.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDisabled, Status: metav1.ConditionTrue}}
			},
			observed: func(s *snapshot) { s.templates.unknown, s.templates.templates = true, []*object.Template{{}, nil} },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"6.9 P5 MachineHealthChecks that were not read": {
			observed: func(s *snapshot) { s.platform.unknown = true },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"5.2 a conflict": {
			observed: func(s *snapshot) { s.platform.conflict = true },
			want:     remediation.Constraints{Conflict: true},
		},
		"a clock that cannot be trusted": {
			observed: func(s *snapshot) { s.clockUntrusted = true },
			want:     remediation.Constraints{ClockUntrusted: true},
		},
		"10.1 paused": {
			nhc:  func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{"maintenance"} },
			want: remediation.Constraints{Paused: true},
		},
		"10.1 paused by an empty request": {
			nhc:  func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{""} },
			want: remediation.Constraints{Paused: true},
		},
		"10.2 upgrading": {
			observed: func(s *snapshot) { s.platform.progressing = true },
			want:     remediation.Constraints{Upgrading: true},
		},
		"8.5 the gate is closed": {
			nhc:  func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.MinHealthy = new(intstr.FromInt32(2)) },
			want: remediation.Constraints{GateClosed: true},
		},
		"9.6 a storm": {
			nhc: func(nhc *v1alpha1.NodeHealthCheck) {
				nhc.Spec.StormCooldownDuration, nhc.Status.StormRecoveryActive = &metav1.Duration{Duration: time.Hour}, new(true)
			},
			want: remediation.Constraints{Storm: true},
		},
		"4.7 a stored spec that breaks a rule": {
			observed: func(s *snapshot) { s.specProblem = "Selector is mandatory" },
			want:     remediation.Constraints{InvalidSpec: true},
		},
		"4.8 being deleted": {
			nhc:  func(nhc *v1alpha1.NodeHealthCheck) { nhc.DeletionTimestamp = &metav1.Time{Time: epoch} },
			want: remediation.Constraints{Terminating: true},
		},
		"15.1 excluded":       {node: labelled(v1alpha1.LabelExclude, "true"), want: remediation.Constraints{NodeConstraints: remediation.NodeConstraints{Excluded: true}}},
		"15.2 another value":  {node: labelled(v1alpha1.LabelExclude, "yes")},
		"15.2 in upper case":  {node: labelled(v1alpha1.LabelExclude, "True")},
		"15.2 an empty value": {node: labelled(v1alpha1.LabelExclude, "")},
		"15.1 not by an annotation": {
			node: annotated(v1alpha1.LabelExclude, "true"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.MinHealthy = new(intstr.FromInt32(0)) })
			node := testNode("n")
			if tc.nhc != nil {
				tc.nhc(nhc)
			}
			if tc.node != nil {
				tc.node(node)
			}
			s := testSnapshot(nhc, node)
			s.templates.templates = []*object.Template{{}}
			if tc.observed != nil {
				tc.observed(s)
			}
			evaluate(s, epoch)
			require.Equal(t, tc.want, s.nodes[0].Constraints)
		})
	}
}

// TestNoConditionToJudgeBy: a stored spec without conditions ends nothing that it has begun
// (spec 4.2).
func TestNoConditionToJudgeBy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		conditions []v1alpha1.UnhealthyCondition
		own        []*object.CR
		want       health.Verdict
	}{
		"4.2 a node with a CR":              {own: []*object.CR{testCR("n", "1")}, want: health.Verdict{State: health.SoonUnhealthy}},
		"4.2 a node without":                {},
		"7.3 a condition, and none matches": {own: []*object.CR{testCR("n", "1")}, conditions: []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testSnapshot(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.UnhealthyConditions = tc.conditions }), testNode("n"))
			s.nodes[0].Own = tc.own
			evaluate(s, epoch)
			require.Equal(t, tc.want, s.nodes[0].Verdict)
		})
	}
}

// TestConstraintsOfNodes: what holds for one node only (spec 5.2).
func TestConstraintsOfNodes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node *corev1.Node
		want remediation.Constraints
	}{
		"17.1 it does not exist":           {want: remediation.Constraints{Paused: true, NodeConstraints: remediation.NodeConstraints{NodeDeleted: true}}},
		"17.5 the selector does not match": {node: testNode("n", labelled("role", "infra")), want: remediation.Constraints{Paused: true, NodeConstraints: remediation.NodeConstraints{Unselected: true}}},
		"16.1 it is selected":              {node: testNode("n", labelled("role", "worker")), want: remediation.Constraints{Paused: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testSnapshot(testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
				nhc.Spec.MinHealthy, nhc.Spec.PauseRequests = new(intstr.FromInt32(0)), []string{"holiday"}
			}), testNode("n"))
			s.selector, s.objects[0], s.templates.templates = labels.SelectorFromSet(labels.Set{"role": "worker"}), tc.node, []*object.Template{{}}
			s.nodes[0] = (&Controller{budgets: budget.None{}, machineHealthChecks: noMachineHealthChecks{}}).observeNode(s, nodeObject{name: "n", object: tc.node}, &ownCRs{})
			evaluate(s, epoch)
			require.Equal(t, tc.want, s.nodes[0].Constraints)
		})
	}
}

// TestSummary: which nodes are counted, and as what (spec 7.1, 7.6, 9.1).
func TestSummary(t *testing.T) {
	t.Parallel()
	failing := conditions(testCondition("Ready", "False", epoch))
	soon := conditions(testCondition("Ready", "False", epoch.Add(30*time.Second)))
	s := testSnapshot(testCheck(failsReady), testNode("deleted"), testNode("left", failing), testNode("recovered"), testNode("soon", soon), testNode("unhealthy", failing), testNode("well"))
	s.objects[0], s.observed = nil, 100
	s.objects[1].Labels = map[string]string{"role": "infra"}
	s.selector, _ = labels.Parse("role!=infra")
	for i := range s.nodes {
		facts := factsOf(s.objects[i])
		s.nodes[i].Constraints.NodeConstraints = constraintsOf(s.objects[i], &facts, s.selects(s.objects[i]), "")
	}
	for _, remediated := range []string{"deleted", "left", "recovered"} {
		s.node(remediated).Own = []*object.CR{testCR(remediated, remediated)}
	}
	want := health.Summary{Observed: 100, Healthy: 97, SoonUnhealthy: 1, Unhealthy: 1, Remediated: 1, Recheck: epoch.Add(90 * time.Second)}
	require.Equal(t, want, evaluate(s, epoch.Add(time.Minute)).summary)
	require.Equal(t, health.Unhealthy, s.node("left").Verdict.State, "17.5: it is judged by the same conditions")
}

// TestDryRun: the mode of the spec, or the flag, makes it a dry run (spec 5.5).
func TestDryRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode v1alpha1.Mode
		flag bool
		want bool
	}{
		"5.5 the default":           {},
		"5.5 enforced":              {mode: v1alpha1.ModeEnforce},
		"5.5 a dry run":             {mode: v1alpha1.ModeDryRun, want: true},
		"5.5 a dry run of all":      {flag: true, want: true},
		"5.5 enforced, for nothing": {mode: v1alpha1.ModeEnforce, flag: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testSnapshot(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.Mode = tc.mode }), testNode("n"))
			s.dryRun = tc.flag
			require.Equal(t, tc.want, evaluate(s, epoch).policy.DryRun)
		})
	}
}
