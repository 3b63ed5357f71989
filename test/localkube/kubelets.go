// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// HeartbeatLabel makes Options.Kubelets play the kubelet of a node that has it with the value
// HeartbeatValue: the node becomes Ready, and its Lease is renewed. Without it the
// node falls silent, and after Options.NodeMonitorGracePeriod the node-lifecycle
// controller sets Ready=Unknown.
const (
	HeartbeatLabel = "localkube.nhc-controller.io/heartbeat"
	HeartbeatValue = "true"
)

const (
	renewPeriod    = 2 * time.Second // Of Leases.
	reportPeriod   = 5 * time.Second // Of conditions that do not change.
	leaseDuration  = 40              // Seconds, as kubelets have it.
	kubeletManager = "kubelet"
)

// healthyConditions are all of a healthy node, as kubelets write them.
var healthyConditions = []corev1.NodeCondition{
	{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
	{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
	{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
	{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
}

// startKubelets plays the kubelets of all nodes with HeartbeatLabel, in this process, until stop is called.
func (c *ControlPlane) startKubelets(ctx context.Context, client kubernetes.Interface) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) { beat(ctx, client) }, renewPeriod)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// beat has each node send its heartbeats. What fails, because the API server is away or another client
// has written the Node, is done the next time.
func beat(ctx context.Context, client kubernetes.Interface) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // The API server may hang.
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: HeartbeatLabel + "=" + HeartbeatValue})
	if err != nil {
		return
	}
	var beats sync.WaitGroup
	for i := range nodes.Items {
		if node := &nodes.Items[i]; node.DeletionTimestamp == nil {
			beats.Go(func() {
				renewLease(ctx, client, node)
				if report(&node.Status, metav1.Now()) {
					_, _ = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
				}
			})
		}
	}
	beats.Wait()
}

func renewLease(ctx context.Context, client kubernetes.Interface, node *corev1.Node) {
	owner := applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("Node").WithName(node.Name).WithUID(node.UID)
	lease := coordinationv1.Lease(node.Name, corev1.NamespaceNodeLease).WithOwnerReferences(owner).WithSpec(coordinationv1.LeaseSpec().
		WithHolderIdentity(node.Name).WithLeaseDurationSeconds(leaseDuration).WithRenewTime(metav1.NowMicro()))
	_, _ = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Apply(ctx, lease, metav1.ApplyOptions{FieldManager: kubeletManager, Force: true})
}

// report makes a status that of a healthy node, unless it was reported just before. A condition
// keeps its lastTransitionTime until its status changes.
func report(status *corev1.NodeStatus, now metav1.Time) (changed bool) {
	old := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, condition := range status.Conditions {
		old[condition.Type] = condition
	}
	var conditions []corev1.NodeCondition
	for _, condition := range healthyConditions {
		before := old[condition.Type]
		delete(old, condition.Type)
		condition.Message = "localkube plays the kubelet"
		condition.LastHeartbeatTime, condition.LastTransitionTime = now, now
		if before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		changed = changed || before.Status != condition.Status || now.Sub(before.LastHeartbeatTime.Time) >= reportPeriod
		conditions = append(conditions, condition)
	}
	for _, condition := range status.Conditions {
		if _, others := old[condition.Type]; others {
			conditions = append(conditions, condition)
		}
	}
	status.Conditions = conditions
	status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	status.Allocatable = status.Capacity
	status.NodeInfo.Architecture, status.NodeInfo.OperatingSystem = "amd64", "linux"
	status.NodeInfo.KubeletVersion, status.NodeInfo.OSImage = "localkube", "localkube"
	return changed
}
