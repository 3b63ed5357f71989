// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Checks are the health checks that a controller reconciles.
type Checks struct {
	// Kind and Resource are theirs in the API. LogKey is what the log calls one of them.
	Kind     string
	Resource schema.GroupVersionResource
	LogKey   string
	// Store has them, and Cache is its name in [watches.Freshness].
	Store cache.Store
	Cache string
	// OfHolder returns the key of the one that a holder identity of a lease stands for, and false if none.
	OfHolder func(holder string) (key string, ok bool)
}

// Shell is what the controllers of health checks have in common: what they depend on, and their way from an event to
// a sync and its writes.
type Shell struct {
	Config
	Checks Checks
	// Name is that of the controller in metrics and logs.
	Name  string
	Queue Queue
	// Sync is that of [Runner]. Beside runs as long as syncs begin, and Stopped once they have ended.
	Sync    func(ctx context.Context, key cache.ObjectName) (recheck time.Time, err error)
	Beside  []func(context.Context)
	Stopped func(context.Context)
	// Mapping returns where a kind is served that the controller writes.
	Mapping func(schema.GroupVersionKind) (*meta.RESTMapping, error)
	// Synced have to be done before the first sync.
	Synced []cache.DoneChecker
	// NodeCache and LeaseCache are those of the informers.
	NodeCache  NodeCache
	LeaseCache cache.Indexer
	// Writes are those that the caches may not show yet.
	Writes staleness.Tracker
	owned  owned
	// Written are the sets of the further kinds that the controller writes.
	Written []interface {
		StoreOf(resource schema.GroupResource) (cache.Store, bool)
	}
}

// NewShell returns the shell of a controller. The caller sets Sync and the fields after it.
func NewShell(name string, config Config, checks Checks, nodeIndexers cache.Indexers) (*Shell, error) {
	config.SetDefaults()
	s := &Shell{
		Config: config, Checks: checks, Name: name, Queue: NewQueue(name),
		NodeCache: NodeCache{config.Nodes.Informer().GetIndexer()}, LeaseCache: config.Leases.Informer().GetIndexer(),
	}
	if err := config.Nodes.Informer().AddIndexers(nodeIndexers); err != nil {
		return nil, fmt.Errorf("indexing Nodes: %w", err)
	}
	if err := config.Leases.Informer().AddIndexers(checks.LeaseIndexers()); err != nil {
		return nil, fmt.Errorf("indexing Leases: %w", err)
	}
	return s, nil
}

// LocateCRs returns where CRs of a kind are served. A missing or uncertain permission does not keep the controller from
// ending running remediations (spec 6.7).
func (s *Shell) LocateCRs(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := s.Remediations.MappingIn(kind.GroupKind(), kind.Version)
	if mapping != nil {
		return mapping, nil
	}
	return nil, err
}

// Enqueue adds health checks to the queue.
func (s *Shell) Enqueue(keys ...cache.ObjectName) {
	for _, key := range keys {
		s.Queue.Add(key)
	}
}

// Wake adds health checks to the queue, by their keys in caches. It ignores what is no key.
func (s *Shell) Wake(keys []string) {
	for _, key := range keys {
		if name, err := cache.ParseObjectName(key); err == nil {
			s.Queue.Add(name)
		}
	}
}

// Run reconciles with this many workers. When drain is closed it finishes the running syncs and returns. When ctx is
// done, another process may lead, so it also cancels running requests. It is called once.
func (s *Shell) Run(ctx context.Context, drain <-chan struct{}, workers int) {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), s.Name))
	runner := &Runner{Queue: s.Queue, Key: s.Checks.LogKey, Clock: s.Clock, Sync: s.Sync}
	if runner.Run(ctx, drain, workers, s.Synced, s.Beside...) && s.Stopped != nil {
		s.Stopped(ctx)
	}
}

// CaughtUp returns an error until the caches that every sync depends on can be read, and until all caches show the
// writes of the last sync of a health check: then it is a *[staleness.Error]. A sync reads the caches afterwards. When a
// watch is back, all health checks are synced (spec 6.8, P5).
func (s *Shell) CaughtUp(key string) error {
	if err := s.Freshness.Check(watches.NodeCache, watches.LeaseCache, s.Checks.Cache); err != nil {
		return fmt.Errorf("reading what decisions depend on: %w", err)
	}
	return s.Writes.CaughtUp(key, s.storeOf, s.Clock.Now())
}

// storeOf returns the cache in which a write of the controller shows.
func (s *Shell) storeOf(resource schema.GroupResource) (cache.Store, bool) {
	switch resource {
	case s.Checks.Resource.GroupResource():
		return s.Checks.Store, true
	case execute.LeaseResource:
		return s.LeaseCache, true
	}
	for _, set := range s.Written {
		if store, ok := set.StoreOf(resource); ok {
			return store, true
		}
	}
	return nil, false
}

// HasSynced reports whether the caches are filled.
func (s *Shell) HasSynced() bool {
	return !slices.ContainsFunc(s.Synced, func(checker cache.DoneChecker) bool { return !cache.IsDone(checker) })
}

// Asker returns a health check as RemediationBudgets know it.
func (s *Shell) Asker(key string) budget.Asker { return budget.Asker{Kind: s.Checks.Kind, Name: key} }

// Owner returns a health check as owner of CRs. With an empty uid it is gone.
func (s *Shell) Owner(key cache.ObjectName, uid types.UID) object.Owner {
	return object.Owner{
		APIVersion: s.Checks.Resource.GroupVersion().String(), Kind: s.Checks.Kind, Namespace: key.Namespace, Name: key.Name, UID: uid,
	}
}

// DeleteLeases deletes leases, each bound to the version that was seen.
func (s *Shell) DeleteLeases(ctx context.Context, leases []*coordinationv1.Lease) error {
	executor := execute.Executor{Kube: s.Kube, LeaseNamespace: s.LeaseNamespace}
	return executor.DeleteLeases(ctx, leases)
}
