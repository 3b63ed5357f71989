// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

func testMachine(name string) *machinehealth.Machine {
	return &machinehealth.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"pool": "a"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "set", UID: "set-uid", Controller: new(true)}},
		},
		Node: "node-of-" + name,
	}
}

// TestQuiet: a healthy Machine is left out of the plans, unless there is something to decide about it: a
// lease to release, rounds to end, a key to remove.
func TestQuiet(t *testing.T) {
	t.Parallel()
	none := &observedLeases{}
	for name, tc := range map[string]struct {
		leases *observedLeases
		state  machinehealth.State
		keys   map[string]string
		want   bool
	}{
		"healthy":                    {leases: none, want: true},
		"unhealthy":                  {leases: none, state: machinehealth.Unhealthy},
		"soon unhealthy":             {leases: none, state: machinehealth.SoonUnhealthy},
		"without a Node":             {leases: none, state: machinehealth.NotStarted},
		"under remediation":          {leases: none, state: machinehealth.UnderRemediation},
		"being deleted":              {leases: none, state: machinehealth.Deleting},
		"M11.2 the second key":       {leases: none, keys: map[string]string{v1beta1.AnnotationRemediationStrategy: "external-baremetal"}},
		"M10.3 its lease is held":    {leases: &observedLeases{held: sets.New("node-node-of-m")}},
		"the lease of another":       {leases: &observedLeases{held: sets.New("node-other")}, want: true},
		"M14.3 its owner has rounds": {leases: &observedLeases{rounds: map[types.UID]*coordinationv1.Lease{"set-uid": {}}}},
		"another owner has rounds":   {leases: &observedLeases{rounds: map[types.UID]*coordinationv1.Lease{"other-uid": {}}}, want: true},
	} {
		machine := testMachine("m")
		machine.Annotations = tc.keys
		target := &machinehealth.Target{Machine: machine, Verdict: machinehealth.Verdict{State: tc.state}}
		require.Equal(t, tc.want, tc.leases.quiet(target), name)
	}
}

// TestHealthyTargets: the history counts a Machine without a plan as healthy. It does not count a Machine that
// is no target (spec M16.2).
func TestHealthyTargets(t *testing.T) {
	t.Parallel()
	foreign := testMachine("foreign")
	foreign.Labels = nil
	s := &snapshot{
		machines: map[string]*machinehealth.Machine{"quiet": testMachine("quiet"), "foreign": foreign, "a": testMachine("a"), "b": testMachine("b"), "c": testMachine("c")},
		targets: []machinehealth.Target{
			{Machine: testMachine("a"), Verdict: machinehealth.Verdict{State: machinehealth.Healthy}},
			{Machine: testMachine("b"), Verdict: machinehealth.Verdict{State: machinehealth.Unhealthy}},
			{Machine: testMachine("c"), Unselected: true},
		},
		policy: machinehealth.Policy{Criteria: &machinehealth.Criteria{API: v1beta1.MachineAPIOpenShift, Selector: labels.SelectorFromSet(labels.Set{"pool": "a"})}},
	}
	for name, want := range map[string]bool{"quiet": true, "a": true, "b": false, "c": false, "foreign": false, "gone": false} {
		require.Equal(t, want, (&Controller{}).healthy(s, name), name)
	}
}
