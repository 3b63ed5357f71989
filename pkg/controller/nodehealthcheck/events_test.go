// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// recorded is one event as it was recorded.
type recorded struct {
	regarding, related corev1.ObjectReference
	line               string
}

type testRecorder struct{ all []recorded }

func (r *testRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	event := recorded{regarding: *regarding.(*corev1.ObjectReference), line: eventType + " " + reason + ": " + fmt.Sprintf(note, args...)}
	if related != nil {
		event.related = *related.(*corev1.ObjectReference)
	}
	if action == "" {
		event.line += " without action, which the API refuses"
	}
	r.all = append(r.all, event)
}

// TestEventsAreRecorded: those about a node on both, each related to the other, but not on a
// deleted one. A note is no format (spec 19.1).
func TestEventsAreRecorded(t *testing.T) {
	t.Parallel()
	onNHC := corev1.ObjectReference{APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: "workers", UID: "workers-uid"}
	onNode := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n-uid"}
	recorder := &testRecorder{}
	eventReporter{recorder: recorder}.record(testCheck(), []status.Event{
		{Type: "Warning", Reason: "Of the check", Action: "A", Note: "100%d"},
		{Type: "Normal", Reason: "Of a node", Action: "B", Note: "note", Node: &remediation.Node{Name: "n", UID: "n-uid"}},
		{Type: "Normal", Reason: "Of a deleted node", Action: "C", Note: "note", Node: &remediation.Node{Name: "m", Constraints: remediation.Constraints{NodeConstraints: remediation.NodeConstraints{NodeDeleted: true}}}},
	})
	require.Equal(t, []recorded{
		{regarding: onNHC, line: "Warning Of the check: [remediation] 100%d"},
		{regarding: onNHC, related: onNode, line: "Normal Of a node: [remediation] note"},
		{regarding: onNode, related: onNHC, line: "Normal Of a node: [remediation] note"},
		{regarding: onNHC, related: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "m"}, line: "Normal Of a deleted node: [remediation] note"},
	}, recorder.all)
}
