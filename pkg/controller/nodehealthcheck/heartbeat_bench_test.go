// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// heartbeatServer is the transport of a client. It lists no Nodes, and its one watch has
// what is written to it.
type heartbeatServer struct {
	*io.PipeWriter
	body *io.PipeReader
}

func newHeartbeatServer() heartbeatServer {
	reader, writer := io.Pipe()
	return heartbeatServer{PipeWriter: writer, body: reader}
}

// RoundTrip implements http.RoundTripper.
func (s heartbeatServer) RoundTrip(request *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: request}
	switch query := request.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		response.StatusCode, response.Body = http.StatusBadRequest, http.NoBody // The informer lists instead.
	case query.Get("watch") != "":
		response.Header.Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		response.Body = s.body
	default:
		list, err := runtime.Encode(scheme.Codecs.EncoderForVersion(protobufInfo().Serializer, corev1.SchemeGroupVersion), &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
		if err != nil {
			return nil, err
		}
		response.Header.Set("Content-Type", runtime.ContentTypeProtobuf)
		response.Body = io.NopCloser(bytes.NewReader(list))
	}
	return response, nil
}

func protobufInfo() runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return info
}

// watchEvents returns events as an API server sends them, one heartbeat of each node.
func watchEvents(tb testing.TB, event watch.EventType, nodes []*corev1.Node, version int) []byte {
	tb.Helper()
	info := protobufInfo()
	var buffer bytes.Buffer
	encoder := streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(&buffer), scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion))
	for _, node := range nodes {
		node.ResourceVersion = fmt.Sprint(version)
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(epoch.Add(time.Duration(version) * time.Minute))
		}
		object, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), node)
		require.NoError(tb, err)
		require.NoError(tb, encoder.Encode(&metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Raw: object}}))
	}
	return buffer.Bytes()
}

// wholeNodes returns nodes with images, as large as those of a cluster.
func wholeNodes(n int) []*corev1.Node {
	nodes := benchNodes(n, noNode)
	for _, node := range nodes {
		node.Annotations, node.Status.Capacity = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}, corev1.ResourceList{}
		node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{}}}}}`)}}
		for i := range 50 {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 30, Names: []string{
				fmt.Sprintf("registry.example.com/team/component-%02d@sha256:%064x", i, i), fmt.Sprintf("registry.example.com/team/component-%02d:v1.%d", i, i),
			}})
		}
	}
	return nodes
}

// heartbeatPath is an informer of Nodes with a server of its own.
type heartbeatPath struct {
	heartbeatServer
	informer coreinformers.TypedNodeInformer
	cpu      time.Duration
}

func newHeartbeatPath(b *testing.B) *heartbeatPath {
	b.Helper()
	server := newHeartbeatServer()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://server", Transport: server, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}})
	require.NoError(b, err)
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(TrimNode))
	return &heartbeatPath{heartbeatServer: server, informer: factory.Core().V1().Nodes()}
}

// receive sends events, waits until the last of them is in the cache, and adds what it
// costs.
func (p *heartbeatPath) receive(b *testing.B, events []byte, last *corev1.Node, version int) {
	b.Helper()
	begin := processTime(b)
	_, err := p.Write(events)
	require.NoError(b, err)
	for {
		object, exists, _ := p.informer.Informer().GetStore().GetByKey(last.Name)
		if exists && object.(*corev1.Node).ResourceVersion == fmt.Sprint(version) {
			break
		}
		time.Sleep(20 * time.Microsecond)
	}
	p.cpu += processTime(b) - begin
}

// processTime returns the CPU time that this process has used.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkHeartbeats compares the CPU time of a heartbeat in the controller with that in
// an informer that does nothing but to keep its cache, and has the same transform. Both
// get the same 500 heartbeats in turn.
func BenchmarkHeartbeats(b *testing.B) {
	nodes := wholeNodes(500)
	bare, full := newHeartbeatPath(b), newHeartbeatPath(b)
	c, _ := newTestController(b, clock.RealClock{}, full.informer)
	c.nhcChanged(nil, selecting("all", metav1.LabelSelector{}))
	paths := []*heartbeatPath{bare, full}
	for _, path := range paths {
		go path.informer.Informer().RunWithContext(b.Context())
		path.receive(b, watchEvents(b, watch.Added, nodes, 2), nodes[len(nodes)-1], 2)
		path.cpu = 0
	}
	require.Eventually(b, func() bool { return c.index.Covered() == len(nodes) }, time.Minute, time.Millisecond)
	rounds := [][]byte{watchEvents(b, watch.Modified, nodes, 3), watchEvents(b, watch.Modified, nodes, 4)}
	n := 0
	for ; b.Loop(); n++ {
		for i := range paths {
			paths[(i+n)%2].receive(b, rounds[n%2], nodes[len(nodes)-1], 3+n%2)
		}
	}
	perHeartbeat := func(path *heartbeatPath) float64 { return float64(path.cpu.Nanoseconds()) / float64(n*len(nodes)) }
	b.ReportMetric(perHeartbeat(bare), "bare-cpu-ns/heartbeat")
	b.ReportMetric(perHeartbeat(full), "cpu-ns/heartbeat")
	b.ReportMetric(perHeartbeat(full)/perHeartbeat(bare), "ratio")
	b.ReportMetric(float64(len(rounds[0]))/float64(len(nodes)), "B/heartbeat")
}
