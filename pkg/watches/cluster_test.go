// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	authorizationfake "k8s.io/client-go/kubernetes/typed/authorization/v1/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	// The default handlers slow down repeated errors by a clock that all tests
	// share; in a bubble, where time starts anew, that would be for decades.
	utilruntime.ErrorHandlers = nil //nolint:reassign // before any test
	// A set ends all that it has begun. The queue of a set that was never run still waits.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"))
}

var (
	reboot = schema.GroupVersionKind{Group: "a.example.com", Version: "v1", Kind: "RebootTemplate"}
	fence  = schema.GroupVersionKind{Group: "b.example.com", Version: "v1", Kind: "FenceTemplate"}
	global = schema.GroupVersionKind{Group: "a.example.com", Version: "v1", Kind: "GlobalTemplate"}
	// newReboot is another version of reboot, which is only served if a test says so.
	newReboot = schema.GroupVersionKind{Group: "a.example.com", Version: "v2", Kind: "RebootTemplate"}

	resources = map[schema.GroupVersionKind]metav1.APIResource{
		reboot: {Name: "reboottemplates", Kind: reboot.Kind, Namespaced: true},
		fence:  {Name: "fencetemplates", Kind: fence.Kind, Namespaced: true},
		global: {Name: "globaltemplates", Kind: global.Kind},

		newReboot: {Name: "reboottemplates", Kind: reboot.Kind, Namespaced: true},
	}

	errServer = apierrors.NewInternalError(errors.New("out of order"))
)

func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(resources[gvk].Name)
}

func crdOf(gvk schema.GroupVersionKind) string { return resourceOf(gvk).GroupResource().String() }

// fakeCluster is a fake API server and a running set. It may be changed at any time.
type fakeCluster struct {
	set    *Set[schema.GroupVersionKind]
	config Config
	client *dynamicfake.FakeDynamicClient

	mu sync.Mutex
	// served are the kinds that discovery knows; discoveryErr and hanging are by
	// group.
	served       sets.Set[schema.GroupVersionKind]
	discoveryErr map[string]error
	hanging      sets.Set[string]
	// looks counts the requests for discovery.
	looks int
	// denied holds "verb resource".
	denied    sets.Set[string]
	accessErr error
	// refused is the answer to requests for a resource: "verb resource" to error.
	refused  map[string]error
	watchers map[string][]*watch.RaceFreeFakeWatcher
	// shortWatches means that watches end as soon as they are open.
	shortWatches bool
	// listedAt are the resource versions from which lists were asked for.
	listedAt []string
	// delay is how long every list takes, listing the number of those under way,
	// waiting that of the requests for discovery that hang.
	delay, listing, waiting atomic.Int64
	// changed are the owners that were told of a change, events what the handler
	// has seen.
	changed [][]string
	events  []string
	// seen is the error of the cache of reboot when a change was told of last.
	seen error
}

// inCluster runs a test in a bubble, with a set that runs until the test is over.
// The bubble fails the test if a goroutine is left.
func inCluster(t *testing.T, test func(t *testing.T, w *fakeCluster)) {
	t.Helper()
	inClusterOf(t, func(*Config) {}, test)
}

func inClusterOf(t *testing.T, change func(*Config), test func(t *testing.T, w *fakeCluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(change)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { w.set.Run(ctx) })
		test(t, w)
	})
}

func newFakeCluster(change func(*Config)) *fakeCluster {
	listKinds := map[schema.GroupVersionResource]string{}
	for gvk := range resources {
		listKinds[resourceOf(gvk)] = gvk.Kind + "List"
	}
	w := &fakeCluster{
		client:       dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds),
		served:       sets.New(reboot, fence, global),
		discoveryErr: map[string]error{},
		hanging:      sets.New[string](),
		denied:       sets.New[string](),
		refused:      map[string]error{},
		watchers:     map[string][]*watch.RaceFreeFakeWatcher{},
	}
	access := &authorizationfake.FakeAuthorizationV1{Fake: &clienttesting.Fake{}}
	access.AddReactor("create", "selfsubjectaccessreviews", w.review)
	w.client.PrependReactor("*", "*", w.refuse)
	w.client.PrependWatchReactor("*", w.watch)
	config := Config{
		Name: "test", Client: slowClient{FakeDynamicClient: w.client, fakeCluster: w}, Discovery: w, Access: access.SelfSubjectAccessReviews(),
		Verbs:     []string{"get", "list", "watch"},
		CRDs:      func(string) ([]string, bool) { return nil, false },
		Freshness: NewFreshness(),
		Parse:     func(u *unstructured.Unstructured) runtime.Object { return &parsed{Unstructured: *u} },
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { w.saw("add", object) },
			UpdateFunc: func(_, object any) { w.saw("update", object) },
			DeleteFunc: func(object any) { w.saw("delete", object) },
		},
		Changed: func(owners []string) {
			_, err := w.set.Cache(reboot)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen = err
			w.changed = append(w.changed, owners)
		},
	}
	change(&config)
	w.config = config
	w.set = NewSet[schema.GroupVersionKind](config)
	return w
}

// parsed is what Parse makes of an object.
type parsed struct{ unstructured.Unstructured }

func (w *fakeCluster) saw(what string, object any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, what+" "+object.(*parsed).GetName())
}

// ServerGroupsWithContext implements Discovery.
func (w *fakeCluster) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	groups := map[string]metav1.APIGroup{}
	for gvk := range w.served {
		if err := w.discoveryErr[gvk.Group]; err != nil {
			return nil, err
		}
		group := groups[gvk.Group]
		group.Name, group.Versions = gvk.Group, append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gvk.GroupVersion().String()})
		slices.SortFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int { return cmp.Compare(b.GroupVersion, a.GroupVersion) }) // The latest first.
		group.Versions = slices.Compact(group.Versions)
		groups[gvk.Group] = group
	}
	return &metav1.APIGroupList{Groups: slices.Collect(maps.Values(groups))}, nil
}

// ServerResourcesForGroupVersionWithContext implements Discovery.
func (w *fakeCluster) ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	if w.hanging.Has(gv.Group) {
		defer counted(&w.waiting)()
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return nil, ctx.Err()
	}
	if err := w.discoveryErr[gv.Group]; err != nil {
		return nil, err
	}
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for gvk := range w.served {
		if gvk.GroupVersion() == gv {
			// The kind of a subresource may be the same.
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resources[gvk].Name + "/status", Kind: gvk.Kind, Namespaced: true}, resources[gvk])
		}
	}
	if len(list.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return list, nil
}

func (w *fakeCluster) review(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
	asked := review.Spec.ResourceAttributes
	review.Status.Allowed = !w.denied.Has(asked.Verb+" "+asked.Resource) && asked.Namespace == "" && asked.Name == ""
	return true, review, w.accessErr
}

func (w *fakeCluster) refuse(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.refused[action.GetVerb()+" "+action.GetResource().Resource]
	return err != nil, nil, err
}

func (w *fakeCluster) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := action.GetResource().Resource
	if err := w.refused["watch "+resource]; err != nil {
		return true, nil, err
	}
	watcher := watch.NewRaceFreeFake()
	w.watchers[resource] = append(w.watchers[resource], watcher)
	if w.shortWatches {
		watcher.Stop()
	}
	return true, watcher, nil
}

// change changes the cluster, and waits until everything that follows at once has
// happened.
func (w *fakeCluster) change(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	synctest.Wait()
}

// want sets the kinds that an owner wants.
func (w *fakeCluster) want(owner string, gvks ...schema.GroupVersionKind) {
	w.set.Want(owner, sets.New(gvks...))
	synctest.Wait()
}

func nameOf(gvk schema.GroupVersionKind) types.NamespacedName {
	if !resources[gvk].Namespaced {
		return types.NamespacedName{Name: "x"}
	}
	return types.NamespacedName{Namespace: "n", Name: "x"}
}

// put stores the object named x of a kind, and has the watches report it.
func (w *fakeCluster) put(gvk schema.GroupVersionKind, value string) {
	u := &unstructured.Unstructured{Object: map[string]any{"value": value}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(nameOf(gvk).Namespace)
	u.SetName("x")
	tracker := w.client.Tracker()
	event := watch.Added
	if _, err := tracker.Get(resourceOf(gvk), u.GetNamespace(), "x"); err == nil {
		event = watch.Modified
		_ = tracker.Update(resourceOf(gvk), u, u.GetNamespace())
	} else {
		_ = tracker.Create(resourceOf(gvk), u, u.GetNamespace())
	}
	w.report(gvk, event, u)
}

func (w *fakeCluster) remove(gvk schema.GroupVersionKind) {
	name := nameOf(gvk)
	object, _ := w.client.Tracker().Get(resourceOf(gvk), name.Namespace, name.Name)
	_ = w.client.Tracker().Delete(resourceOf(gvk), name.Namespace, name.Name)
	w.report(gvk, watch.Deleted, object)
}

func (w *fakeCluster) report(gvk schema.GroupVersionKind, event watch.EventType, object runtime.Object) {
	w.change(func() {
		for _, watcher := range w.watchers[resources[gvk].Name] {
			if !watcher.IsStopped() {
				watcher.Action(event, object)
			}
		}
	})
}

// breakWatches ends the running watches of a kind, as a server that restarts.
func (w *fakeCluster) breakWatches(gvk schema.GroupVersionKind) {
	w.change(func() {
		for _, watcher := range w.watchers[resources[gvk].Name] {
			if !watcher.IsStopped() {
				watcher.Stop()
			}
		}
	})
}

// running is the number of running watches of a kind.
func (w *fakeCluster) running(gvk schema.GroupVersionKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, watcher := range w.watchers[resources[gvk].Name] {
		if !watcher.IsStopped() {
			n++
		}
	}
	return n
}

// requests counts the requests with a verb for a kind.
func (w *fakeCluster) requests(verb string, gvk schema.GroupVersionKind) int {
	n := 0
	for _, action := range w.client.Actions() {
		if action.GetVerb() == verb && action.GetResource() == resourceOf(gvk) {
			n++
		}
	}
	return n
}

// notified returns and forgets the owners that were notified of a change.
func (w *fakeCluster) notified() [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := slices.Clone(w.changed)
	w.changed = nil
	return told
}

// notifiedOwners is notified without repetitions.
func (w *fakeCluster) notifiedOwners() []string {
	owners := sets.New[string]()
	for _, told := range w.notified() {
		owners.Insert(told...)
	}
	return sets.List(owners)
}

// value returns what the set knows of the object named x.
func (w *fakeCluster) value(gvk schema.GroupVersionKind) (string, error) {
	object, err := w.set.Get(gvk, nameOf(gvk))
	if err != nil {
		return "", err
	}
	return object.(*parsed).Object["value"].(string), nil
}

// pass lets time pass, and what follows from it happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
