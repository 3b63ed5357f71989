// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestRestraints: what a sync has seen becomes the circumstances that TestPermissions
// judges.
func TestRestraints(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nhc   func(*v1alpha1.NodeHealthCheck)
		world func(*world)
		node  func(*corev1.Node)
		want  remediation.Circumstances
	}{
		"5.2 nothing": {},
		"5.2 Disabled by its templates": {
			world: func(w *world) { w.findings.problem = &remediation.Problem{} },
			want:  remediation.Circumstances{TemplatesUnusable: true},
		},
		"6.5 P5 templates that were not read": {
			world: func(w *world) { w.findings.unknown = true },
			want:  remediation.Circumstances{TemplatesUnusable: true},
		},
		"6.5 P1 a template that was not read concerns its step": {
			world: func(w *world) { w.findings.unknown, w.templates = true, []*remediation.Template{{}, nil} },
		},
		"6.5 unless the condition is True and stays so": {
			nhc: func(nhc *v1alpha1.NodeHealthCheck) {
				nhc.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDisabled, Status: metav1.ConditionTrue}}
			},
			world: func(w *world) { w.findings.unknown, w.templates = true, []*remediation.Template{{}, nil} },
			want:  remediation.Circumstances{TemplatesUnusable: true},
		},
		"6.9 P5 MachineHealthChecks that were not read": {
			world: func(w *world) { w.surroundings.unknown, w.templates = true, []*remediation.Template{{}} },
			want:  remediation.Circumstances{TemplatesUnusable: true},
		},
		"5.2 a conflict": {
			world: func(w *world) { w.conflict = true },
			want:  remediation.Circumstances{Conflict: true},
		},
		"a clock that cannot be trusted": {
			world: func(w *world) { w.clockUntrusted = true },
			want:  remediation.Circumstances{ClockUntrusted: true},
		},
		"10.1 paused": {
			nhc:  func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{"maintenance"} },
			want: remediation.Circumstances{Paused: true},
		},
		"10.1 paused by an empty request": {
			nhc:  func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{""} },
			want: remediation.Circumstances{Paused: true},
		},
		"10.2 upgrading": {
			world: func(w *world) { w.progressing = true },
			want:  remediation.Circumstances{Upgrading: true},
		},
		"8.5 the gate is closed": {
			world: func(w *world) { w.gate.Open = false },
			want:  remediation.Circumstances{GateClosed: true},
		},
		"9.6 a storm": {
			world: func(w *world) { w.storm.Active = true },
			want:  remediation.Circumstances{Storm: true},
		},
		"4.7 a stored spec that breaks a rule": {
			world: func(w *world) { w.specProblem = "Selector is mandatory" },
			want:  remediation.Circumstances{InvalidSpec: true},
		},
		"4.8 being deleted": {
			nhc:  func(nhc *v1alpha1.NodeHealthCheck) { nhc.DeletionTimestamp = &metav1.Time{Time: epoch} },
			want: remediation.Circumstances{Terminating: true},
		},
		"15.1 excluded":       {node: labelled(v1alpha1.LabelExclude, "true"), want: remediation.Circumstances{Excluded: true}},
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
			nhc, node := testCheck(), testNode("n")
			w := &world{objects: map[string]*corev1.Node{}, gate: health.Gate{Open: true}}
			if tc.nhc != nil {
				tc.nhc(nhc)
			}
			if tc.world != nil {
				tc.world(w)
			}
			if tc.node != nil {
				tc.node(node)
			}
			crs := &ownCRs{machines: func(*corev1.Node) remediation.Machines { return remediation.Machines{} }}
			w.add(node, health.Verdict{State: health.Unhealthy}, w.restraints(nhc), crs)
			require.Equal(t, tc.want, w.nodes[0].Circumstances)
		})
	}
}

// TestNoConditionToJudgeBy: without any condition in a stored spec no node is unhealthy,
// and one with a CR is not healthy either, which would delete the CR (spec 4.2).
func TestNoConditionToJudgeBy(t *testing.T) {
	t.Parallel()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, nodes.Add(testNode("remediated")))
	require.NoError(t, nodes.Add(testNode("untouched")))
	for name, tc := range map[string]struct {
		conditions []v1alpha1.UnhealthyCondition
		node       string
		want       health.Verdict
	}{
		"4.2 a node with a CR":              {node: "remediated", want: health.Verdict{State: health.SoonUnhealthy}},
		"4.2 a node without":                {node: "untouched"},
		"7.3 a condition, and none matches": {node: "remediated", conditions: []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.UnhealthyConditions = tc.conditions })
			c := &Controller{nodes: corelisters.NewNodeLister(nodes)}
			crs := &ownCRs{
				read:     map[string][]*remediation.CR{"remediated": {testCR("remediated", "uid")}},
				machines: func(*corev1.Node) remediation.Machines { return remediation.Machines{} },
			}
			w := &world{objects: map[string]*corev1.Node{}}
			require.NoError(t, c.addNamed(nhc, w, sets.New(tc.node), crs, remediation.Circumstances{}, epoch))
			require.Equal(t, tc.want, w.nodes[0].Verdict)
		})
	}
}

// TestRestraintsOfNodes that are looked at for another reason than that they are
// selected and unwell.
func TestRestraintsOfNodes(t *testing.T) {
	t.Parallel()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, nodes.Add(testNode("here", labelled("role", "worker"))))
	require.NoError(t, nodes.Add(testNode("left", labelled("role", "infra"))))
	tests := map[string]struct {
		node string
		want remediation.Circumstances
	}{
		"17.1 it does not exist":           {node: "gone", want: remediation.Circumstances{NodeDeleted: true, Paused: true}},
		"17.5 the selector does not match": {node: "left", want: remediation.Circumstances{Unselected: true, Paused: true}},
		"16.1 it is selected":              {node: "here", want: remediation.Circumstances{Paused: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Controller{nodes: corelisters.NewNodeLister(nodes)}
			w := &world{objects: map[string]*corev1.Node{}}
			own := testCR(tc.node, "uid")
			crs := &ownCRs{
				read:     map[string][]*remediation.CR{tc.node: {own}},
				machines: func(*corev1.Node) remediation.Machines { return remediation.Machines{} },
			}
			require.NoError(t, c.addNamed(selecting("workers", byRole("worker")), w, sets.New(tc.node), crs, remediation.Circumstances{Paused: true}, epoch))
			require.Len(t, w.nodes, 1)
			require.Equal(t, tc.want, w.nodes[0].Circumstances)
			require.Equal(t, []*remediation.CR{own}, w.nodes[0].Own, "5.2: it is looked after whatever blocks")
		})
	}
}
