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

// TestSlotOfFormerKind: a remediation object takes the slot of the control plane also when its MachineHealthCheck is
// gone, or its NodeHealthCheck has a template of another kind, also for a process that has started since: it reads
// all kinds (spec M13.1, 6.8).
func TestSlotOfFormerKind(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*CR){
		"of a MachineHealthCheck": func(cr *CR) { cr.Owners, cr.Checks, cr.Machine = nil, []string{"ns/check"}, "ns/m" },
		"of a NodeHealthCheck":    func(*CR) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := machineFixture()
			for _, name := range []string{"n", "m"} {
				machine := newMachine(name, name)
				machine.Labels = map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"}
				s.machine(past, machine)
			}
			s.mhc(past, checkOf(func(c *v1beta1.MachineHealthCheck) {
				c.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "FenceTemplate"}
			}))
			s.cr(past, newCR("m", "Fence", "", change, func(cr *CR) { cr.ControlPlane = true }))
			add(s.mhcs, "ns/check", s.next(), at(50), nil)
			s.activity.starts = []time.Time{at(60)}
			w := window{known: at(99), rv: s.next(), at: at(100), node: "n"}
			require.Equal(t, []string{"M13.1"}, broke([]finding{s.machineSlotFree(beginning{window: w}, s.machines["ns/n"].at(w.rv))}))
		})
	}
}
