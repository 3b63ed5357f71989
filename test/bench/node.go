// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// groupLabel says which nodes the NodeHealthCheck selects.
	groupLabel    = "bench.nhc-controller.io/group"
	groupMeasured = "measured"
	// No NodeHealthCheck selects the nodes of the control.
	groupControl = "control"
	images       = 50
)

func nodeName(i int) string    { return fmt.Sprintf("worker-%05d.bench.example.com", i) }
func controlName(i int) string { return fmt.Sprintf("control-%03d.bench.example.com", i) }

// newNode returns a node of the size and shape that a kubelet and other agents
// make it, healthy for a day.
func newNode(name, group string, i int, now time.Time) *corev1.Node {
	address := fmt.Sprintf("10.%d.%d.%d", 64+i/65536%64, i/256%256, i%256)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("16"),
		corev1.ResourceMemory:           resource.MustParse("65808228Ki"),
		corev1.ResourceEphemeralStorage: resource.MustParse("209702892Ki"),
		corev1.ResourcePods:             resource.MustParse("110"),
		"hugepages-1Gi":                 resource.MustParse("0"),
		"hugepages-2Mi":                 resource.MustParse("0"),
	}
	allocatable := capacity.DeepCopy()
	allocatable[corev1.ResourceCPU] = resource.MustParse("15890m")
	allocatable[corev1.ResourceMemory] = resource.MustParse("62817828Ki")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				groupLabel:                         group,
				"kubernetes.io/arch":               "amd64",
				"kubernetes.io/os":                 "linux",
				"kubernetes.io/hostname":           name,
				"node-role.kubernetes.io/worker":   "",
				"node.kubernetes.io/instance-type": "m6i.4xlarge",
				"topology.kubernetes.io/region":    "eu-west-1",
				"topology.kubernetes.io/zone":      fmt.Sprintf("eu-west-1%c", 'a'+i%3),
				"example.com/node-pool":            fmt.Sprintf("pool-%d", i%8),
				"example.com/rack":                 fmt.Sprintf("rack-%03d", i%200),
			},
			Annotations: map[string]string{
				"node.alpha.kubernetes.io/ttl":                           "0",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
				"csi.volume.kubernetes.io/nodeid":                        fmt.Sprintf(`{"csi.example.com":"i-%017x"}`, i),
				"network.example.com/node-primary-ifaddr":                fmt.Sprintf(`{"ipv4":"%s/16"}`, address),
				"network.example.com/node-subnets":                       fmt.Sprintf(`{"default":["10.128.%d.0/24"]}`, i%256),
			},
		},
		Spec: corev1.NodeSpec{
			PodCIDR:    fmt.Sprintf("10.128.%d.0/24", i%256),
			PodCIDRs:   []string{fmt.Sprintf("10.128.%d.0/24", i%256)},
			ProviderID: fmt.Sprintf("aws:///eu-west-1%c/i-%017x", 'a'+i%3, i),
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: allocatable,
			Conditions:  conditions(now, now.Add(-24*time.Hour)),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address},
				{Type: corev1.NodeInternalDNS, Address: name},
				{Type: corev1.NodeHostName, Address: name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID:               fmt.Sprintf("%032x", i+1),
				SystemUUID:              fmt.Sprintf("ec2%05x-0000-0000-0000-%012x", i, i),
				BootID:                  fmt.Sprintf("%08x-1111-2222-3333-%012x", i, i),
				KernelVersion:           "6.8.0-1021-aws",
				OSImage:                 "Ubuntu 24.04.2 LTS",
				ContainerRuntimeVersion: "containerd://2.1.4",
				KubeletVersion:          "v1.36.3",
				OperatingSystem:         "linux",
				Architecture:            "amd64",
			},
			Images: imageList(),
		},
	}
}

// conditions returns the five conditions of a healthy node.
func conditions(now, since time.Time) []corev1.NodeCondition {
	absent := func(t corev1.NodeConditionType, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(since),
		}
	}
	return []corev1.NodeCondition{
		absent(corev1.NodeNetworkUnavailable, "NetworkIsUp", "the network of the node is ready"),
		absent(corev1.NodeMemoryPressure, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		absent(corev1.NodeDiskPressure, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		absent(corev1.NodePIDPressure, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		readyCondition(corev1.ConditionTrue, now, since),
	}
}

func readyCondition(status corev1.ConditionStatus, now, since time.Time) corev1.NodeCondition {
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(since)}
	switch status {
	case corev1.ConditionTrue:
		condition.Reason, condition.Message = "KubeletReady", "kubelet is posting ready status"
	case corev1.ConditionFalse:
		condition.Reason, condition.Message = "KubeletNotReady", "container runtime is down"
	case corev1.ConditionUnknown:
		condition.Reason, condition.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	return condition
}

// imageList returns what a kubelet reports of its images, the same on all nodes.
func imageList() []corev1.ContainerImage {
	list := make([]corev1.ContainerImage, images)
	for i := range list {
		repository := fmt.Sprintf("registry.example.com/platform/team-%02d/component-%02d", i%7, i)
		digest := sha256.Sum256([]byte(repository))
		list[i] = corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s@sha256:%x", repository, digest), fmt.Sprintf("%s:v1.%d.%d-build.20260%d", repository, i, i%10, 100+i)},
			SizeBytes: int64(20_000_000 + i*7_654_321),
		}
	}
	return list
}

// readyPatch is the strategic merge patch of a node's status that changes Ready.
func readyPatch(status corev1.ConditionStatus, now, since time.Time) ([]byte, error) {
	return conditionsPatch([]corev1.NodeCondition{readyCondition(status, now, since)})
}

func conditionsPatch(conditions any) ([]byte, error) {
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
}

// isReady reports whether a node is, as far as these scenarios go, healthy.
func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}
