// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestAnnotatedMachineKeepsTheOrder: of two MachineHealthChecks that would delete a Machine, the first by
// name does, also if a user has asked for an external remediation before it failed (spec M7.4).
func TestAnnotatedMachineKeepsTheOrder(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.addMHC("north", "a", asItIs)
		m.addMHC("west", "a", asItIs)
		m.maintain("worker-0")
		m.changeMachine("user", machine, func(machine *unstructured.Unstructured) {
			setEntry(machine, "annotations", v1beta1.AnnotationExternalRemediation, "")
		})
		m.fail(machine)
		m.sleep(inTime)
		require.Equal(t, v1alpha1.DecidedLeaseTaken, m.decision("north", machine))
		require.Equal(t, v1beta1.DecidedOtherHealthCheck, m.decision("west", machine))
	})
}

// TestNothingIsWrittenAfterwards: once another controller begins to lead, no deletion, remediation object or end is
// requested any more, also if it was under way. No status and no event is written either (spec M4.2).
func TestNothingIsWrittenAfterwards(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		slow string
		// begin has the controller make the slow request.
		begin func(m *machineAPI, machine string)
	}{
		"a last look": {"get machines", (*machineAPI).fail},
		"a last look, for a remediation object": {"get machines", func(m *machineAPI, _ string) {
			m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &m.references()[0] })
			m.setReady("worker-0", corev1.ConditionUnknown)
			m.sleep(30 * time.Second)
		}},
		"a lease":               {"create leases", (*machineAPI).fail},
		"the status":            {"update " + mhcs.Resource, (*machineAPI).fail},
		"a live read of a Node": {"get nodes", func(m *machineAPI, _ string) { m.deleteNode("worker-0") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("east", "a", asItIs)
				m.sleep(inTime)
				m.slowRequests(tc.slow, 3*time.Second)
				tc.begin(m, machine)
				m.sleep(500 * time.Millisecond)
				m.otherLeads(3600)
				for m.leader().machines.Active() {
					m.sleep(time.Millisecond)
				}
				begin, reported := len(m.server.Requests(0)), len(m.server.List(events))
				m.slowRequests(tc.slow, 0)
				m.sleep(10 * time.Second)
				for _, request := range m.server.Requests(begin) {
					require.NotContains(t, []string{"create", "update", "patch", "delete"}, request.Verb, "M4.2: %s", request.Resource.Resource)
				}
				require.Len(t, m.server.List(events), reported, "M4.2")
			})
		})
	}
}

// TestMissingNodesAreForgotten: that a Node is missing is remembered as long as a Machine names it, and no longer: on a
// cluster that scales, Nodes that never come back add up. Then it is looked for once more.
func TestMissingNodesAreForgotten(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		set := m.newSet("workers", "worker")
		first := m.addMachine(set, "a", "worker-0")
		m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) {
			mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
		})
		begin := len(m.server.Requests(0))
		looks := func() (looks int) {
			for _, request := range m.server.Requests(begin) {
				if request.Verb == "get" && request.Resource == nodes && request.Name == "worker-0" {
					looks++
				}
			}
			return looks
		}
		m.deleteNode("worker-0")
		m.sleep(10 * time.Minute)
		require.Equal(t, 1, looks())
		m.changeMachine("provider", first, func(machine *unstructured.Unstructured) { machine.SetFinalizers(nil) })
		m.server.Delete("user", m.gvr(), machineKey(first))
		m.sleep(inTime)
		second := m.addMachine(set, "a", "")
		m.setStatus(second, func(status map[string]any) { status["nodeRef"] = map[string]any{"kind": "Node", "name": "worker-0"} })
		m.sleep(10 * time.Minute)
		require.Equal(t, v1alpha1.DecidedPaused, m.decision("east", second), "M6.2: its Node is missing, too")
		require.Equal(t, 2, looks())
	})
}

// TestFirstOfTheAwaitedGoesOn: a NodeHealthCheck remediates the control plane node that comes first of
// those that are waited for, also if it has another candidate, which has to wait (spec M13.1).
func TestFirstOfTheAwaitedGoesOn(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		set := m.newSet("masters", "master")
		first := m.addMachine(set, "a", "master-0")
		m.addMachine(set, "b", "master-2")
		for _, node := range []string{"master-1", "master-3", "master-4", "master-5", "master-6"} { // Enough for a quorum.
			m.addMachine(set, "a", node)
		}
		m.addMHC("east", "b", func(mhc *v1beta1.MachineHealthCheck) { // It finds out that a Node is gone.
			mhc.Annotations = map[string]string{v1beta1.AnnotationPaused: ""}
		})
		m.addNHC("blue")
		m.fates[m.machine(first).GetUID()].lingers = time.Hour
		m.sleep(inTime) // Its Node was there before, as far as timestamps tell.
		m.server.Delete("user", m.gvr(), machineKey(first))
		m.deleteNode("master-2")
		m.setReady("master-0", corev1.ConditionUnknown)
		m.setReady("master-1", corev1.ConditionUnknown)
		m.sleep(time.Minute)
		crs := m.crs()
		require.Len(t, crs, 1)
		require.Equal(t, "master-0", crs[0].Node)
	})
}
