// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// notes are warnings about a Node, with advice: taints without a remediation, another Node that may be the same
// machine, a Machine that is gone.
func notes(node *corev1.Node, snapshot *Snapshot, details *Details) (list []string) {
	if !underRemediation(node.Name, snapshot) {
		for i := range node.Spec.Taints {
			if taint := &node.Spec.Taints[i]; leftBehind(taint) {
				list = append(list, fmt.Sprintf("It has the taint %s, and no remediation object stands behind it. If nothing repairs the node any more, and its old pods are gone: kubectl taint node %s %s:%s-",
					taint.ToString(), node.Name, taint.Key, taint.Effect))
			}
		}
	}
	if !remediation.Ready(node) {
		for _, other := range snapshot.Nodes {
			if shared := identity(node, other); other.Name != node.Name && remediation.Ready(other) && shared != "" {
				list = append(list, fmt.Sprintf("Node %s is Ready and has the same %s. Is it the same machine under a new name? Then delete this Node: kubectl delete node %s", other.Name, shared, node.Name))
			}
		}
	}
	for _, machine := range details.GoneMachines {
		list = append(list, fmt.Sprintf("Its annotation names %s, which does not exist: nothing replaces this Node. If the machine is gone, too: kubectl delete node %s", machine, node.Name))
	}
	return list
}

// leftBehind reports whether remediators set such a taint to evict pods.
func leftBehind(taint *corev1.Taint) bool {
	return taint.Key == corev1.TaintNodeOutOfService || strings.HasPrefix(taint.Key, "medik8s.io/") || strings.Contains(taint.Key, "remediation")
}

// underRemediation reports whether status of some health check has a remediation of the node.
func underRemediation(node string, snapshot *Snapshot) bool {
	for _, nhc := range snapshot.NodeHealthChecks {
		if entry := EntryOf(nhc, node); entry != nil && len(entry.Remediations) > 0 {
			return true
		}
	}
	for _, mhc := range snapshot.MachineHealthChecks {
		for i := range mhc.Status.UnhealthyMachines {
			if machine := &mhc.Status.UnhealthyMachines[i]; machine.Node == node && machine.Decision.Type == v1alpha1.DecisionRemediating {
				return true
			}
		}
	}
	return false
}

// identity names a property that two Nodes share and that only one machine can have. It is empty if
// there is none.
func identity(a, b *corev1.Node) string {
	if uuid := a.Status.NodeInfo.SystemUUID; uuid != "" && strings.EqualFold(uuid, b.Status.NodeInfo.SystemUUID) {
		return "systemUUID " + uuid
	}
	for _, address := range a.Status.Addresses {
		isIP := address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP
		if isIP && slices.Contains(b.Status.Addresses, address) {
			return fmt.Sprintf("%s %s", address.Type, address.Address)
		}
	}
	return ""
}
