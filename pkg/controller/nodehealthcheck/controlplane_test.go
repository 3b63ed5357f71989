// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// The kinds of these tests: CRs of the first can be read, those of the second cannot.
var (
	readableKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "RebootRemediation"}
	hiddenKind   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FenceRemediation"}
	// goneKind is not served, and only status refers to it.
	goneKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GoneRemediation"}
)

// fakeRemediators are the objects that decide which node takes the control plane slot.
type fakeRemediators struct {
	nodes []*corev1.Node
	// crs are those of the kind that can be read.
	crs []*unstructured.Unstructured
	// status is that of the NodeHealthCheck that refers to both kinds.
	status []v1alpha1.UnhealthyNode
	// defined means that the CustomResourceDefinitions are known: a kind that is not served
	// is gone.
	defined bool
}

func slotCR(name string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
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

// withRemediations runs a test with a controller that sees this. Before that,
// nothing has been read.
func withRemediations(t *testing.T, w fakeRemediators, before, test func(t *testing.T, c *Controller)) {
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
		server := &fakePlatform{
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
		c := bareController()
		c.Dynamic = client
		require.NoError(t, c.Checks.Store.Add(nhc))
		for _, node := range w.nodes {
			require.NoError(t, c.NodeCache.Add(node))
		}
		c.Remediations = &kinds.Kinds{Set: watches.NewSet[schema.GroupKind](watches.Config{
			Name: "remediations", Freshness: watches.NewFreshness(), Client: client, Discovery: server, Access: server, Verbs: []string{"get", "list", "watch"}, Keep: true,
			Parse: c.parse, Indexers: crIndexers, Handler: cache.ResourceEventHandlerFuncs{}, Changed: func([]string) {},
			CRDs: func(string) ([]string, bool) { return []string{"reboots.example.com"}, w.defined },
		})}
		_, wanted, recorded := wantedKinds(nhc)
		c.Remediations.Want(nhc.Name, wanted, recorded)
		c.Written = append(c.Written, c.Remediations)
		if before != nil {
			before(t, c)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { c.Remediations.Run(ctx) })
		awaitAnswers()
		test(t, c)
	})
}

// parse parses a CR as package kinds does.
func (c *Controller) parse(obj *unstructured.Unstructured) runtime.Object {
	cr := object.ParseCR(obj)
	c.recordCR(cr)
	return cr
}

func TestControlPlaneRemediations(t *testing.T) {
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
		"12.2 no node has it":                                {},
		"12.2 a CR with the label, also of another owner":    {crs: crs(slotCR("anything", byLabel)), taken: true},
		"12.2 a CR for a control plane node, by its name":    {crs: crs(slotCR("other", nil)), taken: true},
		"12.2 a CR for a control plane node, by annotation":  {crs: crs(slotCR("anything", forNode("other"))), taken: true},
		"12.1 12.2 the other label makes one, too":           {crs: crs(slotCR("old", nil)), taken: true},
		"12.2 the node itself may have it":                   {crs: crs(slotCR("cp", byLabel))},
		"12.2 a worker takes none":                           {crs: crs(slotCR("worker", nil))},
		"12.2 a CR that goes keeps it while its Node exists": {crs: crs(slotCR("other", deletingCR)), taken: true},
		"12.2 17.4 and when it is gone, until the CR is":     {crs: crs(slotCR("gone", deletingByLabel)), taken: true},
		"12.2 17.3 one that does not go keeps it":            {crs: crs(slotCR("gone", byLabel)), taken: true},
		"6.8 status lists a kind that cannot be read":        {status: shown("worker", hiddenKind), taken: true},
		"6.8 P12 status of a kind that is gone":              {status: shown("other", goneKind), defined: true},
		"6.8 P5 status of a kind that is not served":         {status: shown("other", goneKind), taken: true},
		"6.8 status of a node that waits":                    {status: shown("other")},
		"12.2 status of a kind that can be read says nothing": {
			status: shown("other", readableKind),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := func(t *testing.T, c *Controller) {
				t.Helper()
				require.True(t, busy(c, "cp"), "P5 12.2: nothing has been read yet")
			}
			withRemediations(t, fakeRemediators{nodes: all, crs: tc.crs, status: tc.status, defined: tc.defined}, before, func(t *testing.T, c *Controller) {
				t.Helper()
				require.Equal(t, tc.taken, busy(c, "cp"))
			})
		})
	}
}

// busy reports whether the caches show another control plane node under remediation.
func busy(c *Controller, node string) bool {
	remediated := c.controlPlaneRemediations()
	return remediated.Busy(node)
}

// endWatches ends what a set that was never run has begun.
func endWatches[K watches.Key](t *testing.T, set *watches.Set[K]) {
	t.Helper()
	done, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	cancel()
	set.Run(done)
}

// TestAcquireControlPlane: the live reads before a control plane node begins (spec 12.2, 12.3,
// P5, P6).
func TestAcquireControlPlane(t *testing.T) {
	t.Parallel()
	controlPlane := labelled("node-role.kubernetes.io/control-plane", "")
	const busy, quorum = v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum
	refuseList := func(err error) func(*Controller, *kubefake.Clientset) {
		return func(c *Controller, _ *kubefake.Clientset) {
			c.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "reboots", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		}
	}
	// The watch does not show it yet.
	shows := func(crs ...unstructured.Unstructured) func(*Controller, *kubefake.Clientset) {
		return func(c *Controller, _ *kubefake.Clientset) {
			c.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "reboots", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &unstructured.UnstructuredList{Items: crs}, nil
			})
		}
	}
	tests := map[string]struct {
		prepare func(*Controller, *kubefake.Clientset)
		want    v1alpha1.DecisionReason
	}{
		"12.2 nothing is in the way":                      {},
		"P6 another one begins":                           {prepare: func(c *Controller, _ *kubefake.Clientset) { c.slot.TryAcquire(slot.Member{Node: "other"}, epoch) }, want: busy},
		"P6 what the leader before has begun":             {prepare: shows(*slotCR("other", nil)), want: busy},
		"12.2 the node itself has a CR":                   {prepare: shows(*slotCR("cp", nil))},
		"12.2 a CR for a worker":                          {prepare: shows(*slotCR("worker", nil))},
		"P5 no answer is not an answer":                   {prepare: refuseList(apierrors.NewServiceUnavailable("later")), want: busy},
		"12.2 status decides where a kind cannot be read": {prepare: refuseList(apierrors.NewForbidden(schema.GroupResource{}, "", nil))},
		"12.3 etcd cannot do without": {want: quorum, prepare: func(_ *Controller, kube *kubefake.Clientset) {
			_ = kube.Tracker().Add(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: remediation.EtcdNamespace, Name: "second"}})
		}},
		"12.3 P5 etcd cannot be asked": {want: quorum, prepare: func(_ *Controller, kube *kubefake.Clientset) {
			kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewServiceUnavailable("later")
			})
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withRemediations(t, fakeRemediators{nodes: []*corev1.Node{testNode("cp", controlPlane), testNode("other", controlPlane), testNode("worker")}}, nil, func(t *testing.T, c *Controller) {
				t.Helper()
				c.Queue, c.Clock, c.platform = newPlatformController().Queue, clocktesting.NewFakePassiveClock(epoch), watches.NewSet[schema.GroupVersionKind](watches.Config{}) // Nothing is known of them.
				defer c.Queue.ShutDown()
				defer endWatches(t, c.platform)
				kube := kubefake.NewClientset(&policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Namespace: remediation.EtcdNamespace, Name: "etcd"},
					Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
				})
				c.Kube = kube
				if tc.prepare != nil {
					tc.prepare(c, kube)
				}
				p := &preflight{Controller: c}
				reason, release := p.AcquireControlPlane(t.Context(), slot.Member{Node: "cp"})
				require.Equal(t, tc.want, reason)
				if reason == "" {
					again, _ := p.AcquireControlPlane(t.Context(), slot.Member{Node: "other"})
					require.Equal(t, busy, again, "12.2: until the outcome is known")
					release(false)
					again, _ = p.AcquireControlPlane(t.Context(), slot.Member{Node: "cp"})
					require.Empty(t, again, "12.4: it is free again")
				}
			})
		})
	}
}

// TestSlotRefusedOnce: what live reads have refused is asked again when something that may free the slot
// has changed, or after a minute (spec 12.4, M13.1).
func TestSlotRefusedOnce(t *testing.T) {
	t.Parallel()
	label := labelled("node-role.kubernetes.io/control-plane", "")
	withRemediations(t, fakeRemediators{nodes: []*corev1.Node{testNode("cp", label), testNode("other", label)}}, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		clock := clocktesting.NewFakePassiveClock(epoch)
		c.Queue, c.Clock, c.platform = newPlatformController().Queue, clock, watches.NewSet[schema.GroupVersionKind](watches.Config{})
		defer c.Queue.ShutDown()
		defer endWatches(t, c.platform)
		c.Kube = kubefake.NewClientset(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: remediation.EtcdNamespace, Name: "etcd"},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
		})
		var failure error
		lists := 0
		c.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "reboots", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			if failure != nil {
				return true, nil, failure
			}
			return true, &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*slotCR("other", nil)}}, nil
		})
		asks := func(want bool, message string) {
			t.Helper()
			before := lists
			reason, _ := c.AcquireControlPlane(t.Context(), slot.Member{Node: "cp"})
			require.Equal(t, v1alpha1.DecidedControlPlaneBusy, reason, message)
			require.Equal(t, want, lists > before, message)
		}
		failure = apierrors.NewServiceUnavailable("later")
		asks(true, "P5: not known")
		failure = nil
		asks(true, "12.4: no answer is asked for again soon")
		asks(false, "M13.1: no live lists every second")
		c.remediationChanged(nil, object.ParseCR(slotCR("other", nil)))
		asks(true, "12.4: a CR has changed")
		asks(false, "M13.1: no live lists every second")
		c.wakeOthers("other", true)
		asks(true, "12.4: a control plane Node has changed")
		c.ControlPlaneChanged()
		asks(true, "M13.1: a control plane Machine has changed")
		c.SyncAll()
		asks(true, "M13.1: another controller may look after Machines")
		clock.SetTime(epoch.Add(time.Minute - time.Second))
		asks(true, "12.4: within a minute")
	})
}

// TestSlotOfDroppedKind: a kind that no NodeHealthCheck refers to any more stays watched, and its CRs with the
// control plane label take the slot (spec 12.2).
func TestSlotOfDroppedKind(t *testing.T) {
	t.Parallel()
	byLabel := func(cr *unstructured.Unstructured) { cr.SetLabels(map[string]string{v1alpha1.LabelControlPlane: ""}) }
	w := fakeRemediators{nodes: []*corev1.Node{testNode("cp")}, crs: []*unstructured.Unstructured{slotCR("gone", byLabel)}}
	withRemediations(t, w, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		c.Queue, c.templates = newPlatformController().Queue, watches.NewSet[schema.GroupVersionKind](watches.Config{})
		defer c.Queue.ShutDown()
		defer endWatches(t, c.templates)
		c.waiters.set("others", true)
		require.NoError(t, c.Checks.Store.Replace(nil, ""))
		require.True(t, busy(c, "cp"), "12.2: the cache may show it before the handler is called")
		c.nhcDeleted("workers")
		require.True(t, busy(c, "cp"), "12.2")
		woken(c)

		indexer, err := c.Remediations.Cache(readableKind.GroupKind())
		require.NoError(t, err)
		for _, cr := range indexer.List() {
			require.NoError(t, indexer.Delete(cr))
			c.remediationChanged(cr.(*object.CR), nil)
		}
		require.Equal(t, []string{"others"}, woken(c), "P2: what waits for the slot is woken")
		require.False(t, busy(c, "cp"), "P12")
	})
}
