// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	nhcclient "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/typed/remediation/v1alpha1"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

var (
	rebootTemplates    = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "RebootRemediationTemplate"}
	rebootRemediations = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "RebootRemediation"}
)

// steadyCluster is a controller whose caches are full and whose API server takes
// nothing but the status of the one NodeHealthCheck, workers.
type steadyCluster struct {
	*Controller
	nhcStore cache.Indexer
	writes   int
}

// newSteadyCluster returns a controller that sees these nodes. It has reported once, so
// that nothing is left to say.
func newSteadyCluster(tb testing.TB, nodes []*corev1.Node) *steadyCluster {
	tb.Helper()
	metrics, err := newMetrics(prometheus.NewRegistry())
	require.NoError(tb, err)
	s := &steadyCluster{nhcStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	s.Controller = queueingController()
	s.Checks.Store, s.nhcs = s.nhcStore, nhclisters.NewNodeHealthCheckLister(s.nhcStore)
	s.client, s.metrics, s.events = s.statusClient(tb), metrics, eventReporter{recorder: &events.FakeRecorder{}}
	for _, node := range nodes {
		require.NoError(tb, s.NodeCache.Add(node))
	}
	s.watchKinds(tb)
	nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "node-role.kubernetes.io/control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
		nhc.Spec.MinHealthy = new(intstr.FromString("51%"))
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
			nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions,
				v1alpha1.UnhealthyCondition{Type: corev1.NodeReady, Status: status, Duration: metav1.Duration{Duration: 5 * time.Minute}})
		}
		nhc.Spec.RemediationTemplate = &corev1.ObjectReference{
			APIVersion: rebootTemplates.GroupVersion().String(), Kind: rebootTemplates.Kind, Namespace: "remediators", Name: "reboot",
		}
	})
	require.NoError(tb, s.nhcStore.Add(nhc))
	s.nhcChanged(nil, nhc)
	require.EventuallyWithT(tb, func(t *assert.CollectT) { s.mustSync(t) }, 90*time.Second, 10*time.Millisecond)
	s.mustSync(tb)
	require.Equal(tb, 1, s.writes, "the first status is right")
	return s
}

// mustSync syncs, without a failure.
func (s *steadyCluster) mustSync(t require.TestingT) {
	_, err := s.sync(klog.NewContext(context.Background(), klog.Logger{}), "workers")
	require.NoError(t, err)
}

// statusClient returns a client that writes statuses to the cache, as their JSON says.
func (s *steadyCluster) statusClient(tb testing.TB) nhcclient.NodeHealthChecksGetter {
	tb.Helper()
	client := nhcfake.NewSimpleClientset()
	client.PrependReactor("update", v1alpha1.Plural, func(action clienttesting.Action) (bool, apiruntime.Object, error) {
		s.writes++
		encoded, err := json.Marshal(action.(clienttesting.UpdateAction).GetObject())
		require.NoError(tb, err)
		nhc := &v1alpha1.NodeHealthCheck{}
		if err := json.Unmarshal(encoded, nhc); err != nil {
			return true, nil, err
		}
		return true, nhc, s.nhcStore.Update(nhc)
	})
	return client.RemediationV1alpha1()
}

// watchKinds watches the kinds of the template and of the CRs until the test is over.
func (s *steadyCluster) watchKinds(tb testing.TB) {
	tb.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	template.SetGroupVersionKind(rebootTemplates)
	template.SetNamespace("remediators")
	template.SetName("reboot")
	served := map[schema.GroupVersionKind]string{rebootTemplates: "rebootremediationtemplates", rebootRemediations: "rebootremediations"}
	listKinds := map[schema.GroupVersionResource]string{}
	for gvk, resource := range served {
		listKinds[gvk.GroupVersion().WithResource(resource)] = gvk.Kind + "List"
	}
	w := &fakePlatform{served: served, client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(apiruntime.NewScheme(), listKinds, template)}
	config := watches.Config{Freshness: watches.NewFreshness(), Client: w.client, Discovery: w, Access: w, Verbs: []string{"get", "list", "watch"}, CRDs: func(string) ([]string, bool) { return nil, true }, Changed: func([]string) {}}
	templates, remediations, platform := config, config, config
	templates.Name, templates.Parse, templates.Handler = "templates", parseTemplate, s.templateHandler()
	remediations.Name, remediations.Parse, remediations.Handler, remediations.Indexers = "remediations", s.parse, watches.Handler(s.remediationChanged), crIndexers
	platform.Name, platform.Parse, platform.Handler = "platform", parsePlatform, s.platformHandler()
	s.templates, s.Remediations, s.platform = watches.NewSet[schema.GroupVersionKind](templates), &kinds.Kinds{Set: watches.NewSet[schema.GroupKind](remediations)}, watches.NewSet[schema.GroupVersionKind](platform)
	s.platform.Want(platformOwner, platformKinds)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	var wg sync.WaitGroup
	wg.Go(func() { s.RunWatches(ctx) })
	wg.Go(func() { s.Remediations.Run(ctx) })
	tb.Cleanup(func() { cancel(); wg.Wait() })
}

// benchNodes returns trimmed nodes as they are in the cache. Those for which notReady returns
// true are not ready.
func benchNodes(n int, notReady func(i int) bool) []*corev1.Node {
	nodes := make([]*corev1.Node, 0, n)
	for i := range n {
		node := testNode(fmt.Sprintf("node-%05d", i), labelled("kubernetes.io/os", "linux"), labelled("kubernetes.io/arch", "amd64"),
			labelled("kubernetes.io/hostname", fmt.Sprintf("node-%05d", i)), labelled("topology.kubernetes.io/zone", "zone-a"), labelled("pool", "workers"))
		for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable} {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(epoch)})
		}
		ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch)}
		if notReady(i) {
			ready.Status = corev1.ConditionUnknown
		}
		node.Status.Conditions = append(node.Status.Conditions, ready)
		nodes = append(nodes, node)
	}
	return nodes
}

func noNode(int) bool { return false }

// BenchmarkSync is a sync that changes nothing. All nodes are healthy, or 60 % of them wait
// for the gate to open.
func BenchmarkSync(b *testing.B) {
	for _, nodes := range []struct {
		name     string
		notReady func(int) bool
	}{{"healthy", noNode}, {"waiting", func(i int) bool { return i%5 < 3 }}} {
		for _, n := range []int{100, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", nodes.name, n), func(b *testing.B) {
				s := newSteadyCluster(b, benchNodes(n, nodes.notReady))
				b.ReportAllocs()
				for b.Loop() {
					s.mustSync(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
			})
		}
	}
}
