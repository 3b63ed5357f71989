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
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// newPlatformController returns a controller that knows two NodeHealthChecks, and
// can do no more than to put them into its queue.
func newPlatformController() *Controller {
	c := queueingController()
	for _, name := range []string{"one", "two"} {
		c.index.SetCheck(checkOf(&v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return c
}

// fakePlatform is an API server that serves optional kinds, or not.
type fakePlatform struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	client *dynamicfake.FakeDynamicClient

	mu sync.Mutex
	// served are the kinds that discovery knows. hanging are the resources whose permission
	// cannot be found out.
	served  map[schema.GroupVersionKind]string
	hanging map[schema.GroupResource]bool
	denied  map[schema.GroupResource]bool
}

func (w *fakePlatform) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := &metav1.APIGroupList{}
	for gvk := range w.served {
		list.Groups = append(list.Groups, metav1.APIGroup{Name: gvk.Group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: gvk.GroupVersion().String()}}})
	}
	return list, nil
}

func (w *fakePlatform) ServerResourcesForGroupVersionWithContext(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for gvk, resource := range w.served {
		if gvk.GroupVersion().String() == groupVersion {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource, Kind: gvk.Kind, Namespaced: true})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return list, nil
}

func (w *fakePlatform) Create(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	attributes := review.Spec.ResourceAttributes
	resource := schema.GroupResource{Group: attributes.Group, Resource: attributes.Resource}
	w.mu.Lock()
	hangs, denied := w.hanging[resource], w.denied[resource]
	w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	review = review.DeepCopy()
	review.Status.Allowed = !denied
	return review, nil
}

var platformResources = map[schema.GroupVersionKind]string{
	{Group: "machine.openshift.io", Version: "v1beta1", Kind: "MachineHealthCheck"}: "machinehealthchecks",
	{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"}:            "machines",
	{Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion"}:           "clusterversions",
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}:                "machines",
}

// inPlatform runs a test with a controller that looks at such an API server. Time
// does not pass but in the test.
func inPlatform(t *testing.T, prepare func(*fakePlatform), test func(t *testing.T, w *fakePlatform, c *Controller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listKinds := map[schema.GroupVersionResource]string{}
		served := map[schema.GroupVersionKind]string{}
		for gvk, resource := range platformResources {
			listKinds[gvk.GroupVersion().WithResource(resource)] = gvk.Kind + "List"
			served[gvk] = resource
		}
		w := &fakePlatform{
			client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds),
			served: served, hanging: map[schema.GroupResource]bool{}, denied: map[schema.GroupResource]bool{},
		}
		prepare(w)
		c := newPlatformController()
		defer c.Queue.ShutDown()
		c.platform = watches.NewSet[schema.GroupVersionKind](watches.Config{
			Name: "platform", Freshness: watches.NewFreshness(), Client: w.client, Discovery: w, Access: w, Verbs: []string{"get", "list", "watch"},
			CRDs: func(string) ([]string, bool) { return nil, true }, Parse: parsePlatform, Handler: c.platformHandler(), Changed: func([]string) { c.Wake(c.index.Names()) },
		})
		c.platform.Want(platformOwner, platformKinds)
		_, err := c.observePlatform(testCheck(), &nhcState{})
		require.Equal(t, watches.ErrPending, err, "6.9, 21.2: nothing is known yet")
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { c.platform.Run(ctx) })
		awaitAnswers()
		test(t, w, c)
	})
}

// wait returns when everybody else does.
func wait() { synctest.Wait() }

// awaitAnswers returns when everything has been read that does not hang, and every
// refusal is confirmed.
func awaitAnswers() {
	wait()
	time.Sleep(2 * time.Second)
	wait()
}

func (w *fakePlatform) create(t *testing.T, kind schema.GroupVersionKind, name, content string) {
	t.Helper()
	object := platformObject(content)
	require.NotNil(t, object)
	object.SetGroupVersionKind(kind)
	object.SetNamespace("ns")
	object.SetName(name)
	object.SetUID(types.UID(kind.Group + "-" + name))
	_, err := w.client.Resource(kind.GroupVersion().WithResource(platformResources[kind])).Namespace("ns").Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	wait()
}

func (w *fakePlatform) refuse(resource string, err error) {
	w.client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func clusterAPIMachine() schema.GroupVersionKind {
	kind := remediation.ClusterAPIMachineKind
	kind.Version = "v1beta2"
	return kind
}
