// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// TestSlotOfFormerCheck: a remediation object takes the slot of the control plane also when its MachineHealthCheck
// is gone, except for a process that has started since: nothing tells it of the kind (spec M13.1).
func TestSlotOfFormerCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind            string
		started, broken bool
	}{
		"the process has seen it":                   {"Fence", false, true},
		"a new process":                             {"Fence", true, false},
		"a new process, and another check names it": {"Reboot", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := machineFixture()
			for _, name := range []string{"n", "m"} {
				machine := newMachine(name, name, "a")
				machine.Labels = map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"}
				s.machine(past, machine)
			}
			s.mhc(past, checkOf(func(c *v1beta1.MachineHealthCheck) {
				c.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: tc.kind + "Template"}
			}))
			fence := newCR("m", tc.kind, "")
			fence.Owners, fence.Checks, fence.Machine, fence.ByController, fence.ControlPlane = nil, []string{"ns/check"}, "ns/m", true, true
			s.cr(past, fence)
			add(s.mhcs, "ns/check", s.next(), at(50), nil)
			if tc.started {
				s.activity.starts = []time.Time{at(60)}
			}
			w := window{known: at(99), rv: s.next(), at: at(100), node: "n"}
			finding := s.machineSlotFree(beginning{window: w}, s.machines["ns/n"].at(w.rv))
			require.Equal(t, tc.broken, finding.text != "", finding.text)
		})
	}
}
