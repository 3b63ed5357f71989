// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lightnode

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// testNode returns a Node with something in every part.
func testNode() *corev1.Node {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	node := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: at, DeletionTimestamp: &at, Finalizers: []string{"f"},
			Labels: map[string]string{"a": "b", "empty": ""}, Annotations: map[string]string{"c": "d"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Machine", Name: "m"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}},
		},
		Spec: corev1.NodeSpec{ProviderID: "p", Unschedulable: true, Taints: []corev1.Taint{{Key: "t"}}},
		Status: corev1.NodeStatus{
			Capacity:   corev1.ResourceList{"cpu": resource.MustParse("16")},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n"}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1"},
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "r", Message: "m", LastHeartbeatTime: at, LastTransitionTime: at}, {Type: "Other", Status: "Unknown"}},
		},
	}
	for i := range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example.com/team/component-%02d@sha256:%064x", i, i), fmt.Sprintf("registry.example.com/team/component-%02d:v1.%d", i, i)}, SizeBytes: 1 << 30,
		})
	}
	return node
}

// lightTestNode is what stays of it.
func lightTestNode() *corev1.Node {
	node := testNode()
	node.ManagedFields = nil
	node.Spec = corev1.NodeSpec{}
	node.Status = corev1.NodeStatus{Conditions: node.Status.Conditions}
	return node
}

// encode returns an object as an API server sends it.
func encode(tb testing.TB, mediaType string, object runtime.Object) []byte {
	tb.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	require.True(tb, ok)
	var buffer bytes.Buffer
	require.NoError(tb, scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(object, &buffer))
	return buffer.Bytes()
}

// decode returns an object as the client of such a serializer reads it.
func decode(serializer runtime.NegotiatedSerializer, mediaType string, data []byte) (runtime.Object, error) {
	info, _ := runtime.SerializerInfoForMediaType(serializer.SupportedMediaTypes(), mediaType)
	object, _, err := serializer.DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion).Decode(data, nil, nil)
	return object, err
}

func TestSerializer(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}, Spec: corev1.PodSpec{NodeName: "n"}}
	list := &corev1.NodeList{Items: []corev1.Node{*testNode()}}
	list.Items[0].TypeMeta = metav1.TypeMeta{}
	tests := map[string]struct {
		mediaType    string
		object, want runtime.Object
	}{
		"a Node":                    {mediaType: runtime.ContentTypeProtobuf, object: testNode(), want: lightTestNode()},
		"a Node without a status":   {mediaType: runtime.ContentTypeProtobuf, object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, want: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}},
		"a Node in JSON":            {mediaType: runtime.ContentTypeJSON, object: testNode(), want: testNode()},
		"Nodes in a list":           {mediaType: runtime.ContentTypeProtobuf, object: list, want: list},
		"another kind":              {mediaType: runtime.ContentTypeProtobuf, object: pod, want: pod},
		"the answer to a bad watch": {mediaType: runtime.ContentTypeProtobuf, object: &metav1.Status{Message: "too old"}, want: &metav1.Status{Message: "too old"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := encode(t, tc.mediaType, tc.object)
			before := bytes.Clone(data)
			got, err := decode(Serializer(scheme.Codecs), tc.mediaType, data)
			require.NoError(t, err)
			require.Equal(t, encode(t, runtime.ContentTypeJSON, tc.want), encode(t, runtime.ContentTypeJSON, got))
			require.Equal(t, before, data, "what was received is not touched")
		})
	}
}

// TestLightNodesAreLight: most of a Node is never decoded.
func TestLightNodesAreLight(t *testing.T) {
	t.Parallel()
	data := encode(t, runtime.ContentTypeProtobuf, testNode())
	require.Less(t, len(lighten(data))*10, len(data))
}

// FuzzLighten: what can be decoded can be decoded without what is left out, and says
// the same of everything else; and what cannot be decoded is still no Node.
func FuzzLighten(f *testing.F) {
	whole := encode(f, runtime.ContentTypeProtobuf, testNode())
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(encode(f, runtime.ContentTypeProtobuf, &corev1.Node{}))
	f.Add(encode(f, runtime.ContentTypeProtobuf, &corev1.Pod{}))
	f.Add([]byte("k8s\x00\n\x0a\n\x02v1\x12\x04Node\x12\x02\x1a\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		full, fullErr := decode(scheme.Codecs, runtime.ContentTypeProtobuf, data)
		got, err := decode(Serializer(scheme.Codecs), runtime.ContentTypeProtobuf, data)
		if fullErr != nil {
			return // What is left out may be what was wrong with it.
		}
		require.NoError(t, err)
		node, ok := full.(*corev1.Node)
		if !ok {
			require.Equal(t, full, got)
			return
		}
		lightened := got.(*corev1.Node)
		require.Equal(t, node.Status.Conditions, lightened.Status.Conditions)
		node.ManagedFields, lightened.ManagedFields = nil, nil
		require.Equal(t, node.ObjectMeta, lightened.ObjectMeta)
	})
}

// BenchmarkDecode is what it costs to read a Node, with and without its images.
func BenchmarkDecode(b *testing.B) {
	data := encode(b, runtime.ContentTypeProtobuf, testNode())
	for name, serializer := range map[string]runtime.NegotiatedSerializer{"full": scheme.Codecs.WithoutConversion(), "light": Serializer(scheme.Codecs.WithoutConversion())} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(serializer, runtime.ContentTypeProtobuf, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
