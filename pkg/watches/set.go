// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// ErrPending is returned for a kind that was not probed yet, or whose cache has not
// caught up. The Changed callback is called when that is over, so callers wait for it.
var ErrPending = errors.New("not ready yet")

// UnreadableError is returned for a kind that cannot be read: an attempt has failed, or gets no answer. Callers go on
// without it, because it may never be readable. The Changed callback is called when it is.
type UnreadableError struct{ Cause error }

func (e *UnreadableError) Error() string { return "not readable: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Cause }

// Unread reports whether err says that a kind has not been read, because it is pending or unreadable. It is no answer
// of the API server about the kind, and a callback comes when it has been read.
func Unread(err error) bool {
	_, unreadable := errors.AsType[*UnreadableError](err)
	return unreadable || errors.Is(err, ErrPending)
}

// ForbiddenError is returned for a kind on which a needed permission is missing.
type ForbiddenError struct {
	Verb     string
	Resource schema.GroupResource
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("no permission to %s %s", e.Verb, e.Resource)
}

// Key identifies a kind. A GroupKind is a kind with all its versions, which are the same objects. It is
// read in the version that the API server prefers. A GroupVersionKind is a kind that is read in one
// version.
type Key interface {
	comparable
	schema.GroupKind | schema.GroupVersionKind
}

// parts returns the parts of a key, without version for a GroupKind.
func parts[K Key](key K) schema.GroupVersionKind {
	if kind, ok := any(key).(schema.GroupKind); ok {
		return kind.WithVersion("")
	}
	return any(key).(schema.GroupVersionKind)
}

// logValues returns the values of a kind for the log.
func logValues[K Key](key K) []any {
	gvk := parts(key)
	if gvk.Version == "" {
		return []any{"kind", gvk.Kind, "group", gvk.Group}
	}
	return []any{"kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String()}
}

// Set is the set of wanted kinds. Its methods may be called from any goroutine and
// never wait.
type Set[K Key] struct {
	config Config
	queue  workqueue.TypedRateLimitingInterface[K]
	wg     sync.WaitGroup

	mu    sync.RWMutex
	kinds map[K]*kind
}

// kind is the state of one wanted kind. Its fields are guarded by Set.mu.
type kind struct {
	owners  sets.Set[string]
	mapping *meta.RESTMapping
	// versions are those in which the kind is served.
	versions []string
	// err is why the kind cannot be used, ErrPending at first.
	err error
	// gone means that the kind is not served and no object of it can exist.
	gone bool
	// informer is set while the kind is watched. last is the cache of the informer before, if that was filled.
	informer *informer
	last     cache.Indexer
}

// NewSet returns a set without kinds. It starts nothing: that happens in Run.
func NewSet[K Key](config Config) *Set[K] {
	return &Set[K]{
		config: config,
		kinds:  map[K]*kind{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](250*time.Millisecond, probeInterval),
			workqueue.TypedRateLimitingQueueConfig[K]{Name: config.Name},
		),
	}
}

// Run watches the wanted kinds until ctx is done, and returns when every informer has
// stopped.
func (s *Set[K]) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), s.config.Name))
	defer s.wg.Wait()
	defer s.queue.ShutDown()
	s.wg.Go(func() { s.dispatch(ctx) })
	<-ctx.Done()
}

// dispatch reconciles the kinds in the queue side by side: a kind that hangs does not
// delay others. The queue hands out no kind that is being reconciled, so there are never
// more goroutines than kinds.
func (s *Set[K]) dispatch(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		s.wg.Go(func() {
			defer utilruntime.HandleCrashWithContext(ctx)
			defer s.queue.Done(key)
			s.reconcile(ctx, key)
		})
	}
}

// Want replaces the kinds that owner wants. A kind without an owner is stopped, unless it is kept.
func (s *Set[K]) Want(owner string, wanted sets.Set[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.kinds {
		if wanted.Has(key) || !k.owners.Has(owner) {
			continue
		}
		if k.owners.Delete(owner); s.needless(k) {
			s.drop(key, k)
		}
	}
	for key := range wanted {
		k := s.add(key)
		if !k.owners.Has(owner) && k.informer == nil {
			s.queue.Add(key)
		}
		k.owners.Insert(owner)
	}
}

// Find has kinds watched that no owner wants.
func (s *Set[K]) Find(found []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range found {
		if s.add(key).informer == nil {
			s.queue.Add(key)
		}
	}
}

// add returns the state of a kind. s.mu must be held.
func (s *Set[K]) add(key K) *kind {
	if s.kinds[key] == nil {
		s.kinds[key] = &kind{owners: sets.New[string](), err: ErrPending}
	}
	return s.kinds[key]
}

// needless reports whether a kind that was probed may be dropped. s.mu must be held.
func (s *Set[K]) needless(k *kind) bool {
	kept := s.config.Keep && (k.informer != nil || (k.last != nil && len(k.last.ListKeys()) > 0))
	return len(k.owners) == 0 && !kept
}

// drop stops a kind. s.mu must be held.
func (s *Set[K]) drop(key K, k *kind) {
	k.stop()
	delete(s.kinds, key)
	s.queue.Forget(key)
}

// Kinds returns the kinds that any owner wants.
func (s *Set[K]) Kinds() sets.Set[K] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return sets.KeySet(s.kinds)
}

// Refresh probes the kinds of the API group of a CRD again, because that came, went or changed. Discovery follows within
// a second or two.
func (s *Set[K]) Refresh(crd string) {
	_, group, _ := strings.Cut(crd, ".") // The name is <plural>.<group>.
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.kinds {
		if parts(key).Group == group {
			s.Recheck(key)
			s.queue.AddAfter(key, refreshAgain)
		}
	}
}

// refreshAgain is the time between two probes of a kind after a CRD of its group has changed.
const refreshAgain = 2 * time.Second

// Recheck probes a kind again, because a request for it was refused.
func (s *Set[K]) Recheck(key K) {
	s.queue.Forget(key)
	s.queue.Add(key)
}

// Mapping returns where a kind is served. The error is ErrPending, *meta.NoKindMatchError,
// *ForbiddenError, or the failure of the probe. It returns the mapping also with an error,
// unless the kind is not served or was never found.
func (s *Set[K]) Mapping(key K) (*meta.RESTMapping, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.kinds[key]
	if k == nil {
		return nil, ErrPending
	}
	return k.mapping, k.err
}

// MappingIn returns where a kind is served in a version: a *meta.NoKindMatchError if it is not, otherwise
// what Mapping returns.
func (s *Set[K]) MappingIn(key K, version string) (*meta.RESTMapping, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.kinds[key]
	switch {
	case k == nil:
		return nil, ErrPending
	case meta.IsNoMatchError(k.err) || (k.mapping != nil && !slices.Contains(k.versions, version)):
		return nil, &meta.NoKindMatchError{GroupKind: parts(key).GroupKind(), SearchedVersions: []string{version}}
	case k.mapping == nil:
		return nil, k.err
	}
	mapping := *k.mapping
	mapping.Resource.Version, mapping.GroupVersionKind.Version = version, version
	return &mapping, k.err
}

// Gone reports whether a kind is not served and no CustomResourceDefinition has it. Then no
// objects of it exist any more.
func (s *Set[K]) Gone(key K) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.kinds[key]
	return k != nil && k.gone
}

// Cache returns the cache of a watched kind, or an error as Mapping does. A kind that may
// be read but not written has a cache, too.
func (s *Set[K]) Cache(key K) (cache.Indexer, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.kinds[key]
	switch {
	case k == nil:
		return nil, ErrPending
	case k.informer == nil:
		return nil, cmp.Or(k.err, ErrPending)
	}
	if err := k.informer.unread(); err != nil {
		return nil, err
	}
	return k.informer.GetIndexer(), nil
}

// Caches returns the caches of all kinds that are watched at the moment. For kinds that
// count as unreadable, it returns their last state.
func (s *Set[K]) Caches() map[K]cache.Indexer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	caches := make(map[K]cache.Indexer, len(s.kinds))
	for key, k := range s.kinds {
		if k.informer != nil && k.informer.synced() {
			caches[key] = k.informer.GetIndexer()
		}
	}
	return caches
}

// LastCache returns the last cache of a kind, also if the kind counts as unreadable or the permission to read it was
// withdrawn (spec M15.1). It returns false if the kind was never read, is gone, or is not wanted any more.
func (s *Set[K]) LastCache(key K) (cache.Indexer, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch k := s.kinds[key]; {
	case k == nil || k.gone:
		return nil, false
	case k.informer != nil && k.informer.synced():
		return k.informer.GetIndexer(), true
	default:
		return k.last, k.last != nil
	}
}

// StoreOf returns the cache of a resource. It returns false if the resource is not watched or cannot be read: then no
// caller should wait for it. What is read next has all earlier writes.
func (s *Set[K]) StoreOf(resource schema.GroupResource) (cache.Store, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, k := range s.kinds {
		if k.informer != nil && k.informer.unread() == nil && k.mapping.Resource.GroupResource() == resource {
			return k.informer.GetStore(), true
		}
	}
	return nil, false
}

// Get returns an object from the cache. Besides the errors of Cache, the error may be a NotFound of the API.
func (s *Set[K]) Get(key K, name types.NamespacedName) (runtime.Object, error) {
	indexer, err := s.Cache(key)
	if err != nil {
		return nil, err
	}
	if object := Cached[runtime.Object](indexer, cache.NewObjectName(name.Namespace, name.Name).String()); object != nil {
		return object, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: parts(key).Group, Resource: parts(key).Kind}, name.Name)
}

// stop stops the informer, if there is one, and keeps its cache.
func (k *kind) stop() {
	if k.informer == nil {
		return
	}
	k.informer.cancel()
	if k.informer.synced() {
		k.last = k.informer.GetIndexer()
	}
	k.informer = nil
}
