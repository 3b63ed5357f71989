// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// TestConstraints: what a sync has seen becomes the circumstances that TestPermissions
// judges.
func TestConstraints(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nhc      func(*v1alpha1.NodeHealthCheck)
		observed func(*Input)
		node     func(*corev1.Node)
		want     remediation.Constraints
	}{
		"5.2 nothing": {},
		"5.2 Disabled by its templates": {
			observed: func(in *Input) { in.Templates.Problem = &remediation.Problem{} },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"6.5 P5 templates that were not read": {
			observed: func(in *Input) { in.Templates.Unknown = true },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"6.8 P5 a kind that was not read": {
			observed: func(in *Input) { in.Templates.Unread = "it cannot be read" },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"6.9 P5 MachineHealthChecks that were not read": {
			observed: func(in *Input) { in.Platform.Unknown = true },
			want:     remediation.Constraints{TemplatesUnusable: true},
		},
		"5.2 a conflict": {
			observed: func(in *Input) { in.Platform.Conflict = true },
			want:     remediation.Constraints{Conflict: true},
		},
		"a clock that cannot be trusted": {
			observed: func(in *Input) { in.ClockUntrusted = true },
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
			observed: func(in *Input) { in.Platform.Upgrading = true },
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
			observed: func(in *Input) { in.SpecProblem = "Selector is mandatory" },
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
			in := testInput(nhc, node)
			in.Templates.Templates = []*object.Template{{}}
			if tc.observed != nil {
				tc.observed(in)
			}
			Evaluate(in, epoch)
			require.Equal(t, tc.want, in.Nodes[0].Constraints)
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
		"4.2 a node with a CR":              {own: []*object.CR{objecttest.CR("n")}, want: health.Verdict{State: health.SoonUnhealthy}},
		"4.2 a node without":                {},
		"7.3 a condition, and none matches": {own: []*object.CR{objecttest.CR("n")}, conditions: []v1alpha1.UnhealthyCondition{{Type: "DiskPressure", Status: "True"}}},
		"7.6 FR-321 it has never reported":  {conditions: []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False"}}, want: health.Verdict{State: health.SoonUnhealthy, Type: "Ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := testInput(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.UnhealthyConditions = tc.conditions }), testNode("n"))
			in.Nodes[0].Own = tc.own
			Evaluate(in, epoch)
			require.Equal(t, tc.want, in.Nodes[0].Verdict)
		})
	}
}

func isReady(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
}

// TestSummary: which nodes are counted, and as what (spec 7.1, 7.6, 9.1).
func TestSummary(t *testing.T) {
	t.Parallel()
	failing := notReadySince(epoch)
	soon := notReadySince(epoch.Add(30 * time.Second))
	in := testInput(testCheck(failsReady), testNode("deleted"), testNode("left", failing), testNode("recovered", isReady), testNode("soon", soon), testNode("unhealthy", failing), testNode("well", isReady))
	in.Objects[0], in.Observed = nil, 100
	for i, name := range []string{"deleted", "left", "recovered", "soon", "unhealthy", "well"} {
		in.Nodes[i] = NewNode(name, in.Objects[i], name != "left", "")
	}
	for i, remediated := range []string{"deleted", "left", "recovered"} {
		in.Nodes[i].Own = []*object.CR{objecttest.CR(remediated)}
	}
	want := health.Summary{Observed: 100, Healthy: 97, SoonUnhealthy: 1, Unhealthy: 1, Remediated: 1, Recheck: epoch.Add(90 * time.Second)}
	result := Evaluate(in, epoch.Add(time.Minute))
	require.Equal(t, want, result.Summary)
	require.Equal(t, want.Recheck, result.Recheck, "21.3: time alone makes the next one unhealthy")
	require.Equal(t, health.Unhealthy, in.Nodes[1].Verdict.State, "17.5: it is judged by the same conditions")
}

// TestTerminatingNodes: nodes that terminate are healthy where MachineHealthChecks replace them.
func TestTerminatingNodes(t *testing.T) {
	t.Parallel()
	terminating := func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Terminating", Status: corev1.ConditionTrue})
	}
	for name, tc := range map[string]struct {
		checks bool
		node   *corev1.Node
		want   health.State
	}{
		"7.7 it terminates":                    {checks: true, node: testNode("n", notReadySince(epoch), terminating), want: health.Healthy},
		"7.7 it does not":                      {checks: true, node: testNode("n", notReadySince(epoch)), want: health.Unhealthy},
		"7.7 there are no MachineHealthChecks": {node: testNode("n", notReadySince(epoch), terminating), want: health.Unhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := testInput(testCheck(failsReady), tc.node)
			in.Platform.MachineHealthChecks = tc.checks
			Evaluate(in, epoch.Add(time.Minute))
			require.Equal(t, tc.want, in.Nodes[0].Verdict.State)
		})
	}
}

// TestUpdateHoldsItsNode: an unhealthy node whose configuration changes counts as rebooted for that, for a while. It
// holds no other (spec 10.2).
func TestUpdateHoldsItsNode(t *testing.T) {
	t.Parallel()
	reconfigured := func(n *corev1.Node) {
		annotated(remediation.AnnotationCurrentConfig, "old")(n)
		annotated(remediation.AnnotationDesiredConfig, "new")(n)
	}
	unhealthy := epoch.Add(time.Minute)
	for name, tc := range map[string]struct {
		node *corev1.Node
		at   time.Time
		want time.Time
	}{
		"10.2 S11 unhealthy, and its configuration changes": {testNode("n", notReadySince(epoch), reconfigured), unhealthy, unhealthy.Add(30 * time.Minute)},
		"10.2 S11 it does not come back":                    {testNode("n", notReadySince(epoch), reconfigured), unhealthy.Add(30 * time.Minute), time.Time{}},
		"10.2 soon unhealthy":                               {testNode("n", notReadySince(epoch.Add(1)), reconfigured), unhealthy, time.Time{}},
		"10.2 healthy, and its configuration changes":       {testNode("n", reconfigured), unhealthy, time.Time{}},
		"10.2 only unhealthy":                               {testNode("n", notReadySince(epoch)), unhealthy, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := testInput(testCheck(failsReady), tc.node, testNode("other", notReadySince(epoch)))
			require.False(t, Evaluate(in, tc.at).Upgrading)
			require.Equal(t, tc.want, in.Nodes[0].Constraints.UpdateEnds)
			require.Zero(t, in.Nodes[1].Constraints.UpdateEnds)
		})
	}
}

// TestUnselectedRecheck: a node that is not selected any more is judged again when its condition
// expires, as long as it has a CR (spec 17.5).
func TestUnselectedRecheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		own  []*object.CR
		want time.Time
	}{
		"17.5 with a CR":    {own: []*object.CR{objecttest.CR("n")}, want: epoch.Add(time.Minute)},
		"17.5 without a CR": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := testNode("n", notReadySince(epoch))
			in := testInput(testCheck(failsReady), node)
			in.Nodes[0] = NewNode("n", node, false, "")
			in.Nodes[0].Own = tc.own
			require.Equal(t, tc.want, Evaluate(in, epoch.Add(time.Second)).Recheck)
		})
	}
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
			in := testInput(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.Mode = tc.mode }), testNode("n"))
			in.DryRun = tc.flag
			require.Equal(t, tc.want, Evaluate(in, epoch).Policy.DryRun)
		})
	}
}
