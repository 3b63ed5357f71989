// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func member(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

// TestLimit: which of several nodes may begin (spec 12.2, 12.5).
func TestLimit(t *testing.T) {
	t.Parallel()
	unhealthy := health.Verdict{State: health.Unhealthy, Type: "Ready", Status: "Unknown", Deadline: epoch}
	worker := remediation.Node{Name: "worker", Verdict: unhealthy}
	controlPlane := remediation.Node{Name: "cp", ControlPlane: true, Verdict: unhealthy}
	const busy, quorum = v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum
	tests := map[string]struct {
		node   remediation.Node
		limits ControlPlane
		want   v1alpha1.DecisionReason
	}{
		"12.2 nothing is under remediation":                 {node: controlPlane},
		"12.2 another control plane node is":                {node: controlPlane, limits: ControlPlane{Remediated: []string{"cp", "other"}}, want: busy},
		"12.2 the node itself is":                           {node: controlPlane, limits: ControlPlane{Remediated: []string{"cp"}}},
		"P5 it is not known":                                {node: controlPlane, limits: ControlPlane{Unknown: true}, want: busy},
		"M13.1 a Machine takes the slot from it":            {node: controlPlane, limits: ControlPlane{SlotHolders: map[string][]string{"cp": {"Machine ns/m"}}}, want: busy},
		"M13.1 a Machine takes the slot from others":        {node: controlPlane, limits: ControlPlane{SlotHolders: map[string][]string{"other": {"cp", "Machine ns/m"}}}},
		"12.2 a worker needs no slot":                       {node: worker, limits: ControlPlane{Unknown: true, Remediated: []string{"other"}}},
		"12.5 a single member that is not Ready is no loss": {node: controlPlane, limits: ControlPlane{Members: []*corev1.Node{member("cp", "False")}}},
		"12.5 S2 a member that is not Ready may be working": {node: controlPlane, limits: ControlPlane{Members: []*corev1.Node{member("cp", "False"), member("b", "False"), member("c", "True")}}, want: quorum},
		"12.5 without it, there is no majority":             {node: controlPlane, limits: ControlPlane{Members: []*corev1.Node{member("cp", "True"), member("b", "True"), member("c", "False")}}, want: quorum},
		"12.5 without it, there is one":                     {node: controlPlane, limits: ControlPlane{Members: []*corev1.Node{member("cp", "True"), member("b", "True"), member("c", "True")}}},
		"5.4 the slot comes before etcd":                    {node: controlPlane, limits: ControlPlane{Unknown: true, Members: []*corev1.Node{member("cp", "True")}}, want: busy},
		"5.4 what holds for all comes before the slot":      {node: with(controlPlane, func(n *remediation.Node) { n.Constraints.Paused = true }), limits: ControlPlane{Unknown: true}, want: v1alpha1.DecidedPaused},
		"12.4 the node that has the slot may go on":         {node: with(controlPlane, func(n *remediation.Node) { n.Own = []*object.CR{{}} }), limits: ControlPlane{Unknown: true}},
		"5.4 the slot comes before the lease":               {node: with(controlPlane, taken), limits: ControlPlane{Unknown: true}, want: busy},
		"5.4 a node that waits for a lease takes no slot":   {node: with(controlPlane, taken), want: v1alpha1.DecidedLeaseTaken},
		"7.5 one that is not unhealthy needs no slot":       {node: with(controlPlane, func(n *remediation.Node) { n.Verdict.State = health.SoonUnhealthy }), limits: ControlPlane{Unknown: true}},
		"7.3 nor does one that is healthy, or is deleted":   {node: with(controlPlane, func(n *remediation.Node) { n.Constraints.NodeDeleted = true }), limits: ControlPlane{Unknown: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reference := corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootRemediationTemplate", Namespace: "remediators", Name: "reboot"}
			policy := &remediation.Policy{Steps: []remediation.Step{{Reference: reference}}, Templates: []*object.Template{{}}}
			plans := remediation.NewPlans(policy, []remediation.Node{tc.node}, epoch.Add(time.Minute))
			before := plans[0]
			tc.limits.Limit(policy, plans, epoch.Add(time.Minute))
			require.Equal(t, tc.want, plans[0].Refusal())
			if tc.want != busy && tc.want != quorum {
				require.Equal(t, before, plans[0], "a limit that does not refuse changes nothing")
				return
			}
			require.Empty(t, plans[0].Actions)
			require.Equal(t, epoch.Add(2*time.Minute), plans[0].Recheck, "12.4: the next attempt is at most 1 min later")
		})
	}
}

func with(node remediation.Node, change func(*remediation.Node)) remediation.Node {
	change(&node)
	return node
}

// TestControlPlaneBusyMessage: the decision names who takes the slot (spec 12.2), whatever the
// order of the caches.
func TestControlPlaneBusyMessage(t *testing.T) {
	t.Parallel()
	const rest = " is under remediation or being replaced, and only one member of the control plane may be at a time"
	tests := map[string]struct {
		limits ControlPlane
		want   string
	}{
		"a node":                    {ControlPlane{Remediated: []string{"other"}}, "other" + rest},
		"the first of several":      {ControlPlane{Remediated: []string{"other", "cp", "b"}}, "b" + rest},
		"a Machine without a node":  {ControlPlane{Remediated: []string{"Machine ns/m"}}, "Machine ns/m" + rest},
		"unknown, but one is known": {ControlPlane{Unknown: true, Remediated: []string{"b"}}, "b" + rest},
		"unknown":                   {ControlPlane{Unknown: true}, ""},
		"not known any more":        {ControlPlane{Unknown: true, Told: map[string]string{"cp": "b" + rest}}, "b" + rest},
		"unknown, except the node":  {ControlPlane{Unknown: true, Remediated: []string{"cp"}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withheld := tc.limits.refusal(&remediation.Node{Name: "cp", ControlPlane: true})
			require.Equal(t, &remediation.Withholding{Reason: v1alpha1.DecidedControlPlaneBusy, Message: tc.want}, withheld)
		})
	}
}

// taken has somebody else hold the lease of the node.
func taken(n *remediation.Node) {
	n.Lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("somebody"), RenewTime: new(metav1.NewMicroTime(epoch)), LeaseDurationSeconds: new(int32(600)),
	}}
}
