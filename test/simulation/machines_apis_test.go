// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// apiOfMachines is the API of the Machines of a simulated cluster, with its differences.
type apiOfMachines struct {
	name     string
	machines schema.GroupVersionResource
	// annotations are those of a MachineHealthCheck that is about Machines of this API (spec M5.2).
	annotations map[string]string
	// controlPlane labels a Machine of the control plane (spec M2).
	controlPlane map[string]string
	// handsOver means that Machines can be handed over by annotations (spec M11).
	handsOver bool
	// nodeAnnotations are those of the Node of a Machine.
	nodeAnnotations func(machine string) map[string]string
	// written notes in a status that the provider has written it (spec M6.3).
	written func(status map[string]any, now string)
}

// machineAPIs are all of them. A scenario runs with the Machines of each, unless its rule is about one.
var machineAPIs = []*apiOfMachines{openShift, ofClusterAPI}

// Those whose Machines can be handed over by annotations (spec M11), and those whose control plane Machines the
// controller may delete (spec M13.3).
var handingOver, replacingControlPlane = []*apiOfMachines{openShift}, []*apiOfMachines{openShift}

var openShift = &apiOfMachines{
	name: "OpenShift", machines: rules.Machines,
	controlPlane: map[string]string{v1beta1.LabelRole: v1beta1.RoleMaster}, handsOver: true,
	nodeAnnotations: func(machine string) map[string]string {
		return map[string]string{"machine.openshift.io/machine": machineNamespace + "/" + machine}
	},
	written: func(status map[string]any, now string) { status["lastUpdated"] = now },
}

var ofClusterAPI = &apiOfMachines{
	name: "Cluster API", machines: rules.ClusterAPIMachines,
	annotations:  map[string]string{v1beta1.AnnotationMachineAPI: v1beta1.MachineAPICluster},
	controlPlane: map[string]string{v1beta1.LabelControlPlane: ""},
	nodeAnnotations: func(machine string) map[string]string {
		return map[string]string{
			"cluster.x-k8s.io/machine": machine, "cluster.x-k8s.io/cluster-namespace": machineNamespace, "cluster.x-k8s.io/cluster-name": clusterName,
		}
	},
	written: func(status map[string]any, now string) {
		if status["conditions"] == nil {
			status["conditions"] = []any{map[string]any{"type": "InfrastructureReady", "status": "True", "lastTransitionTime": now}}
		}
	},
}

// clusterName is the Cluster of all Machines of Cluster API, and homeNode a Node of it that no Machine names.
const (
	clusterName = "self"
	homeNode    = "home"
)

// apiOf returns whose Machines the cluster of a seed has, nil if it has none.
func apiOf(seed uint64) *apiOfMachines {
	if seed%3 != 0 {
		return nil
	}
	return machineAPIs[seed/6%uint64(len(machineAPIs))]
}

// gvr returns the resource of the Machines.
func (m *machineAPI) gvr() schema.GroupVersionResource { return m.api.machines }

// checkAnnotations are the annotations of a new MachineHealthCheck.
func (a *apiOfMachines) checkAnnotations() map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, a.annotations)
	return annotations
}
