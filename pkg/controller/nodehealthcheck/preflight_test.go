// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
)

// newPreflight returns the preflight of a sync that has seen these nodes.
func newPreflight(nhc *v1alpha1.NodeHealthCheck, clock clock.PassiveClock, nodes ...*corev1.Node) *preflight {
	c := bareController()
	c.Clock = clock
	_ = c.Checks.Store.Add(nhc)
	for _, node := range nodes {
		_ = c.NodeCache.Add(node)
	}
	s := testSnapshot(nhc, nodes...)
	s.selector = selectorOf(nhc)
	return &preflight{Controller: c, snapshot: s}
}

// TestConfirm is the live look at a node before its CR is created.
func TestConfirm(t *testing.T) {
	t.Parallel()
	nhc := testCheck(func(n *v1alpha1.NodeHealthCheck) {
		n.Spec.Selector.MatchLabels = map[string]string{"role": "worker"}
		n.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False", Duration: metav1.Duration{Duration: time.Minute}}}
	})
	worker := func(changes ...func(*corev1.Node)) *corev1.Node {
		return testNode("n", append([]func(*corev1.Node){labelled("role", "worker"), conditions(testCondition("Ready", "False", epoch))}, changes...)...)
	}
	unreachable := errors.New("no route to host")
	tests := map[string]struct {
		live *corev1.Node
		// cached is what the watch has told since the node was planned for, nil for nothing.
		cached *corev1.Node
		err    error
		now    time.Time
		want   v1alpha1.DecisionReason
	}{
		"7.3 it still is":                            {live: worker(), now: epoch.Add(time.Minute)},
		"7.3 not yet":                                {live: worker(), now: epoch.Add(time.Minute - 1), want: v1alpha1.DecidedRecovering},
		"7.3 it has recovered":                       {live: worker(conditions(testCondition("Ready", "True", epoch))), now: epoch.Add(time.Hour), want: v1alpha1.DecidedRecovering},
		"7.2 it has just relapsed":                   {live: worker(conditions(testCondition("Ready", "False", epoch.Add(time.Hour)))), now: epoch.Add(time.Hour), want: v1alpha1.DecidedRecovering},
		"15.1 it was excluded":                       {live: worker(labelled(v1alpha1.LabelExclude, "true")), now: epoch.Add(time.Hour), want: v1alpha1.DecidedExcluded},
		"15.2 an empty label does not exclude":       {live: worker(labelled(v1alpha1.LabelExclude, "")), now: epoch.Add(time.Hour)},
		"17.5 it is no longer selected":              {live: worker(labelled("role", "infra")), now: epoch.Add(time.Hour), want: v1alpha1.DecidedUnselected},
		"12.2 it has joined the control plane":       {live: worker(labelled("node-role.kubernetes.io/control-plane", "")), now: epoch.Add(time.Hour), want: v1alpha1.DecidedControlPlaneBusy},
		"17.1 it is gone":                            {now: epoch.Add(time.Hour), want: v1alpha1.DecidedRecovering},
		"P9 it was replaced by another of that name": {live: worker(func(n *corev1.Node) { n.UID = "another" }), now: epoch.Add(time.Hour), want: v1alpha1.DecidedRecovering},
		"P5 it cannot be read":                       {live: worker(), err: unreachable, now: epoch.Add(time.Hour)},
		"16.1 the watch knows of a recovery":         {live: worker(), cached: worker(conditions(testCondition("Ready", "True", epoch))), now: epoch.Add(time.Hour), want: v1alpha1.DecidedRecovering},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := kubefake.NewClientset()
			if tc.live != nil {
				require.NoError(t, kube.Tracker().Add(tc.live))
			}
			if tc.err != nil {
				kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			}
			p := newPreflight(nhc, clocktesting.NewFakePassiveClock(tc.now), worker())
			p.Kube = kube
			if tc.cached != nil {
				require.NoError(t, p.NodeCache.Update(tc.cached))
			}
			got, err := p.confirm(t.Context(), &remediation.Node{Name: "n", UID: worker().UID, Verdict: health.Verdict{State: health.Unhealthy}})
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, got.Refusal)
		})
	}
}

// TestConfirmEnd is the live look at a node before its CRs are deleted (spec 16.7).
func TestConfirmEnd(t *testing.T) {
	t.Parallel()
	nhc := testCheck(func(n *v1alpha1.NodeHealthCheck) {
		n.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False", Duration: metav1.Duration{Duration: time.Minute}}}
	})
	well, failing := testNode("n", conditions(testCondition("Ready", "True", epoch))), testNode("n", conditions(testCondition("Ready", "False", epoch)))
	another := testNode("n", conditions(testCondition("Ready", "True", epoch)), func(n *corev1.Node) { n.UID = "another" })
	recovered := remediation.Node{Name: "n", UID: well.UID}
	gone := remediation.Node{Name: "n", Constraints: remediation.Constraints{NodeConstraints: remediation.NodeConstraints{NodeDeleted: true}}}
	unreachable := errors.New("no route to host")
	for name, tc := range map[string]struct {
		planned  remediation.Node
		live     *corev1.Node
		now      time.Time
		err      error
		relapsed bool
	}{
		"16.7 it is still healthy":                       {planned: recovered, live: well, now: epoch},
		"16.7 the watch has broken: it has failed again": {planned: recovered, live: failing, now: epoch.Add(time.Hour), relapsed: true},
		"7.5 it fails, and may not for long":             {planned: recovered, live: failing, now: epoch, relapsed: true},
		"17.2 it is gone, which is another end":          {planned: recovered, now: epoch, relapsed: true},
		"P9 another Node has its name":                   {planned: recovered, live: another, now: epoch, relapsed: true},
		"P5 it cannot be read":                           {planned: recovered, live: well, now: epoch, err: unreachable},
		"17.2 it is still gone":                          {planned: gone, now: epoch},
		"17.2 the watch has broken: it is back":          {planned: gone, live: failing, now: epoch, relapsed: true},
		"P5 whether it is gone is not known":             {planned: gone, now: epoch, err: unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := kubefake.NewClientset()
			if tc.live != nil {
				require.NoError(t, kube.Tracker().Add(tc.live))
			}
			if tc.err != nil {
				kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			}
			p := newPreflight(nhc, clocktesting.NewFakePassiveClock(tc.now))
			p.Kube = kube
			got, err := p.confirm(t.Context(), &tc.planned)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, execute.Confirmation{Relapsed: tc.relapsed}, got)
		})
	}
}
