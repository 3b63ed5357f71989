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

// pools are those of every world.
var pools = []string{"a", "b", "c"}

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// long is how long a name of a Node may be.
const long = 253

// nodeName returns the name of the i-th node, of which some are as long as they may be.
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

// createNodes creates so many nodes.
func (w *world) createNodes(n int) {
	w.t.Helper()
	for i := range n {
		require.NoError(w.t, w.createNode(w.t.Context(), i))
	}
}

func (w *world) createNode(ctx context.Context, i int) error {
	_, err := w.kube.CoreV1().Nodes().Create(ctx, newNode(i), metav1.CreateOptions{FieldManager: loader})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// setReady sets condition Ready of a node.
func (w *world) setReady(ctx context.Context, name string, status corev1.ConditionStatus, since time.Time) error {
	return w.setCondition(ctx, name, ready(status, since))
}

func (w *world) setCondition(ctx context.Context, name string, condition corev1.NodeCondition) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err != nil {
		return err
	}
	_, err = w.kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: loader}, "status")
	return err
}

// fail has nodes fail as of now, all at once.
func (w *world) fail(nodes ...int) {
	w.t.Helper()
	for _, i := range nodes {
		require.NoError(w.t, w.setReady(w.t.Context(), nodeName(i), "False", time.Now()))
	}
}

// healAll has all nodes heal.
func (w *world) healAll() {
	w.t.Helper()
	nodes, err := w.kube.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		require.NoError(w.t, w.setReady(w.t.Context(), name, "True", time.Now()))
		require.NoError(w.t, w.setCondition(w.t.Context(), name, corev1.NodeCondition{Type: brokenDisk, Status: "False", LastTransitionTime: metav1.Now()}))
	}
}

// brokenDisk is a condition that makes nodes unhealthy, too.
const brokenDisk corev1.NodeConditionType = "BrokenDisk"

// changeNode sets labels or annotations of a node, and removes those that are nil.
func (w *world) changeNode(ctx context.Context, name, field string, values map[string]any) error {
	return patchMetadata(map[string]any{field: values}, func(patch []byte) error {
		_, err := w.kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
		return err
	})
}

func (w *world) exclude(ctx context.Context, name string, value any) error {
	return w.changeNode(ctx, name, "labels", map[string]any{v1alpha1.LabelExclude: value})
}
