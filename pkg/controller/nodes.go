// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

const metaNamespaced = meta.RESTScopeNameNamespace

func isNoMatch(err error) bool { return meta.IsNoMatchError(err) }

func labelSet(node *corev1.Node) labels.Set { return labels.Set(node.Labels) }

// isControlPlane tells whether the node has a control plane label (spec 12.1).
func isControlPlane(node *corev1.Node) bool {
	return hasKey(node.Labels, "node-role.kubernetes.io/control-plane") || hasKey(node.Labels, "node-role.kubernetes.io/master")
}

// TrimNode is the transform of the Node informer: it keeps what decisions depend
// on and drops the rest of a Node, most of which is images, addresses and managed
// fields. It may be applied twice.
func TrimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	conditions := make([]corev1.NodeCondition, 0, len(node.Status.Conditions))
	for _, condition := range node.Status.Conditions {
		conditions = append(conditions, corev1.NodeCondition{
			Type: condition.Type, Status: condition.Status, Reason: condition.Reason, LastTransitionTime: condition.LastTransitionTime,
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
			Labels: node.Labels, Annotations: annotations,
		},
		Status: corev1.NodeStatus{Conditions: conditions},
	}, nil
}

// stillUnhealthy returns the last look at a node before its CR is created: a live
// read, judged by the rules of the NodeHealthCheck. A Node that is gone, or was
// replaced by a namesake, is not unhealthy.
func (c *Controller) stillUnhealthy(nhc *v1alpha1.NodeHealthCheck, w *world) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, name string) (bool, error) {
		node, err := c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading node: %w", err)
		}
		if known := w.objects[name]; known == nil || known.UID != node.UID {
			return false, nil
		}
		if node.Labels[v1alpha1.LabelExclude] == "true" || !selectorOf(nhc).Matches(labels.Set(node.Labels)) {
			return false, nil
		}
		return w.judge(nhc, c.clock.Now())(node).State == health.Unhealthy, nil
	}
}
