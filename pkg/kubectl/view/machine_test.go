// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

func TestMachineExplanation(t *testing.T) {
	t.Parallel()
	pool := &machinev1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}}
	pool.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	pool.Status.UnhealthyMachines = []machinev1beta1.UnhealthyMachine{{Name: "listed"}}
	elsewhere := pool.DeepCopy()
	elsewhere.Namespace = "other"
	snapshot := &Snapshot{MachineHealthChecks: []*machinev1beta1.MachineHealthCheck{pool, elsewhere}}
	machine := func(role string) *machinehealth.Machine {
		return &machinehealth.Machine{TypeMeta: metav1.TypeMeta{APIVersion: machinev1beta1.MachineAPIOpenShift + "/v1beta1", Kind: "Machine"}, ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"role": role}}}
	}
	for name, tc := range map[string]struct {
		machine  string
		read     *machinehealth.Machine
		checks   int
		reported bool
	}{
		"gone, and still listed": {"listed", nil, 1, true},
		"listed":                 {"listed", machine("worker"), 1, true},
		"listed by an old label": {"listed", machine("infra"), 1, true},
		"healthy":                {"m", machine("worker"), 1, false},
		"of no health check":     {"m", machine("infra"), 0, false},
	} {
		e := NewMachineExplanation("ns", tc.machine, snapshot, tc.read, now)
		require.Equal(t, tc.read != nil, e.Known, name)
		require.Len(t, e.Checks, tc.checks, name)
		require.Equal(t, tc.reported, tc.checks > 0 && e.Checks[0].Target != nil, name)
	}
	require.Nil(t, NewMachineExplanation("ns", "none", snapshot, nil, now))
}
