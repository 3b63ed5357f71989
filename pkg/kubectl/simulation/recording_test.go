// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func at(after time.Duration) time.Time { return epoch.Add(after) }

// recordedNode returns a Node with one condition, and with what no recording keeps.
func recordedNode(name string, ready corev1.ConditionStatus, since time.Duration) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour)), ResourceVersion: "7",
			Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"other": "x"},
		},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Kubelet", LastTransitionTime: metav1.NewTime(at(since)), LastHeartbeatTime: metav1.NewTime(at(since))}},
			Images:     []corev1.ContainerImage{{Names: []string{"an image"}}},
		},
	}
}

// TestWriteAndRead: a written recording can be read again, and has only the kept parts of Nodes.
func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w := NewWriter(&file, at(0))
	w.Node(recordedNode("a", corev1.ConditionTrue, -time.Hour), at(0))
	w.Node(recordedNode("b", corev1.ConditionTrue, -time.Hour), at(0))
	require.Equal(t, 0, w.Changes())
	size := file.Len()
	heartbeat := recordedNode("a", corev1.ConditionTrue, -time.Hour)
	heartbeat.Status.Conditions[0].LastHeartbeatTime, heartbeat.Annotations["other"] = metav1.NewTime(at(time.Minute)), "y"
	w.Node(heartbeat, at(time.Minute))
	w.Delete("unknown", at(time.Minute))
	require.Equal(t, size, file.Len(), "nothing has changed")

	failed := recordedNode("a", corev1.ConditionUnknown, 90*time.Second)
	failed.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy] = ""
	w.Node(failed, at(91500*time.Millisecond))
	w.Mark(at(2 * time.Minute))
	relabelled := failed.DeepCopy()
	relabelled.Labels, relabelled.Annotations, relabelled.Status.Conditions = nil, nil, nil
	w.Node(relabelled, at(3*time.Minute))
	w.Gap(at(4*time.Minute), at(5*time.Minute))
	w.Gap(at(8*time.Minute), at(6*time.Minute))
	w.Delete("b", at(7*time.Minute))
	again := recordedNode("b", corev1.ConditionTrue, 8*time.Minute)
	again.UID = "another"
	w.Node(again, at(8*time.Minute))
	require.NoError(t, w.Err())
	require.Equal(t, []int{4, 2}, []int{w.Changes(), w.Nodes()})

	recorded, err := Read(&file)
	require.NoError(t, err)
	require.Empty(t, recorded.Notes)
	require.Equal(t, []time.Time{at(0), at(8 * time.Minute)}, []time.Time{recorded.Start, recorded.End})
	since := epoch.Add(-time.Hour)
	ready := []Condition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Since: since}}
	labels := map[string]string{"zone": "a"}
	require.Equal(t, []Entry{
		{At: at(0), Node: "a", UID: "uid-of-a", Created: since, Labels: labels, Conditions: ready},
		{At: at(0), Node: "b", UID: "uid-of-b", Created: since, Labels: labels, Conditions: ready},
		{At: at(91500 * time.Millisecond), Node: "a", Annotations: map[string]string{v1alpha1.AnnotationManuallyConfirmedHealthy: ""}, Conditions: []Condition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Since: at(90 * time.Second)}}},
		{At: at(2 * time.Minute)},
		{At: at(3 * time.Minute), Node: "a", Labels: map[string]string{}, Annotations: map[string]string{}, Conditions: []Condition{{Type: corev1.NodeReady}}},
		{At: at(5 * time.Minute), Gap: at(4 * time.Minute)},
		{At: at(6 * time.Minute), Gap: at(6 * time.Minute)},
		{At: at(7 * time.Minute), Node: "b", Deleted: true},
		{At: at(8 * time.Minute), Node: "b", UID: "another", Created: since, Labels: labels, Conditions: []Condition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Since: at(8 * time.Minute)}}},
	}, recorded.Entries)
}

// TestApply: entries applied one after the other lead to each Node that was recorded, whatever it was
// before.
func TestApply(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	var before *corev1.Node
	for range 2000 {
		after := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(one("1", "1", "1", "2"))}}
		for _, key := range []string{"x", "y"} {
			if r.IntN(2) == 0 {
				metav1.SetMetaDataLabel(&after.ObjectMeta, key, one("1", "2"))
			}
		}
		for _, kind := range []string{"Ready", "DiskPressure", "Broken"} {
			if r.IntN(4) > 0 {
				after.Status.Conditions = append(after.Status.Conditions, corev1.NodeCondition{
					Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(one("True", "False")), LastTransitionTime: metav1.NewTime(at(time.Duration(r.IntN(3)) * time.Second)),
				})
			}
		}
		entry, differs := difference(before, after)
		if !differs {
			require.Equal(t, before.UID, after.UID)
			continue
		}
		applied := Apply(before, &entry)
		_, differs = difference(applied, after)
		require.False(t, differs, "%v then %v", before, after)
		require.Equal(t, after.UID, applied.UID)
		before = applied
	}
	require.Nil(t, Apply(before, &Entry{Node: "a", Deleted: true}))
}

const header = `{"recording":"kubectl-nhc","version":1,"time":"2026-01-01T00:00:00Z"}` + "\n"

// entryAt is a line about a node.
func entryAt(after time.Duration, name string) string {
	return fmt.Sprintf(`{"time":%q,"node":%q,"conditions":{"Ready":{"status":"True"}}}`+"\n", at(after).Format(time.RFC3339Nano), name)
}

// TestReadDamaged: a recording that was cut off, or has a clock that went back, is played and says so.
func TestReadDamaged(t *testing.T) {
	t.Parallel()
	whole := header + entryAt(0, "a") + entryAt(time.Minute, "b")
	for name, tc := range map[string]struct {
		file    string
		entries int
		end     time.Duration
		note    string
	}{
		"whole":                 {whole, 2, time.Minute, ""},
		"without the last end":  {strings.TrimSuffix(whole, "\n"), 2, time.Minute, ""},
		"with other line ends":  {strings.ReplaceAll(whole, "\n", "\r\n\r\n"), 2, time.Minute, ""},
		"with an unknown field": {whole + `{"time":"2026-01-01T00:02:00Z","later":true}` + "\n", 3, 2 * time.Minute, ""},
		"cut off":               {whole[:len(whole)-20], 1, 0, "The last line is cut off, and was left out: the recording ends early."},
		"clock set back":        {whole + entryAt(30*time.Second, "a") + entryAt(2*time.Minute, "a"), 4, 2 * time.Minute, "One line is older than the line before, and was played at the time of that one: the clock was set back."},
		"clock before the start": {
			header + entryAt(-time.Hour, "a") + entryAt(-time.Minute, "a"), 2, 0,
			"2 lines are older than the line before, and were played at the time of that one: the clock was set back.",
		},
	} {
		recorded, err := Read(strings.NewReader(tc.file))
		require.NoError(t, err, name)
		require.Len(t, recorded.Entries, tc.entries, name)
		require.Equal(t, at(tc.end), recorded.End, name)
		require.Equal(t, epoch, recorded.Start, name)
		require.Equal(t, tc.note, strings.Join(recorded.Notes, " "), name)
	}
}

// TestReadCutAnywhere: a recording may be cut off anywhere. The part before can be played, or nothing was
// recorded.
func TestReadCutAnywhere(t *testing.T) {
	t.Parallel()
	whole := header + entryAt(0, "a") + entryAt(time.Minute, "b")
	for length := range len(whole) {
		recorded, err := Read(strings.NewReader(whole[:length]))
		switch {
		case length < len(header)-1:
			require.Error(t, err, length)
		case length < len(header+entryAt(0, "a"))-1:
			require.ErrorContains(t, err, "has no nodes", length)
		default:
			require.NoError(t, err, length)
			require.NotEmpty(t, recorded.Entries, length)
		}
	}
}

// TestReadErrors: an error names the line that cannot be played, with advice.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, want string }{
		"empty":             {"", "is empty: make a recording with kubectl nhc record -o FILE"},
		"empty lines":       {"\n\n \n", "is empty: make a recording with kubectl nhc record -o FILE"},
		"no JSON":           {"\x1f\x8b\x08", "is no recording: make one with kubectl nhc record -o FILE, with --from for what kubectl get nodes -w -o json has printed"},
		"other JSON":        {`{"kind":"Node"}`, "is no recording: make one"},
		"a list":            {`[]`, "is no recording: make one"},
		"another version":   {`{"recording":"kubectl-nhc","version":2,"time":"2026-01-01T00:00:00Z"}`, "has version 2 of the format, and this kubectl nhc reads version 1: use the release that recorded it, or a newer one"},
		"no start":          {`{"recording":"kubectl-nhc","version":1}`, "has a header without a time: record again"},
		"no nodes":          {header + `{"time":"2026-01-01T00:00:01Z"}`, "has no nodes: record again, in a cluster that has some"},
		"a foreign line":    {header + entryAt(0, "a") + "Warning: x\n" + entryAt(1, "b"), "cannot be understood at line 3: it is no JSON, or a field has another type. Remove the line, or record again"},
		"another type":      {header + `{"time":7}` + "\n", "cannot be understood at line 2: it is no JSON"},
		"no time":           {header + `{"node":"a"}` + "\n", "cannot be understood at line 2: it has no time."},
		"no node":           {header + `{"time":"2026-01-01T00:00:00Z","uid":"1"}` + "\n", "line 2: it names no node."},
		"no status":         {header + `{"time":"2026-01-01T00:00:00Z","node":"a","conditions":{"Ready":{}}}` + "\n", "line 2: a condition has no status."},
		"a gap of a node":   {header + `{"time":"2026-01-01T00:00:00Z","node":"a","gap":"2026-01-01T00:00:00Z"}` + "\n", "line 2: it has a gap and names a node."},
		"a backward gap":    {header + `{"time":"2026-01-01T00:00:00Z","gap":"2026-01-02T00:00:00Z"}` + "\n", "line 2: its gap ends before it begins."},
		"two recordings":    {header + entryAt(0, "a") + header, "line 3: another recording begins there."},
		"a distant time":    {header + entryAt(400*24*time.Hour, "a"), "line 2: its time is more than a year after the start."},
		"a long line":       {header + strings.Repeat("x", maxLine+1), "cannot be understood at line 2: it has more than 2097152 bytes."},
		"a deep line":       {header + strings.Repeat("[", 20_000) + "\n", "cannot be understood at line 2: it is no JSON"},
		"a long first line": {strings.Repeat("{", maxLine+1), "cannot be understood at line 1: it has more than"},
	} {
		_, err := Read(strings.NewReader(tc.file))
		require.ErrorContains(t, err, tc.want, name)
	}
	_, err := Read(io.MultiReader(strings.NewReader(header+entryAt(0, "a")), failing{}))
	require.EqualError(t, err, "cannot be read: the disk is gone")
}

// TestReadTooMany: what would not fit into memory is refused before it is read.
func TestReadTooMany(t *testing.T) {
	t.Parallel()
	mark := []byte(`{"time":"2026-01-01T00:00:00Z"}` + "\n")
	_, err := Read(io.MultiReader(strings.NewReader(header), &repeated{text: mark, times: maxEntries + 1}))
	require.ErrorContains(t, err, "has more than 1000000 entries: record for a shorter time")
}

// failing is a file that cannot be read, or written.
type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("the disk is gone") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// repeated is a text, many times.
type repeated struct {
	text  []byte
	times int
}

func (r *repeated) Read(into []byte) (n int, err error) {
	for r.times > 0 && n+len(r.text) <= len(into) {
		n += copy(into[n:], r.text)
		r.times--
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestWriteFails: the first error is kept.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	w := NewWriter(failing{}, at(0))
	w.Node(recordedNode("a", corev1.ConditionTrue, 0), at(0))
	require.EqualError(t, w.Err(), "writing the recording: the disk is full")
}

// FuzzRead: any bytes are a recording in order of time, or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(header + entryAt(0, "a") + entryAt(time.Minute, "b")))
	f.Add([]byte(header + `{"time":"2026-01-01T00:00:01Z","node":"a","deleted":true,"conditions":{"Ready":null}}`))
	f.Add([]byte(header + `{"time":"2026-01-01T00:00:01Z","gap":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		recorded, err := Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		last := recorded.Start
		nodes := map[string]*corev1.Node{}
		for i := range recorded.Entries {
			entry := &recorded.Entries[i]
			require.False(t, entry.At.Before(last))
			last = entry.At
			nodes[entry.Node] = Apply(nodes[entry.Node], entry)
		}
		require.Equal(t, last, recorded.End)
	})
}
