// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// The backoff while a cache does not show our own write yet. After noteworthyRetries,
// about five seconds, the log says so.
const (
	staleBase         = 20 * time.Millisecond
	staleMax          = 250 * time.Millisecond
	noteworthyRetries = 22
)

// liveAfter is how long a NodeHealthCheck waits for a cache to show its own write. Then
// the API server is asked.
const liveAfter = 30 * time.Second

// errUnseenSpec ends a sync while the watch of NodeHealthChecks has not brought the spec
// that is valid.
var errUnseenSpec = errors.New("the NodeHealthCheck has changed, and its watch has not reported it yet")

// caughtUp returns the NodeHealthCheck that the cache has once all caches show what its
// last sync has written, nil if there is none. The error is a *staleness.Error until then.
// A cache that takes too long is not waited for any more: what it lacks is read live.
func (c *Controller) caughtUp(ctx context.Context, name string) (*v1alpha1.NodeHealthCheck, error) {
	c.liveLeases.Delete(name)
	behind := c.writes.Check(name, c.storeOf)
	nhc, err := c.nhcs.Get(name) // After Check.
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nil is the answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading NodeHealthCheck %s: %w", name, err)
	}
	if err := c.staleCaches(); err != nil {
		return nil, err
	}
	if len(behind) > 0 && c.clock.Since(behind[0].Since) < liveAfter {
		return nil, behind[0]
	}
	for _, stale := range behind {
		klog.FromContext(ctx).V(2).Info("Reading live what a cache does not show", "cause", stale.Error())
		switch stale.Resource {
		case nhcResource:
			nhc, err = c.readNHC(ctx, nhc)
		case execute.LeaseResource:
			err = c.readLeases(ctx, nhc.Name)
		default:
			// Unreadable until it is listed: what status names counts as existing.
			c.remediations.Relist(stale.Resource)
		}
		if err != nil {
			return nil, err
		}
	}
	return nhc, nil
}

// staleCaches returns why something that every sync depends on counts as not read: its watch has failed for too
// long. When it is back, all NodeHealthChecks are synced (spec 6.8, P5).
func (c *Controller) staleCaches() error {
	if err := c.freshness.Check(watches.NodeCache, watches.NodeHealthCheckCache, watches.LeaseCache); err != nil {
		return fmt.Errorf("reading what decisions depend on: %w", err)
	}
	return c.machineHealthChecks.Unread()
}

// readNHC reads a NodeHealthCheck whose status the cache does not show. Another spec has
// to come by the watch: the handlers go by it.
func (c *Controller) readNHC(ctx context.Context, cached *v1alpha1.NodeHealthCheck) (*v1alpha1.NodeHealthCheck, error) {
	// They may be listed, not read one by one.
	list, err := c.client.NodeHealthChecks().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + cached.Name})
	if err != nil {
		return nil, fmt.Errorf("reading NodeHealthCheck: %w", err)
	}
	for i := range list.Items {
		if live := &list.Items[i]; live.UID == cached.UID && live.Generation == cached.Generation && live.DeletionTimestamp == nil {
			return live, nil
		}
	}
	return nil, errUnseenSpec
}

// readLeases lists the leases for one sync.
func (c *Controller) readLeases(ctx context.Context, nhc string) error {
	list, err := c.kube.CoordinationV1().Leases(c.leaseNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing leases: %w", err)
	}
	live := cache.NewIndexer(cache.MetaNamespaceKeyFunc, leaseIndexers)
	for i := range list.Items {
		if err := live.Add(&list.Items[i]); err != nil {
			return fmt.Errorf("indexing leases: %w", err)
		}
	}
	c.liveLeases.Store(nhc, live)
	return nil
}

// leases returns the leases by which a NodeHealthCheck goes: those of the cache, unless it
// is too far behind.
func (c *Controller) leases(nhc string) cache.Indexer {
	if live, ok := c.liveLeases.Load(nhc); ok {
		return live.(cache.Indexer)
	}
	return c.leaseStore
}

// retryStale returns when to look again at a cache that is behind. There are no long
// waits: the event by which it catches up may be the echo of our own write, and wakes
// nothing.
func (c *Controller) retryStale(logger klog.Logger, key cache.ObjectName, stale *staleness.Error) time.Duration {
	c.metrics.staleRetries.WithLabelValues(key.Name, stale.Resource.String()).Inc()
	if c.behind.NumRequeues(key) == noteworthyRetries {
		logger.V(2).Info("Waiting for a cache to show our own write", "cause", stale.Error(), "since", stale.Since)
	}
	return c.behind.When(key)
}

// showRetries has the counters of a NodeHealthCheck begin with 0, for everything that it
// may wait for.
func (c *Controller) showRetries(nhc *v1alpha1.NodeHealthCheck) {
	c.metrics.staleRetries.WithLabelValues(nhc.Name, nhcResource.String())
	c.metrics.staleRetries.WithLabelValues(nhc.Name, execute.LeaseResource.String())
	for _, step := range remediation.Steps(&nhc.Spec) {
		kind, _ := step.RemediationKind()
		if mapping, err := c.locate(kind); err == nil {
			c.metrics.staleRetries.WithLabelValues(nhc.Name, mapping.Resource.GroupResource().String())
		}
	}
}
