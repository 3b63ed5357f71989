// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// printed returns an event as kubectl prints it.
func printed(t *testing.T, what watch.EventType, node *corev1.Node) string {
	t.Helper()
	node = node.DeepCopy()
	node.APIVersion, node.Kind, node.CreationTimestamp = "v1", "Node", metav1.NewTime(epoch.Add(-time.Hour))
	text, err := json.MarshalIndent(map[string]any{"type": what, "object": node}, "", "    ")
	require.NoError(t, err)
	return string(text) + "\n"
}

// changes are events after the first ones.
type changes func(t *testing.T) string

// becomes is an event in which a node has another condition Ready.
func becomes(name string, status corev1.ConditionStatus, after time.Duration) changes {
	return func(t *testing.T) string {
		t.Helper()
		changed := node(name, nil)
		changed.Status.Conditions[0].Status, changed.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(epoch.Add(after))
		return printed(t, watch.Modified, changed)
	}
}

// alive is an event in which a node has only sent a heartbeat.
func alive(name string, after time.Duration) changes {
	return func(t *testing.T) string {
		t.Helper()
		return printed(t, watch.Modified, heartbeat(node(name, nil), after))
	}
}

// heartbeat returns a node that has sent a heartbeat.
func heartbeat(node *corev1.Node, after time.Duration) *corev1.Node {
	node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(epoch.Add(after))
	return node
}

func happens(what watch.EventType, node *corev1.Node) changes {
	return func(t *testing.T) string {
		t.Helper()
		return printed(t, what, node)
	}
}

// streamOf returns what kubectl prints about these nodes, and then about their changes.
func streamOf(t *testing.T, ready []*corev1.Node, events ...changes) string {
	t.Helper()
	var stream strings.Builder
	for _, node := range ready {
		stream.WriteString(printed(t, watch.Added, heartbeat(node.DeepCopy(), 0)))
	}
	for _, change := range events {
		stream.WriteString(change(t))
	}
	return stream.String()
}

func recorded(t *testing.T, ready []*corev1.Node, events ...changes) *Recording {
	t.Helper()
	from, err := ReadRecording(strings.NewReader(streamOf(t, ready, events...)))
	require.NoError(t, err)
	return from
}

// replayOf returns the input that plays a recording with one NodeHealthCheck.
func replayOf(from *Recording, changes ...func(*v1alpha1.NodeHealthCheck)) *Input {
	return &Input{
		Checks: []*v1alpha1.NodeHealthCheck{newNHC("workers", changes...)}, Nodes: from.Nodes,
		Recorded: from.Changes, Start: from.Start, Duration: from.End.Sub(from.Start),
	}
}

func maxUnhealthy(n int32) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.MaxUnhealthy = new(intstr.FromInt32(n)) }
}

// TestReplay: nodes change as recorded, and decisions follow.
func TestReplay(t *testing.T) {
	t.Parallel()
	d := heartbeat(node("d", nil), 21*time.Minute)
	from := recorded(t, nodes("a", "b", "c"),
		becomes("a", corev1.ConditionUnknown, 10*time.Minute),
		becomes("b", corev1.ConditionUnknown, 11*time.Minute),
		becomes("a", corev1.ConditionTrue, 14*time.Minute),
		alive("c", 20*time.Minute),
		happens(watch.Deleted, node("b", nil)),
		happens(watch.Bookmark, &corev1.Node{}),
		happens(watch.Added, d), happens(watch.Added, d), // The second one is of another kubectl.
		becomes("d", corev1.ConditionUnknown, 22*time.Minute),
		alive("c", 25*time.Minute),
	)
	require.WithinDuration(t, epoch, from.Start, 0)
	require.Len(t, from.Nodes, 3)
	require.Len(t, from.Changes, 6)
	in := replayOf(from)
	result := Run(in)
	require.Equal(t, []string{
		"10m0s a fails: Ready=Unknown",
		"11m0s a is unhealthy: Ready=Unknown for 1m0s",
		"11m0s a remediation begins: RebootRemediationTemplate remediators/default",
		"11m0s b fails: Ready=Unknown",
		"12m0s b is unhealthy: Ready=Unknown for 1m0s",
		"12m0s b remediation begins: RebootRemediationTemplate remediators/default",
		"14m0s a recovers: as recorded",
		"14m0s a remediation ends: healthy; after 3m0s",
		"20m0s b is deleted",
		"20m0s b remediation ends: the node is gone; after 8m0s",
		"21m0s d is created",
		"22m0s d fails: Ready=Unknown",
		"23m0s d is unhealthy: Ready=Unknown for 1m0s",
		"23m0s d remediation begins: RebootRemediationTemplate remediators/default",
	}, told(result))
	require.Equal(t, 25*time.Minute, result.Duration.Duration)
	require.Equal(t, 3, result.Summary.Remediations)
	require.Equal(t, []string{"d"}, result.Summary.StillRemediated)
	require.Equal(t, result, Run(in), "a recording can be played again")
}

// TestReplayTogether: nodes that recover in the same second do so together.
func TestReplayTogether(t *testing.T) {
	t.Parallel()
	from := recorded(t, nodes("a", "b", "c", "d"),
		becomes("a", corev1.ConditionUnknown, 10*time.Minute),
		becomes("b", corev1.ConditionUnknown, 10*time.Minute),
		becomes("a", corev1.ConditionTrue, 20*time.Minute),
		becomes("b", corev1.ConditionTrue, 20*time.Minute),
	)
	require.Equal(t, []string{
		"10m0s a b fails: Ready=Unknown",
		"11m0s a b is unhealthy: Ready=Unknown for 1m0s",
		"11m0s a b waits: GateClosed: 2 of 4 nodes are healthy, at least 3 have to be",
		"20m0s a b recovers: as recorded",
	}, told(Run(replayOf(from, maxUnhealthy(1)))))
}

// TestReplayRounded: what is due in the second of a change is done before: the API server leaves out fractions.
func TestReplayRounded(t *testing.T) {
	t.Parallel()
	from := recorded(t, nodes("a", "b", "c"),
		becomes("a", corev1.ConditionUnknown, 10*time.Minute),
		becomes("b", corev1.ConditionUnknown, 11*time.Minute),
	)
	require.Equal(t, []string{
		"10m0s a fails: Ready=Unknown",
		"11m0s a is unhealthy: Ready=Unknown for 1m0s",
		"11m0s a remediation begins: RebootRemediationTemplate remediators/default",
		"11m0s b fails: Ready=Unknown",
	}, told(Run(replayOf(from, maxUnhealthy(1)))))
}

// TestReplayStart: nodes that are unhealthy when the recording begins are remediated then. Of a Node, only what
// decisions read is kept.
func TestReplayStart(t *testing.T) {
	t.Parallel()
	failed := node("a", map[string]string{zone: "1"})
	failed.Status.Conditions[0].Status = corev1.ConditionUnknown
	failed.Annotations = map[string]string{v1alpha1.AnnotationManuallyConfirmedHealthy: "", "other": "x"}
	failed.Status.Images = []corev1.ContainerImage{{Names: []string{"an image"}}}
	from := recorded(t, append(nodes("b"), failed), alive("b", time.Minute))
	require.Empty(t, from.Changes)
	kept := from.Nodes[1]
	require.Equal(t, failed.Labels, kept.Labels)
	require.Equal(t, map[string]string{v1alpha1.AnnotationManuallyConfirmedHealthy: ""}, kept.Annotations)
	require.Empty(t, kept.Status.Images)
	delete(kept.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy)
	require.Equal(t, []string{
		"0s a is unhealthy: Ready=Unknown for 1h0m0s",
		"0s a remediation begins: RebootRemediationTemplate remediators/default",
	}, told(Run(replayOf(from))))
}

// TestReadRecording: what is cut off is left out. What kubectl has not printed like this is an error.
func TestReadRecording(t *testing.T) {
	t.Parallel()
	stream := streamOf(t, nodes("a"), becomes("a", corev1.ConditionUnknown, time.Minute))
	from, err := ReadRecording(strings.NewReader(stream + `{"type": "MODI`))
	require.NoError(t, err)
	require.True(t, from.Truncated)
	require.Len(t, from.Changes, 1)
	from, err = ReadRecording(strings.NewReader(stream))
	require.NoError(t, err)
	require.False(t, from.Truncated)
	for name, tc := range map[string]struct{ stream, want string }{
		"nothing":           {" \n", "is empty. Give what \"kubectl get nodes --watch --output-watch-events -o json\" has printed"},
		"no nodes":          {streamOf(t, nil, happens(watch.Deleted, node("a", nil))), "has no nodes. Give"},
		"cut off at once":   {`{"type":"AD`, "has no nodes. Give"},
		"a table":           {"NAME   STATUS", "is no JSON at byte 1. Give"},
		"cut off and again": {stream[:len(stream)-20] + stream, "is no JSON at byte "},
		"a list":            {`{"kind":"List","items":[]}`, "has List instead of the event of a Node (value 1). Give"},
		"no events":         {`{"kind":"Node","metadata":{"name":"a"}}`, "has Node instead of the event of a Node (value 1). Give"},
		"another kind":      {stream + `{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"}}}`, "has an event of Pod instead of the event of a Node (value 3). Give"},
		"a number":          {"7", "has something else instead of"},
		"no object":         {"{}", "has something else instead of"},
		"a strange object":  {`{"type":"ADDED","object":3}`, "has an event of something else instead of"},
		"no name":           {`{"type":"ADDED","object":{"kind":"Node","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}}`, "has an event of Node instead of"},
		"no creation":       {`{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"a"}}}`, "has an event of Node instead of"},
	} {
		_, err := ReadRecording(strings.NewReader(tc.stream))
		require.ErrorContains(t, err, tc.want, name)
	}
	_, err = ReadRecording(iotest.ErrReader(errors.New("the disk is gone")))
	require.EqualError(t, err, "cannot be read: the disk is gone")
}

// TestInterrupted: a simulation stops when it is told to.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	asked := 0
	result := Run(&Input{
		Checks: []*v1alpha1.NodeHealthCheck{newNHC("workers")}, Nodes: nodes("a"), Start: epoch, Duration: time.Hour, Fail: fail(time.Minute, "a"),
		Interrupted: func() bool { asked++; return asked > 2 },
	})
	require.Equal(t, 2*time.Minute, result.Duration.Duration)
}
