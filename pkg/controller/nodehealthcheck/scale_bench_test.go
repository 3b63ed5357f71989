// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
)

// BenchmarkScale is a sync after which nothing has changed, in clusters of up to 100,000
// nodes. start-ms is the time from the start of the informers until the first status is
// written, start-cpu-ms the CPU time meanwhile, with that of the fake API server, and
// heap-B/node the memory that the controller keeps for each node.
func BenchmarkScale(b *testing.B) {
	for _, health := range []struct {
		name     string
		notReady func(i int) bool
	}{{"healthy", func(int) bool { return false }}, {"waiting", func(i int) bool { return i%5 < 3 }}} {
		for _, n := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", health.name, n), func(b *testing.B) {
				before := heapInUse()
				nodes := &nodeStream{n: n, ready: nodeFrame(b, true), notReady: nodeFrame(b, false), isNotReady: health.notReady}
				s := startScaled(b, nodes)
				perNode := float64(heapInUse()-before) / float64(n)
				b.ReportAllocs()
				for b.Loop() {
					s.mustSync(b)
				}
				b.ReportMetric(float64(s.started.Milliseconds()), "start-ms")
				b.ReportMetric(float64(s.startCPU.Milliseconds()), "start-cpu-ms")
				b.ReportMetric(perNode, "heap-B/node")
			})
		}
	}
}

// heapInUse returns the size of all live objects.
func heapInUse() int64 {
	for range 2 { // The second collection frees what has a finalizer.
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// cpuTime returns how much CPU time this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// scaledController is a controller with real informers for Nodes, and fake clients for
// all else.
type scaledController struct {
	*Controller
	started, startCPU time.Duration
	writes            atomic.Int32 // Of the status.
}

func (s *scaledController) mustSync(b *testing.B) {
	b.Helper()
	_, err := s.sync(b.Context(), "workers")
	require.NoError(b, err)
}

// startScaled starts a controller, and returns when it has nothing more to write. The
// informers stop at the end of the benchmark.
func startScaled(b *testing.B, nodes http.RoundTripper) *scaledController {
	b.Helper()
	s := &scaledController{}
	config := s.config(b, nodes)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	var wg sync.WaitGroup
	b.Cleanup(func() { cancel(); wg.Wait() })
	var err error
	s.Controller, err = New(ctx, config)
	require.NoError(b, err)
	b.Cleanup(s.Queue.ShutDown)

	begin, cpu := config.Clock.Now(), cpuTime()
	for _, informer := range []cache.SharedIndexInformer{config.Nodes.Informer(), config.NodeHealthChecks.Informer(), config.Leases.Informer(), config.CRDs} {
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	wg.Go(func() { s.RunWatches(ctx) })
	require.Eventually(b, s.HasSynced, 10*time.Minute, time.Millisecond)
	for s.writes.Load() == 0 { // Until then it waits for the templates.
		if _, err := s.sync(ctx, "workers"); err != nil {
			config.Clock.(clock.Clock).Sleep(time.Millisecond)
		}
	}
	s.started, s.startCPU = config.Clock.Since(begin), cpuTime()-cpu
	require.Eventually(b, func() bool {
		writes := s.writes.Load()
		_, err := s.sync(ctx, "workers")
		return err == nil && s.writes.Load() == writes
	}, time.Minute, 100*time.Millisecond)
	return s
}

// config returns fake clients with a NodeHealthCheck, its template and their kinds. The
// gate is closed if more than 49 % of the nodes are not healthy.
func (s *scaledController) config(b *testing.B, nodes http.RoundTripper) Config {
	b.Helper()
	nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
		nhc.Spec.MinHealthy = new(intstr.FromString("51%"))
		nhc.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: 5 * time.Minute}}}
		nhc.Spec.RemediationTemplate = &corev1.ObjectReference{
			APIVersion: rebootTemplates.GroupVersion().String(), Kind: rebootTemplates.Kind, Namespace: "remediators", Name: "reboot",
		}
	})
	nhcs := s.nhcClient(nhc)
	kube := kubefake.NewClientset()
	kube.Resources = []*metav1.APIResourceList{{GroupVersion: rebootTemplates.GroupVersion().String(), APIResources: []metav1.APIResource{
		{Name: "rebootremediationtemplates", Kind: rebootTemplates.Kind, Namespaced: true},
		{Name: "rebootremediations", Kind: rebootRemediations.Kind, Namespaced: true},
	}}}
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	template.SetGroupVersionKind(rebootTemplates)
	template.SetNamespace("remediators")
	template.SetName("reboot")
	metadataScheme := apiruntime.NewScheme()
	require.NoError(b, metav1.AddMetaToScheme(metadataScheme))
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	nodeClient, err := kubernetes.NewForConfigAndClient(&rest.Config{QPS: -1, ContentConfig: rest.ContentConfig{ContentType: apiruntime.ContentTypeProtobuf}}, &http.Client{Transport: nodes})
	require.NoError(b, err)
	return Config{
		Client: nhcs.RemediationV1alpha1(), NodeHealthChecks: nhcinformers.NewSharedInformerFactory(nhcs, 0).Remediation().V1alpha1().NodeHealthChecks(),
		Config: reconcile.Config{
			Kube: kube,
			Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(apiruntime.NewScheme(), map[schema.GroupVersionResource]string{
				rebootTemplates.GroupVersion().WithResource("rebootremediationtemplates"): "RebootRemediationTemplateList",
				rebootTemplates.GroupVersion().WithResource("rebootremediations"):         "RebootRemediationList",
			}, template),
			Nodes:    informers.NewSharedInformerFactoryWithOptions(nodeClient, 0, informers.WithTransform(TrimNode)).Core().V1().Nodes(),
			Leases:   informers.NewSharedInformerFactory(kube, 0).Coordination().V1().Leases(),
			CRDs:     metadatainformer.NewFilteredMetadataInformer(metadatafake.NewSimpleMetadataClient(metadataScheme), crds, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
			Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{}, Metrics: prometheus.NewRegistry(),
		},
	}
}

// nhcClient returns a client that knows one NodeHealthCheck, and takes its status by
// patch or by update. It keeps no managed fields, which would take time and memory too.
func (s *scaledController) nhcClient(nhc *v1alpha1.NodeHealthCheck) *nhcfake.Clientset {
	nhc.ResourceVersion = "1"
	client, changes := nhcfake.NewSimpleClientset(), watch.NewRaceFreeFake()
	client.PrependReactor("list", v1alpha1.Plural, func(clienttesting.Action) (bool, apiruntime.Object, error) {
		return true, &v1alpha1.NodeHealthCheckList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1alpha1.NodeHealthCheck{*nhc}}, nil
	})
	client.PrependWatchReactor(v1alpha1.Plural, clienttesting.DefaultWatchReactor(changes, nil))
	written := func(status v1alpha1.NodeHealthCheckStatus) (bool, apiruntime.Object, error) {
		result := nhc.DeepCopy()
		result.ResourceVersion, result.Status = strconv.Itoa(int(s.writes.Add(1))+1), status
		changes.Modify(result.DeepCopy())
		return true, result, nil
	}
	client.PrependReactor("patch", v1alpha1.Plural, func(action clienttesting.Action) (bool, apiruntime.Object, error) {
		var patched v1alpha1.NodeHealthCheck
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patched); err != nil {
			return true, nil, err
		}
		return written(patched.Status)
	})
	client.PrependReactor("update", v1alpha1.Plural, func(action clienttesting.Action) (bool, apiruntime.Object, error) {
		return written(action.(clienttesting.UpdateAction).GetObject().(*v1alpha1.NodeHealthCheck).Status)
	})
	return client
}

// nodeStream is a transport that answers the watch of Nodes as an API server does: it sends
// all Nodes, a bookmark at their end, and then nothing more.
type nodeStream struct {
	n               int
	ready, notReady []byte
	isNotReady      func(i int) bool
}

// placeholder stands in a frame for the six digits of the number of a Node.
const placeholder = "~~~~~~"

// RoundTrip implements http.RoundTripper.
func (s *nodeStream) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.URL.Path != "/api/v1/nodes" || query.Get("watch") == "" {
		return nil, fmt.Errorf("only the watch of Nodes is served, not %s", request.URL)
	}
	body, out := io.Pipe()
	context.AfterFunc(request.Context(), func() { out.CloseWithError(io.EOF) })
	if query.Get("sendInitialEvents") == "true" {
		go s.send(out)
	}
	header := http.Header{"Content-Type": {apiruntime.ContentTypeProtobuf + ";stream=watch"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body, Request: request}, nil
}

// send ends early when the client has gone.
func (s *nodeStream) send(out io.Writer) {
	ready, notReady := newNumberedFrame(s.ready), newNumberedFrame(s.notReady)
	for i := range s.n {
		frame := ready
		if s.isNotReady(i) {
			frame = notReady
		}
		if _, err := out.Write(frame.number(i)); err != nil {
			return
		}
	}
	// With this the client knows that it has seen all.
	end := &corev1.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	if frame, err := encodeEvent(watch.Bookmark, end); err == nil {
		_, _ = out.Write(frame) // The client may have gone.
	}
}

// numberedFrame is an encoded event that can become that of any Node.
type numberedFrame struct {
	frame []byte
	at    []int // Where the number stands.
}

func newNumberedFrame(frame []byte) *numberedFrame {
	f := &numberedFrame{frame: bytes.Clone(frame)}
	for at := 0; ; at += len(placeholder) {
		next := bytes.Index(frame[at:], []byte(placeholder))
		if next < 0 {
			return f
		}
		at += next
		f.at = append(f.at, at)
	}
}

// number returns the event of a Node, until the next call.
func (f *numberedFrame) number(i int) []byte {
	digits := fmt.Sprintf("%06d", i)
	for _, at := range f.at {
		copy(f.frame[at:], digits)
	}
	return f.frame
}

func encodeEvent(kind watch.EventType, node *corev1.Node) ([]byte, error) {
	info, _ := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), apiruntime.ContentTypeProtobuf)
	var frame bytes.Buffer
	encoder := restwatch.NewEncoder(
		streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&frame), scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)),
		scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion))
	err := encoder.Encode(&watch.Event{Type: kind, Object: node})
	return frame.Bytes(), err
}

// nodeFrame returns the event of a Node of the usual size: most of it are images and
// managed fields.
func nodeFrame(b *testing.B, ready bool) []byte {
	b.Helper()
	name := "node-" + placeholder
	node := testNode(name, labelled("kubernetes.io/os", "linux"), labelled("kubernetes.io/arch", "amd64"), labelled("kubernetes.io/hostname", name),
		labelled("topology.kubernetes.io/region", "eu-west-1"), labelled("topology.kubernetes.io/zone", "eu-west-1a"), labelled("node.kubernetes.io/instance-type", "m6i.4xlarge"), labelled("pool", "workers"))
	node.UID, node.ResourceVersion = "11111111-2222-3333-4444-555555"+placeholder, "1"
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(strings.Repeat("{}", 1500))}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable, corev1.NodeReady} {
		condition := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient" + string(kind), Message: "kubelet is well", LastTransitionTime: metav1.NewTime(epoch), LastHeartbeatTime: metav1.NewTime(epoch)}
		if kind == corev1.NodeReady {
			condition.Status = corev1.ConditionUnknown
			if ready {
				condition.Status = corev1.ConditionTrue
			}
		}
		node.Status.Conditions = append(node.Status.Conditions, condition)
	}
	for i := range 50 {
		repository := fmt.Sprintf("registry.example.com/platform/component-%02d", i)
		digest := sha256.Sum256([]byte(repository))
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("%s@sha256:%x", repository, digest), repository + ":" + strings.Repeat("v", 20)}, SizeBytes: 20_000_000})
	}
	frame, err := encodeEvent(watch.Added, node)
	require.NoError(b, err)
	return frame
}
