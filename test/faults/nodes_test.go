// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// poolLabel is what NodeHealthChecks select by.
const poolLabel = "faults.test.nhc-controller.io/pool"

// pools are those of every environment.
var pools = []string{"a", "b", "c"}

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// long is how long a name of a Node may be.
const long = 253

// nodeName returns the name of the i-th node. Some names have the maximal length.
func nodeName(i int) string {
	name := fmt.Sprintf("n%03d", i)
	if i%17 == 16 {
		name += "." + strings.Repeat("long.", long)
		name = strings.TrimRight(name[:long-1], ".") + "x"
	}
	return name
}

// newNode returns the i-th node, which is healthy. In each pool one is of the control
// plane.
func newNode(i int) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{poolLabel: pools[i%len(pools)]}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready("True", time.Now().Add(-time.Hour))}},
	}
	if i < len(pools) {
		node.Labels[controlPlaneLabel] = ""
	}
	return node
}

func ready(status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since), Reason: "Test"}
}

// createNodes creates a number of nodes.
func (e *environment) createNodes(n int) {
	e.t.Helper()
	for i := range n {
		require.NoError(e.t, e.createNode(e.t.Context(), i))
	}
}

func (e *environment) createNode(ctx context.Context, i int) error {
	_, err := e.kube.CoreV1().Nodes().Create(ctx, newNode(i), metav1.CreateOptions{FieldManager: loader})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// setReady sets condition Ready of a node.
func (e *environment) setReady(ctx context.Context, name string, status corev1.ConditionStatus, since time.Time) error {
	return e.setCondition(ctx, name, ready(status, since))
}

func (e *environment) setCondition(ctx context.Context, name string, condition corev1.NodeCondition) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err != nil {
		return err
	}
	_, err = e.kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: loader}, "status")
	return err
}

// healAll lets all nodes heal. One may go meanwhile with its Machine.
func (e *environment) healAll() {
	e.t.Helper()
	nodes, err := e.kube.CoreV1().Nodes().List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		for _, healthy := range []corev1.NodeCondition{ready("True", time.Now()), {Type: brokenDisk, Status: "False", LastTransitionTime: metav1.Now()}} {
			if err := e.setCondition(e.t.Context(), name, healthy); !apierrors.IsNotFound(err) {
				require.NoError(e.t, err)
			}
		}
	}
}

// brokenDisk is a condition that makes nodes unhealthy, too.
const brokenDisk corev1.NodeConditionType = "BrokenDisk"

// changeNode sets labels or annotations of a node, and removes those that are nil.
func (e *environment) changeNode(ctx context.Context, name, field string, values map[string]any) error {
	return patchMetadata(map[string]any{field: values}, func(patch []byte) error {
		_, err := e.kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
		return err
	})
}

func (e *environment) exclude(ctx context.Context, name string, value any) error {
	return e.changeNode(ctx, name, "labels", map[string]any{v1alpha1.LabelExclude: value})
}
