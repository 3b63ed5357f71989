// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// keeper wants the kinds that may have CRs of former templates: a kind that was watched once stays watched, because
// a NodeHealthCheck may drop it while its CRs are left, or while one is being created. No NodeHealthCheck can have
// this name.
const keeper = "/kept"

// keepKinds keeps the kinds that are watched. It drops kinds that are not served, and those that may not be read and
// had no objects when they were read last: they are of a remediator that was removed, or that has no role. It is
// called when a kind has changed, before that is handled. The last of several calls has the latest state.
func (c *Controller) keepKinds() {
	c.keptKindsMu.Lock()
	defer c.keptKindsMu.Unlock()
	kept := sets.New[schema.GroupKind]()
	for kind := range c.remediations.Wanted(keeper).Union(sets.KeySet(c.remediations.Caches())) {
		_, err := c.remediations.Cache(kind)
		last, read := c.remediations.LastCache(kind)
		if !meta.IsNoMatchError(err) && (!isForbidden(err) || (read && len(last.ListKeys()) > 0)) {
			kept.Insert(kind)
		}
	}
	c.remediations.Want(keeper, kept)
}

// isForbidden reports whether a permission is missing.
func isForbidden(err error) bool {
	_, forbidden := errors.AsType[*watches.ForbiddenError](err)
	return forbidden
}

// keptKindsRead returns ErrPending until the kinds that may have CRs of former templates have been read. It does not
// wait for a kind that cannot be read.
func (c *Controller) keptKindsRead() error {
	if c.searching.Load() {
		return watches.ErrPending
	}
	for kind := range c.remediations.Wanted(keeper) {
		if _, err := c.remediations.Cache(kind); errors.Is(err, watches.ErrPending) {
			return err
		}
	}
	return nil
}

// How often a new process looks for kinds that it could not discover, and for how long syncs wait for that.
const (
	searchInterval = 2 * time.Second
	searchTimeout  = 15 * time.Second
)

// findKinds has all kinds of CRs that have templates read once: they may have CRs that neither a spec nor a status
// names any more, because their template was replaced (spec 6.8).
func (c *Controller) findKinds(ctx context.Context) {
	if !cache.WaitFor(ctx, "", c.CRDs.HasSyncedChecker()) {
		return
	}
	groups := sets.New[string]()
	for _, name := range c.CRDs.GetStore().ListKeys() {
		if plural, group, ok := strings.Cut(name, "."); ok && strings.HasSuffix(plural, strings.ToLower(v1alpha1.TemplateKindSuffix)+"s") {
			groups.Insert(group)
		}
	}
	begin := c.Clock.Now()
	for ctx.Err() == nil {
		kinds, err := watches.Siblings(ctx, c.Kube.Discovery(), groups, v1alpha1.TemplateKindSuffix)
		c.wantKept(kinds)
		if err == nil || c.Clock.Since(begin) >= searchTimeout {
			if c.searching.Swap(false) {
				c.SyncAll()
			}
		}
		if err == nil {
			return
		}
		klog.FromContext(ctx).V(2).Info("Looking again for kinds of remediation objects", "cause", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(searchInterval):
		}
	}
}

// wantKept has further kinds watched, besides the kept ones.
func (c *Controller) wantKept(kinds []schema.GroupKind) {
	c.keptKindsMu.Lock()
	defer c.keptKindsMu.Unlock()
	c.remediations.Want(keeper, c.remediations.Wanted(keeper).Insert(kinds...))
}
