// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// notes are warnings about states of a Node that a person has to know, with advice.
func notes(node *corev1.Node, snapshot *Snapshot, details *Details, now time.Time) (list []string) {
	say := func(text string, args ...any) { list = append(list, fmt.Sprintf(text, args...)) }
	if deleted := node.DeletionTimestamp; deleted != nil {
		say("It is being deleted since %s, and waits for its finalizers: %s. Their owners remove them.", SinceWhen(deleted, now), strings.Join(node.Finalizers, ", "))
	}
	if Virtual(node) {
		say("It is a virtual node, which no remediation repairs. Leave such nodes out of the health check with " + LeaveOutVirtual)
	}
	remediated := underRemediation(node.Name, snapshot)
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if who := takers[taint.Key]; who != "" {
			say("It has the taint %s: %s, and the node is probably not coming back. To begin nothing for it: kubectl nhc pause node/%s", taint.ToString(), who, node.Name)
		}
		if leftBehind(taint) && !remediated {
			say("It has the taint %s, and no remediation object stands behind it. If nothing repairs the node any more, and its old pods are gone: kubectl taint node %s %s:%s-",
				taint.ToString(), node.Name, taint.Key, taint.Effect)
		}
	}
	for _, condition := range node.Status.Conditions {
		if age := now.Sub(condition.LastHeartbeatTime.Time); age > silence && decides(&condition, snapshot) && now.Sub(heartbeat(node)) < silence {
			say("Condition %s=%s was last reported %s ago, although the kubelet reports: does what sets it still run?", condition.Type, condition.Status, duration.HumanDuration(age))
		}
	}
	if !remediation.Ready(node) {
		for _, other := range snapshot.Nodes {
			if shared := identity(node, other); other.Name != node.Name && remediation.Ready(other) && shared != "" {
				say("Node %s is Ready and has the same %s. Is it the same machine under a new name? Then delete this Node: kubectl delete node %s", other.Name, shared, node.Name)
			}
		}
	}
	for _, machine := range details.GoneMachines {
		say("Its annotation names %s, which does not exist: nothing replaces this Node. If the machine is gone, too: kubectl delete node %s", machine, node.Name)
	}
	return list
}

// takers are those who take a node away, by the taint that says so.
var takers = map[string]string{
	"ToBeDeletedByClusterAutoscaler":            "the cluster autoscaler removes its machine",
	"karpenter.sh/disrupted":                    "Karpenter removes its machine",
	"node.cloudprovider.kubernetes.io/shutdown": "its machine was shut down in the cloud",
}

// LeaveOutVirtual is what leaves virtual nodes out of a selector.
const LeaveOutVirtual = "matchExpressions: [{key: type, operator: NotIn, values: [virtual-kubelet]}]"

// Virtual reports whether a node stands for no machine.
func Virtual(node *corev1.Node) bool { return node.Labels["type"] == "virtual-kubelet" }

// silence is for how long what sets a condition may say nothing.
const silence = time.Hour

// heartbeat returns when the kubelet reported last.
func heartbeat(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

// decides reports whether a condition with its status makes a node unhealthy, and says when it was reported.
func decides(condition *corev1.NodeCondition, snapshot *Snapshot) bool {
	return !condition.LastHeartbeatTime.IsZero() && slices.ContainsFunc(snapshot.NodeHealthChecks, func(nhc *v1alpha1.NodeHealthCheck) bool {
		return slices.ContainsFunc(nhc.Spec.UnhealthyConditions, func(rule v1alpha1.UnhealthyCondition) bool {
			return rule.Type == condition.Type && rule.Status == condition.Status
		})
	})
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
