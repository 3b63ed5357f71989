// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// machineAPI is an API whose Machines MachineHealthChecks remediate, with its differences. Package machineset
// has the common parts.
type machineAPI struct {
	// name is that of the subtests.
	name    string
	machine optionalKind
	// others are the kinds that say how the Machines may be treated (spec M4.4, M9.2).
	others []optionalKind
	// annotations are those of a MachineHealthCheck that is about Machines of this API (spec M5.2).
	annotations map[string]string
	// controlPlane labels a Machine of the control plane (spec M2).
	controlPlane map[string]string
	// handsOver means that Machines can be handed over by annotations (spec M11).
	handsOver bool
}

// machineAPIs are all of them. A scenario runs with the Machines of each, unless its rule is about one.
var machineAPIs = []machineAPI{
	{
		name: "OpenShift", machine: openShiftMachine,
		controlPlane: map[string]string{v1beta1.LabelRole: v1beta1.RoleMaster}, handsOver: true,
	},
	{
		name: "Cluster API", machine: clusterAPIMachine, others: []optionalKind{clusterOfCAPI, realClusterAPIHealthCheck},
		annotations:  map[string]string{v1beta1.AnnotationMachineAPI: v1beta1.MachineAPICluster},
		controlPlane: map[string]string{v1beta1.LabelControlPlane: ""},
	},
}

// group returns the API group of the Machines.
func (a *machineAPI) group() string { return a.machine.resource.Group }

// apiOf returns the API of a kind of Machines. A kind may have several versions.
func apiOf(kind optionalKind) machineAPI {
	i := slices.IndexFunc(machineAPIs, func(api machineAPI) bool { return api.group() == kind.resource.Group })
	api := machineAPIs[i]
	api.machine = kind
	return api
}

// ofEachAPI runs a scenario with the Machines of each API, side by side, in namespaces of their own.
func ofEachAPI(scenario func(t *testing.T, s *machineScenario)) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		for _, api := range machineAPIs {
			t.Run(api.name, func(t *testing.T) {
				t.Parallel()
				scenario(t, newMachineScenario(t, c, api.machine))
			})
		}
	}
}
