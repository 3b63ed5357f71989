// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/machineset"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestMachinesOnOpenShift: beside OpenShift's own controller this one is silent, and with
// OpenShift's CRD it does without the fields that are dropped (spec M3.2, M4).
func TestMachinesOnOpenShift(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installOptional(t, featureGate)
	gates := func(versions ...bool) map[string]any {
		var list []any
		for i, enabled := range versions {
			version := map[string]any{"version": fmt.Sprintf("4.%d", i)}
			if enabled {
				version["enabled"] = []any{map[string]any{"name": "MachineAPIOperatorDisableMachineHealthCheckController"}}
			}
			list = append(list, version)
		}
		return map[string]any{"status": map[string]any{"featureGates": list}}
	}
	c.createOptional(t, featureGate, "", "cluster", gates(true, false))
	controller := c.startMachineHealthChecks(t, openShiftOverlay)

	var scenarios []*machineScenario
	for _, api := range machineAPIs {
		s := newMachineScenario(t, c, api.machine)
		s.createMachine("a", machineset.Finalized)
		s.join("a")
		_, err := s.nhc.MachineV1beta1().MachineHealthChecks(s.name).Create(t.Context(), s.check(), metav1.CreateOptions{})
		require.NoError(t, err)
		s.setReady("a", corev1.ConditionUnknown)
		scenarios = append(scenarios, s)
	}
	nothingWritten := func(rule string) {
		for _, s := range scenarios {
			require.Empty(t, s.writes(), "%s: nothing at all is written", rule)
		}
	}
	s := scenarios[0]
	nhc := newEmptyScenario(t, c, t.Name()+"-nhc", powerCycle)
	nhc.createTemplate(usualTemplate())
	nhc.createNHC()
	nhc.eventuallyDisabled("ConflictingMachineHealthCheckDetected") // M4.2: 6.9 is in force.
	require.Nil(t, s.status().ExpectedMachines)
	nothingWritten("M4.2")

	// The gate is on, but the other controller still leads.
	leader := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: foreignLeader, Namespace: machineNamespace},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(3600)),
			AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
		},
	}
	_, err := c.kube.CoordinationV1().Leases(machineNamespace).Create(t.Context(), leader, metav1.CreateOptions{})
	require.NoError(t, err)
	c.patchOptional(t, featureGate, "cluster", gates(true, true))
	patience.Eventually(t, "the other leader is noticed", func() bool {
		lines := logged(t, controller, "Looking after MachineHealthChecks")
		last := lines[len(lines)-1]
		return last["active"] == false && last["cause"] == "another controller leads by lease "+machineNamespace+"/"+foreignLeader
	})
	nothingWritten("M4.1")

	require.NoError(t, c.kube.CoordinationV1().Leases(machineNamespace).Delete(t.Context(), foreignLeader, metav1.DeleteOptions{}))
	for _, s := range scenarios {
		s.eventually("the Machine is being deleted", func() bool { return s.machine("a").GetDeletionTimestamp() != nil })
	}
	nhc.eventuallyEnabled() // M15.1
	s.eventually("the counts are there", func() bool { return s.status().ExpectedMachines != nil })
	require.Empty(t, s.status().UnhealthyMachines, "OpenShift's API has no such field")
	begin := time.Now()
	s.createMachine("b")
	s.join("b")
	s.eventuallyCounts(2, 1)
	s.setReady("b", corev1.ConditionTrue) // Now two syncs that change nothing.
	writes := 0
	for _, r := range s.writes() {
		if r.Time.After(begin) && r.Subresource == "status" {
			writes++
		}
	}
	require.LessOrEqual(t, writes, 3, "M3.2: a field that is dropped is not sent again")

	token := "Bearer " + c.createToken(t, "reader-of-series", true)
	hasSeries := func() bool {
		_, body := c.get(t, controller, token)
		return strings.Contains(body, `mapi_machinehealthcheck_nodes_covered{name="`+s.name+`"`)
	}
	require.True(t, hasSeries())
	c.patchOptional(t, featureGate, "cluster", gates(true, false))
	nhc.eventuallyDisabled("ConflictingMachineHealthCheckDetected")
	s.eventually("its series are gone", func() bool { return !hasSeries() })
}

// writes returns the controller's writes of Machines and MachineHealthChecks in the scenario.
func (s *machineScenario) writes() []localkube.Request {
	s.t.Helper()
	return s.audited(s.t, func(r localkube.Request) bool {
		return r.User == deploy.User && isWrite(r) && r.Namespace == s.name
	})
}

func (c *cluster) patchOptional(t *testing.T, kind optionalKind, name string, patch map[string]any) {
	t.Helper()
	content, err := json.Marshal(patch)
	require.NoError(t, err)
	_, err = c.dynamic.Resource(kind.resource).Patch(t.Context(), name, types.MergePatchType, content, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}
