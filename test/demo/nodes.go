// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// readiness has the status of the condition Ready of each node that was seen.
type readiness map[string]corev1.ConditionStatus

// see prints the changes of a node, but not that a new one is Ready.
func (r readiness) see(t *timeline, node *corev1.Node, deleted bool) {
	if deleted {
		delete(r, node.Name)
		t.say("node", node.Name+" deleted")
		return
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady || r[node.Name] == condition.Status {
			continue
		}
		if r[node.Name] != "" || condition.Status != corev1.ConditionTrue {
			t.say("node", fmt.Sprintf("%s Ready=%s (%s)", node.Name, condition.Status, condition.Reason))
		}
		r[node.Name] = condition.Status
	}
}

// ready returns the number of nodes that are Ready.
func (r readiness) ready() int {
	n := 0
	for _, status := range r {
		if status == corev1.ConditionTrue {
			n++
		}
	}
	return n
}

// silence stops the heartbeats of a simulated node, and nothing else.
func (d *demo) silence(ctx context.Context, node string) error {
	d.timeline.say("demo", node+" stops sending heartbeats")
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{localkube.HeartbeatLabel: nil}}})
	if err != nil {
		return err
	}
	if _, err := d.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("silencing %s: %w", node, err)
	}
	return nil
}
