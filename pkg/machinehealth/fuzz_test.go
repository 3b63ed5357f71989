// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// FuzzParseMachine: any object can be read as a Machine (spec M5.1), and the result can be
// judged and planned for.
func FuzzParseMachine(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata": 1, "spec": 2, "status": 3}`,
		`{"apiVersion": "a/b/c", "kind": 5, "metadata": {"name": ["x"], "annotations": {"a": 1}, "ownerReferences": [null, {}]}}`,
		`{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "m", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Failed", "lastUpdated": "x"}}`,
		`{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"ownerReferences": [{"kind": "MachineSet", "uid": "u", "controller": true}]}, "status": {"nodeRef": {"name": "n"}, "authoritativeAPI": "ClusterAPI"}}`,
		`{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "spec": {"clusterName": "c"}, "status": {"conditions": [null, 1, [], {"type": {}, "status": []}, {"type": "InfrastructureReady", "status": "True", "lastTransitionTime": "2026-01-01T01:00:00+02:00"}]}}`,
		`{"apiVersion": "cluster.x-k8s.io/v1beta1", "status": {"conditions": {"type": "InfrastructureReady"}}}`,
		`{"metadata": {"deletionTimestamp": "x", "annotations": {"host.metal3.io/external-remediation": null}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var content map[string]any
		if json.Unmarshal([]byte(text), &content) != nil {
			return
		}
		raw := &unstructured.Unstructured{Object: content}
		before := raw.DeepCopy()
		got := ParseMachine(raw)
		require.Equal(t, before, raw, "reading changes nothing")
		require.True(t, got.SameAs(ParseMachine(raw)))
		require.Equal(t, got, got.DeepCopyObject())
		for _, p := range []*Policy{policy(), policy(annotates), policy(byTemplate)} {
			for _, state := range []NodeState{NodeUnknown, NodeExists, NodeMissing} {
				in := &Input{
					Observed: []Observed{{Machine: got, NodeState: state}},
					Seen:     func(*corev1.Node) []health.Sighting { return nil }, Lease: func(string) *coordinationv1.Lease { return nil },
				}
				targets := p.Evaluate(in, epoch)
				if len(targets) == 0 {
					require.False(t, got.Deleting() || got.Failed())
					continue
				}
				state := targets[0].Verdict.State
				require.False(t, got.Deleting() && state != Deleting)
				plan := planFor(p, targets[0], epoch)
				require.False(t, plan.Creates() && state != Unhealthy)
				require.False(t, plan.Creates() && plan.Type == v1beta1.RemediationMachineDeletion && got.Owner() == nil, "M10.1: without an owner, no controller would replace it")
			}
		}
	})
}

// FuzzCriteria: any stored spec can be read (spec M3.4). If it cannot be understood, nothing begins.
func FuzzCriteria(f *testing.F) {
	for _, seed := range []struct{ timeout, startup, max, kind string }{
		{"300s", "10m", "40%", "MachineTemplate"}, {"", "", "", ""}, {"-5m", "0", "100%", "Template"}, {"0x", "+1h", "+5", "Other"}, {"1h-30m", "2562047h", "4294967296", "T"}, {"2562048h", "1.5h", "101%", "x"},
	} {
		f.Add(seed.timeout, seed.startup, seed.max, seed.kind)
	}
	f.Fuzz(func(t *testing.T, timeout, startup, maximum, kind string) {
		stored := check(func(c *v1beta1.MachineHealthCheck) {
			c.Spec.UnhealthyConditions = []v1beta1.UnhealthyCondition{{Type: "Ready", Status: "False", Timeout: timeout}}
			c.Spec.NodeStartupTimeout, c.Spec.MaxUnhealthy = &startup, new(v1beta1.IntOrString(intstr.FromString(maximum)))
		})
		if kind != "" {
			withTemplate("example.com/v1", kind, "reboot")(stored)
		}
		criteria := NewCriteria(stored)
		require.GreaterOrEqual(t, criteria.StartupTimeout, time.Duration(0))
		for _, condition := range criteria.Conditions {
			require.GreaterOrEqual(t, condition.Duration.Duration, time.Duration(0))
		}
		young := machine("m", noNode)
		require.NotEqual(t, Unhealthy, criteria.Judge(young, NodeUnknown, health.Evidence{}, false, epoch.Add(criteria.StartupTimeout-1)).State, "M6.3: never before its time")
		summary := Summarize(criteria.MaxUnhealthy, make([]Verdict, 10), 0, epoch)
		require.True(t, summary.Limit >= 0 && summary.Limit <= 1<<31-1, "%d", summary.Limit)
		p := policy(func(p *Policy) { p.Criteria = &criteria })
		if criteria.Problem != "" {
			require.False(t, new(planFor(p, target(machine("m")), epoch)).Creates(), "M3.4: nothing is remediated")
		}
	})
}
