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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// keeper wants the kinds that no NodeHealthCheck refers to any more, as long as they have a CR that a
// NodeHealthCheck owns, or that takes the control plane slot. No NodeHealthCheck can have this name.
const keeper = "/kept"

// keepKinds has the kept kinds watched. It is called before a NodeHealthCheck drops kinds, and when a CR is gone.
// Events of several caches may call it at the same time. The last call has the latest state.
func (c *Controller) keepKinds() {
	c.keptKindsMu.Lock()
	defer c.keptKindsMu.Unlock()
	kept := map[schema.GroupKind][]types.NamespacedName{}
	for kind := range c.remediations.Wanted(keeper) {
		_, read := c.remediations.LastCache(kind)
		if _, err := c.remediations.Cache(kind); err != nil && !meta.IsNoMatchError(err) && (read || !isForbidden(err)) {
			kept[kind] = nil // It cannot be told at the moment.
		}
	}
	for kind, indexer := range c.remediations.Caches() {
		mapping, _ := c.remediations.Mapping(kind)
		unseen := mapping != nil && c.writes.Unseen(mapping.Resource.GroupResource(), indexer)
		if unseen || len(indexer.ListIndexFuncValues(byOwner))+len(indexer.ListIndexFuncValues(byControlPlane)) > 0 {
			kept[kind] = nil
		}
	}
	c.remediations.Want(keeper, kept)
}

// keepCreated has the kind of a CR watched if the CR was, or may have been, created while the spec ceased to refer to
// the kind.
func (c *Controller) keepCreated(name string, results []remediation.NodeResult) {
	created := sets.New[schema.GroupKind]()
	for _, result := range results {
		if cr := result.Outcome.NewCR(); cr != nil {
			created.Insert(cr.GroupVersionKind().GroupKind())
		} else if result.Outcome.Result == remediation.Unknown {
			created = created.Union(kindsOf(result.Plan))
		}
	}
	if len(created) == 0 {
		return
	}
	if nhc, err := c.nhcs.Get(name); err == nil {
		_, wanted := wantedKinds(nhc)
		created = created.Difference(sets.KeySet(wanted))
	}
	c.wantKept(created.UnsortedList())
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
// names any more, because their template was replaced (spec 6.8). keepKinds drops the kinds without CRs.
func (c *Controller) findKinds(ctx context.Context) {
	if !cache.WaitFor(ctx, "", c.crds.HasSyncedChecker()) {
		return
	}
	groups := sets.New[string]()
	for _, name := range c.crds.GetStore().ListKeys() {
		if plural, group, ok := strings.Cut(name, "."); ok && strings.HasSuffix(plural, strings.ToLower(v1alpha1.TemplateKindSuffix)+"s") {
			groups.Insert(group)
		}
	}
	begin := c.clock.Now()
	for ctx.Err() == nil {
		kinds, err := watches.Siblings(ctx, c.kube.Discovery(), groups, v1alpha1.TemplateKindSuffix)
		c.wantKept(kinds)
		if err == nil || c.clock.Since(begin) >= searchTimeout {
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
	wanted := c.remediations.Wanted(keeper)
	for _, kind := range kinds {
		wanted[kind] = nil
	}
	c.remediations.Want(keeper, wanted)
}
