// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// Claim returns why NodeHealthChecks leave the Node of a Machine alone, empty if they do not. Either one
// of these MachineHealthChecks, by namespace and name, selects the Machine (spec M15.1). Or a remediation
// of the Machine goes on, perhaps without a lease: it may have begun without a Node, and its
// MachineHealthCheck may be gone (spec M15.2). The Node is nil if there is none.
func Claim(machine *Machine, checks []string, node *corev1.Node) string {
	name := "Machine " + machine.Namespace + "/" + machine.Name
	switch {
	case len(checks) > 0:
		return "MachineHealthCheck " + slices.Min(checks) + " looks after the Machine of the node"
	case machine.Has(v1beta1.AnnotationExternalRemediation):
		return name + " of the node has annotation " + v1beta1.AnnotationExternalRemediation
	case machine.Deleting() && node != nil && !node.CreationTimestamp.Before(machine.DeletionTimestamp):
		return name + " of the node was being deleted already when the Node appeared"
	}
	return ""
}
