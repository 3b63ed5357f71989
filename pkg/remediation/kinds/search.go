// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// How often a new process looks for kinds that it could not discover, and for how long syncs wait for that.
const (
	searchInterval = 2 * time.Second
	searchTimeout  = 15 * time.Second
)

// Run watches the wanted kinds, and those that it finds, until ctx is done.
func (k *Kinds) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { k.Set.Run(ctx) })
	if k.searching.Load() {
		wg.Go(func() { k.search(ctx) })
	}
	wg.Wait()
}

// Ready returns ErrPending of package watches until the kinds that may have CRs of former templates have been found and
// read. It does not wait for a kind that cannot be read.
func (k *Kinds) Ready() error {
	if !k.searching.Load() {
		return nil
	}
	found, known := k.found.Load(), k.Kinds()
	if found == nil {
		return watches.ErrPending
	}
	for _, kind := range *found {
		if _, err := k.Cache(kind); known.Has(kind) && errors.Is(err, watches.ErrPending) {
			return err
		}
	}
	k.searching.Store(false)
	return nil
}

// search reads all kinds of CRs with a template kind once: they may have CRs that neither a spec nor a status
// names any more, because their template was replaced (spec 6.8).
func (k *Kinds) search(ctx context.Context) {
	if !cache.WaitFor(ctx, "", k.crds.HasSyncedChecker()) {
		return
	}
	groups := sets.New[string]()
	for _, name := range k.crds.GetStore().ListKeys() {
		if plural, group, ok := strings.Cut(name, "."); ok && strings.HasSuffix(plural, strings.ToLower(v1alpha1.TemplateKindSuffix)+"s") {
			groups.Insert(group)
		}
	}
	clock.RealClock{}.AfterFunc(searchTimeout, func() {
		if ctx.Err() == nil && k.searching.Swap(false) {
			k.kindsChanged()
		}
	})
	_ = wait.PollUntilContextCancel(ctx, searchInterval, true, func(ctx context.Context) (bool, error) {
		found, err := siblings(ctx, k.discovery, groups)
		k.Find(found)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Looking again for kinds of remediation objects", "cause", err.Error())
			return false, nil
		}
		k.found.Store(&found)
		k.kindsChanged()
		return true, nil
	})
}
