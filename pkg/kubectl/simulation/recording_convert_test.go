// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// printedAs returns a Node as kubectl prints it.
func printedAs(t *testing.T, node *corev1.Node) string {
	t.Helper()
	node.APIVersion, node.Kind = "v1", "Node"
	text, err := json.MarshalIndent(node, "", "    ")
	require.NoError(t, err)
	return string(text) + "\n"
}

// TestConvert: what kubectl has printed becomes the recording that a watch would have made.
func TestConvert(t *testing.T) {
	t.Parallel()
	a, b := recordedNode("a", corev1.ConditionTrue, -2*time.Hour), recordedNode("b", corev1.ConditionTrue, -time.Hour)
	heartbeat := recordedNode("a", corev1.ConditionTrue, -2*time.Hour)
	heartbeat.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at(time.Minute))
	failed := recordedNode("b", corev1.ConditionUnknown, 2*time.Minute)
	late := recordedNode("c", corev1.ConditionTrue, 3*time.Minute)
	late.CreationTimestamp = metav1.NewTime(at(3 * time.Minute))
	event := func(kind string, node *corev1.Node) string {
		return `{"type":"` + kind + `","object":` + printedAs(t, node) + "}\n"
	}
	plain := printedAs(t, a) + printedAs(t, b) + printedAs(t, heartbeat) + printedAs(t, failed) + printedAs(t, late)
	events := event("ADDED", a) + event("ADDED", b) + event("MODIFIED", heartbeat) + event("BOOKMARK", &corev1.Node{}) + event("MODIFIED", failed) + event("ADDED", late)
	for name, stream := range map[string]string{
		"objects": plain, "events": events, "cut off": plain + printedAs(t, a)[:100],
		"a list": `{"kind":"List","items":[` + printedAs(t, a) + "," + printedAs(t, b) + "]}" + printedAs(t, heartbeat) + printedAs(t, failed) + printedAs(t, late),
	} {
		var file bytes.Buffer
		converted, err := Convert(strings.NewReader(stream), &file)
		require.NoError(t, err, name)
		require.Equal(t, Converted{Nodes: 3, Changes: 2, Truncated: name == "cut off"}, converted, name)
		recorded, err := Read(&file)
		require.NoError(t, err, name)
		require.Equal(t, epoch.Add(-time.Hour), recorded.Start, name)
		require.Equal(t, at(3*time.Minute), recorded.End, name)
		require.Len(t, recorded.Entries, 4, name)
		require.Equal(t, []Condition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Since: at(2 * time.Minute)}}, recorded.Entries[2].Conditions, name)
	}
	var file bytes.Buffer
	converted, err := Convert(strings.NewReader(events+event("DELETED", failed)), &file)
	require.NoError(t, err)
	require.Equal(t, Converted{Nodes: 2, Changes: 3}, converted)
	converted, err = Convert(strings.NewReader(event("DELETED", failed)+printedAs(t, a)), &file)
	require.NoError(t, err)
	require.Equal(t, Converted{Nodes: 1}, converted)
}

// TestConvertErrors: input that kubectl get nodes has not printed.
func TestConvertErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ stream, want string }{
		"nothing":          {"", "has no nodes. Give what kubectl get nodes -w -o json has printed"},
		"cut off at once":  {`{"kind":"No`, "has no nodes."},
		"a table":          {"NAME   STATUS", "cannot be understood at byte 1: it is no JSON."},
		"a number":         {"7", "cannot be understood: object 1 is no Node."},
		"another kind":     {`{"kind":"Pod","metadata":{"name":"a"}}`, "object 1 is no Node."},
		"no name":          {`{"kind":"Node"}`, "object 1 is no Node."},
		"no creation":      {`{"kind":"Node","metadata":{"name":"a"}}`, "object 1 is no Node."},
		"a list of others": {`{"kind":"List","items":[{"kind":"Node"}]}`, "object 1 is no Node."},
		"a strange status": {`{"kind":"Node","metadata":{"name":"a"},"status":3}`, "object 1 is no Node."},
		"a strange list":   {`{"kind":"List","items":3}`, "object 1 is no Node."},
		"a strange event":  {`{"type":"ADDED","object":3}`, "object 1 is no Node."},
		"a recording":      {header, "object 1 is no Node."},
	} {
		_, err := Convert(strings.NewReader(tc.stream), io.Discard)
		require.ErrorContains(t, err, tc.want, name)
	}
	_, err := Convert(failing{}, io.Discard)
	require.EqualError(t, err, "cannot be read: the disk is gone")
	good := printedAs(t, recordedNode("a", corev1.ConditionTrue, 0))
	_, err = Convert(strings.NewReader(good+good+good), failing{})
	require.EqualError(t, err, "writing the recording: the disk is full")
	_, err = Convert(io.MultiReader(strings.NewReader(`{"kind":"`), &repeated{text: bytes.Repeat([]byte("x"), 256), times: 1 << 20}), io.Discard)
	require.EqualError(t, err, "cannot be read: it has an object of more than 128 MiB")
}
