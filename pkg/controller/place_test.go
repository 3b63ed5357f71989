// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/nodeindex"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// The kinds of these tests: CRs of the first can be read, those of the second cannot.
var (
	readableKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "RebootRemediation"}
	hiddenKind   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FenceRemediation"}
	// goneKind is not served, and only status refers to it.
	goneKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GoneRemediation"}
)

// placeWorld is what decides who has the place for a control plane node.
type placeWorld struct {
	nodes []*corev1.Node
	// crs are those of the kind that can be read.
	crs []*unstructured.Unstructured
	// status is that of the NodeHealthCheck that refers to both kinds.
	status []v1alpha1.UnhealthyNode
	// defined means that it is known which CustomResourceDefinitions there are: what is
	// not served is gone.
	defined bool
}

func placeCR(name string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	cr := &unstructured.Unstructured{Object: map[string]any{}}
	cr.SetGroupVersionKind(readableKind)
	cr.SetNamespace("ns")
	cr.SetName(name)
	cr.SetUID("uid")
	if change != nil {
		change(cr)
	}
	return cr
}

// inPlaceWorld runs a test with a controller that sees such a world. Before that,
// nothing has been read.
func inPlaceWorld(t *testing.T, w placeWorld, before, test func(t *testing.T, c *Controller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		reboots, fences := readableKind.GroupVersion().WithResource("reboots"), hiddenKind.GroupVersion().WithResource("fences")
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			reboots: readableKind.Kind + "List", fences: hiddenKind.Kind + "List",
			{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
		})
		for _, cr := range w.crs {
			_, err := client.Resource(reboots).Namespace(cr.GetNamespace()).Create(t.Context(), cr, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		server := &platformWorld{
			served: map[schema.GroupVersionKind]string{readableKind: reboots.Resource, hiddenKind: fences.Resource},
			denied: map[schema.GroupResource]bool{fences.GroupResource(): true},
		}
		nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
			for order, kind := range []schema.GroupVersionKind{readableKind, hiddenKind} {
				nhc.Spec.EscalatingRemediations = append(nhc.Spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
					Order: int32(order), Timeout: metav1.Duration{Duration: time.Hour},
					RemediationTemplate: corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind + v1alpha1.TemplateKindSuffix, Namespace: "ns", Name: "n"},
				})
			}
			nhc.Status.UnhealthyNodes = w.status
		})
		nhcs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		require.NoError(t, nhcs.Add(nhc))
		nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nodeIndexers)
		for _, node := range w.nodes {
			require.NoError(t, nodes.Add(node))
		}
		c := &Controller{nhcs: nhclisters.NewNodeHealthCheckLister(nhcs), nodes: corelisters.NewNodeLister(nodes), nodeStore: nodes, nhcStore: nhcs, dynamic: client, index: nodeindex.New(nodeCache{nodes})}
		c.remediations = watches.NewSet(watches.Config{
			Name: "remediations", Client: client, Discovery: server, Access: server, Verbs: []string{"get", "list", "watch"},
			Interval: pollInterval, Parse: c.parseCR, Indexers: crIndexers, Handler: cache.ResourceEventHandlerFuncs{}, Changed: func([]string) {},
			CRDs: func(string) ([]string, bool) { return []string{"reboots.example.com"}, w.defined },
		})
		_, kinds := wantedKinds(nhc)
		c.remediations.Want(nhc.Name, kinds)
		if before != nil {
			before(t, c)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { c.remediations.Run(ctx) })
		awaitAnswers()
		test(t, c)
	})
}

func TestPlaceTaken(t *testing.T) {
	t.Parallel()
	controlPlane := labelled("node-role.kubernetes.io/control-plane", "")
	master := labelled("node-role.kubernetes.io/master", "true")
	all := []*corev1.Node{testNode("cp", controlPlane), testNode("other", controlPlane), testNode("old", master), testNode("worker")}
	byLabel := func(cr *unstructured.Unstructured) { cr.SetLabels(map[string]string{v1alpha1.LabelControlPlane: ""}) }
	forNode := func(node string) func(*unstructured.Unstructured) {
		return func(cr *unstructured.Unstructured) {
			cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: node})
		}
	}
	deletingCR := func(cr *unstructured.Unstructured) {
		cr.SetDeletionTimestamp(&metav1.Time{Time: epoch})
		cr.SetFinalizers([]string{"example.com/unfinished"})
	}
	deletingByLabel := func(cr *unstructured.Unstructured) { byLabel(cr); deletingCR(cr) }
	crs := func(crs ...*unstructured.Unstructured) []*unstructured.Unstructured { return crs }
	shown := func(node string, kinds ...schema.GroupVersionKind) []v1alpha1.UnhealthyNode {
		entry := v1alpha1.UnhealthyNode{Name: node}
		for _, kind := range kinds {
			entry.Remediations = append(entry.Remediations, v1alpha1.Remediation{
				Resource: corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: "ns", Name: node},
			})
		}
		return []v1alpha1.UnhealthyNode{entry}
	}
	tests := map[string]struct {
		crs     []*unstructured.Unstructured
		status  []v1alpha1.UnhealthyNode
		defined bool
		taken   bool
	}{
		"12.2 nobody has it":                                 {},
		"12.2 a CR with the label, whoever owns it":          {crs: crs(placeCR("anything", byLabel)), taken: true},
		"12.2 a CR for a control plane node, by its name":    {crs: crs(placeCR("other", nil)), taken: true},
		"12.2 a CR for a control plane node, by annotation":  {crs: crs(placeCR("anything", forNode("other"))), taken: true},
		"12.1 12.2 the other label makes one, too":           {crs: crs(placeCR("old", nil)), taken: true},
		"12.2 the node itself may have it":                   {crs: crs(placeCR("cp", byLabel))},
		"12.2 a worker takes none":                           {crs: crs(placeCR("worker", nil))},
		"12.2 a CR that goes keeps it while its Node exists": {crs: crs(placeCR("other", deletingCR)), taken: true},
		"12.2 17.4 and when it is gone, until the CR is":     {crs: crs(placeCR("gone", deletingByLabel)), taken: true},
		"12.2 17.3 one that does not go keeps it":            {crs: crs(placeCR("gone", byLabel)), taken: true},
		"12.2 a kind that cannot be read: status decides":    {status: shown("other", hiddenKind), taken: true},
		"12.2 status of the node itself":                     {status: shown("cp", hiddenKind)},
		"12.2 P12 status of a kind that is gone":             {status: shown("other", goneKind), defined: true},
		"12.2 P5 status of a kind that is not served":        {status: shown("other", goneKind), taken: true},
		"12.2 status of a worker":                            {status: shown("worker", hiddenKind)},
		"12.2 status of a node that waits":                   {status: shown("other")},
		"12.2 status of a node that is gone: who knows":      {status: shown("gone", hiddenKind), taken: true},
		"12.2 status of a kind that can be read says nothing": {
			status: shown("other", readableKind),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := func(t *testing.T, c *Controller) {
				t.Helper()
				require.False(t, c.placeIsFree("cp", epoch), "P5 12.2: nothing has been read yet")
			}
			inPlaceWorld(t, placeWorld{nodes: all, crs: tc.crs, status: tc.status, defined: tc.defined}, before, func(t *testing.T, c *Controller) {
				t.Helper()
				require.Equal(t, !tc.taken, c.placeIsFree("cp", epoch))
				require.Equal(t, !tc.taken, c.reserve("workers", "cp", epoch))
			})
		})
	}
}

// TestPlaceReserved: between two looks at the caches, claims keep the place (spec 12.2,
// P6, P9).
func TestPlaceReserved(t *testing.T) {
	t.Parallel()
	of := func(node string) []remediation.NodePlan {
		return []remediation.NodePlan{{Node: remediation.Node{Name: node}}}
	}
	nodes := []*corev1.Node{testNode("cp"), testNode("other")}
	inPlaceWorld(t, placeWorld{nodes: nodes}, nil, func(t *testing.T, c *Controller) {
		c.queue = newPlatformController().queue
		defer c.queue.ShutDown()
		require.True(t, c.reserve("one", "cp", epoch))
		require.False(t, c.reserve("one", "other", epoch), "12.2: not for two nodes of one NodeHealthCheck")
		require.False(t, c.reserve("two", "other", epoch), "P6: not for nodes of two")
		require.True(t, c.reserve("two", "cp", epoch), "11.5: the lease decides who remediates the node")
		c.settlePlace("one", of("cp"), []remediation.Outcome{{}}, epoch)
		require.False(t, c.placeIsFree("other", epoch), "12.2: the other attempt is under way")
		c.waiters.subscribe("one", sets.New(controlPlaneSlot))
		c.settlePlace("two", of("cp"), []remediation.Outcome{{}}, epoch)
		require.True(t, c.placeIsFree("other", epoch), "P12: no CR was created")
		synctest.Wait()
		require.Zero(t, c.queue.Len(), "a cache that is behind a live read does not keep the sync spinning")
		time.Sleep(raceRetry)
		synctest.Wait()
		require.Equal(t, []string{"one"}, woken(c), "12.4: who waits is told")

		require.True(t, c.reserve("one", "cp", epoch))
		c.settlePlace("one", of("cp"), []remediation.Outcome{{Unknown: true}}, epoch)
		require.False(t, c.placeIsFree("other", epoch.Add(uncertainFor-1)), "P5: perhaps a CR was created")
		require.True(t, c.placeIsFree("other", epoch.Add(uncertainFor)), "P12: by now, the caches would show it")
	})
}

// endWatches ends what a set that was never run has begun.
func endWatches(t *testing.T, set *watches.Set) {
	t.Helper()
	done, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	cancel()
	set.Run(done)
}

// TestPlaceIsNotBlocked: only a node that would get its CR has the place reserved, and
// the attempt of one node is no news of others (spec 12.2, P1, P3).
func TestPlaceIsNotBlocked(t *testing.T) {
	t.Parallel()
	patient := func(name string, change func(*remediation.Node)) remediation.Node {
		node := remediation.Node{Name: name, ControlPlane: true, Verdict: health.Verdict{State: health.Unhealthy}}
		if change != nil {
			change(&node)
		}
		return node
	}
	inPlaceWorld(t, placeWorld{nodes: []*corev1.Node{testNode("a"), testNode("b")}}, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		c.platform = watches.NewSet(watches.Config{}) // Of which nothing is known.
		defer endWatches(t, c.platform)
		c.kube = kubefake.NewClientset(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: remediation.EtcdNamespace, Name: "etcd"},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
		})
		nhc, err := c.nhcs.Get("workers")
		require.NoError(t, err)
		take := func(a, b func(*remediation.Node)) (aTaken, bTaken bool) {
			c.place.claims = nil
			w := &world{nodes: []remediation.Node{patient("a", a), patient("b", b)}}
			w.steps, w.templates = remediation.Steps(&nhc.Spec), []*remediation.Template{{}, {}}
			c.takePlace(t.Context(), nhc, w, epoch)
			return w.nodes[0].PlaceTaken, w.nodes[1].PlaceTaken
		}
		later := func(n *remediation.Node) { n.RetryAt = epoch.Add(time.Second) }
		leased := func(n *remediation.Node) {
			n.Lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("somebody"), RenewTime: new(metav1.NewMicroTime(epoch)), LeaseDurationSeconds: new(int32(60)),
			}}
		}
		aTaken, bTaken := take(nil, nil)
		require.False(t, aTaken)
		require.True(t, bTaken, "12.2: one at a time")
		for name, blocked := range map[string]func(*remediation.Node){"its lease is taken": leased, "it has failed": later} {
			aTaken, bTaken = take(blocked, nil)
			require.False(t, aTaken || bTaken, "%s: it leaves the place to others", name)
			require.Equal(t, "b", c.place.node, name)
			aTaken, bTaken = take(nil, blocked)
			require.False(t, aTaken || bTaken, "%s: the attempt of another one changes nothing for it", name)
		}
	})
}

// TestPlaceTakenLive: the caches of a new leader may not show yet what the one before has
// begun (spec 12.2, P6).
func TestPlaceTakenLive(t *testing.T) {
	t.Parallel()
	controlPlane := labelled("node-role.kubernetes.io/control-plane", "")
	inPlaceWorld(t, placeWorld{nodes: []*corev1.Node{testNode("cp", controlPlane), testNode("other", controlPlane)}}, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		client := c.dynamic.(*dynamicfake.FakeDynamicClient)
		crs := client.Resource(readableKind.GroupVersion().WithResource("reboots")).Namespace("ns")
		require.False(t, c.placeTakenLive(t.Context(), "cp"))
		list := func(err error) {
			client.PrependReactor("list", "reboots", func(clienttesting.Action) (bool, runtime.Object, error) { return err != nil, nil, err })
		}
		list(apierrors.NewServiceUnavailable("later"))
		require.True(t, c.placeTakenLive(t.Context(), "cp"), "P5: no answer is not an answer")
		list(apierrors.NewForbidden(schema.GroupResource{}, "", nil))
		require.False(t, c.placeTakenLive(t.Context(), "cp"), "12.2: status decides where a kind cannot be read")
		client.ReactionChain = client.ReactionChain[2:]

		// The watch does not tell of it yet.
		client.PrependReactor("list", "reboots", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*placeCR("other", nil)}}, nil
		})
		_, err := crs.Get(t.Context(), "other", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err))
		require.True(t, c.placeIsFree("cp", epoch), "the cache does not know")
		require.True(t, c.placeTakenLive(t.Context(), "cp"))
		require.False(t, c.placeTakenLive(t.Context(), "other"), "12.2: the node itself has it")
	})
}

// TestPlaceOfDroppedKind: a kind that no NodeHealthCheck refers to any more is watched as
// long as a CR of it with the control plane label exists (spec 12.2).
func TestPlaceOfDroppedKind(t *testing.T) {
	t.Parallel()
	byLabel := func(cr *unstructured.Unstructured) { cr.SetLabels(map[string]string{v1alpha1.LabelControlPlane: ""}) }
	w := placeWorld{nodes: []*corev1.Node{testNode("cp")}, crs: []*unstructured.Unstructured{placeCR("gone", byLabel)}}
	inPlaceWorld(t, w, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		c.queue, c.templates = newPlatformController().queue, watches.NewSet(watches.Config{})
		defer c.queue.ShutDown()
		defer endWatches(t, c.templates)
		c.waiters.subscribe("others", sets.New(controlPlaneSlot))
		mapping, err := c.remediations.Mapping(readableKind)
		require.NoError(t, err)
		seen := claim{resource: mapping.Resource.GroupResource(), version: "0", until: epoch.Add(uncertainFor)}
		c.place.node, c.place.claims = "gone", map[string]claim{"workers": seen}
		require.NoError(t, c.nhcStore.Replace(nil, ""))
		c.nhcDeleted("workers")
		require.Equal(t, []string{"others", "workers"}, woken(c), "P2: who waits for the place is told")
		require.False(t, c.placeIsFree("cp", epoch), "12.2")

		require.Empty(t, c.place.claims, "P12: the CR keeps the place, no claim is left when it goes")
		indexer, err := c.remediations.Cache(readableKind)
		require.NoError(t, err)
		for _, cr := range indexer.List() {
			require.NoError(t, indexer.Delete(cr))
			c.remediationHandler().OnDelete(cr)
		}
		require.Empty(t, c.remediations.Wanted(placeOwner), "P12")
		require.True(t, c.placeIsFree("cp", epoch))
	})
}
