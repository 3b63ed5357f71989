// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// share returns a string equal to s that all nodes share. Thousands of nodes have the
// same conditions and labels, and each is decoded on its own.
func share[T ~string](s T) T { return T(unique.Make(string(s)).Value()) }

// sharedKeys returns labels with shared keys. It does not share their values: many differ
// on every node.
func sharedKeys(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	shared := make(map[string]string, len(labels))
	for key, value := range labels {
		shared[share(key)] = value
	}
	return shared
}

// TrimNode is the transform of the Node informer: it keeps what decisions depend on and
// drops the rest of a Node, mostly images, addresses and managed fields. Of several conditions of one type it
// keeps the one that counts (spec 7.2). It may be applied twice.
func TrimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	conditions := make([]corev1.NodeCondition, 0, len(node.Status.Conditions))
	for _, condition := range health.OnePerType(node.Status.Conditions) {
		conditions = append(conditions, corev1.NodeCondition{
			Type: share(condition.Type), Status: share(condition.Status), Reason: share(condition.Reason),
			LastTransitionTime: condition.LastTransitionTime, LastHeartbeatTime: condition.LastHeartbeatTime,
		})
	}
	var annotations map[string]string
	for _, key := range keptAnnotations {
		if value, present := node.Annotations[key]; present {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[key] = value
		}
	}
	return &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, CreationTimestamp: node.CreationTimestamp,
			Labels: sharedKeys(node.Labels), Annotations: annotations,
		},
		Status: corev1.NodeStatus{Conditions: conditions},
	}, nil
}
