// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// owned are the CRs of each health check, as its last sync saw them. Garbage collection takes their references to one
// that is gone away, perhaps before the cache shows that it is (spec 4.8, M3.5, M7.4). The zero value is ready to use,
// from any goroutine.
type owned struct {
	mu      sync.Mutex
	byCheck map[cache.ObjectName]ownedBy
}

// ownedBy are the CRs of one health check. orphans means that they are to stay when it is gone.
type ownedBy struct {
	check   types.UID
	orphans bool
	crs     map[types.UID]*object.CR
}

// Own remembers the CRs of a health check, and earlier ones for as long as the caches show them.
func (s *Shell) Own(check metav1.Object, crs ...*object.CR) {
	caches := s.Remediations.Caches()
	now := ownedBy{check: check.GetUID(), orphans: slices.Contains(check.GetFinalizers(), metav1.FinalizerOrphanDependents), crs: map[types.UID]*object.CR{}}
	s.owned.mu.Lock()
	defer s.owned.mu.Unlock()
	if before := s.owned.byCheck[cache.MetaObjectToName(check)]; before.check == now.check {
		for uid, cr := range before.crs {
			indexer := caches[cr.GroupVersionKind().GroupKind()]
			if indexer == nil {
				continue
			}
			if cached := watches.Cached[*object.CR](indexer, cache.MetaObjectToName(cr).String()); cached != nil && cached.UID == uid {
				now.crs[uid] = cr
			}
		}
	}
	for _, cr := range crs {
		now.crs[cr.UID] = cr
	}
	if s.owned.byCheck == nil {
		s.owned.byCheck = map[cache.ObjectName]ownedBy{}
	}
	s.owned.byCheck[cache.MetaObjectToName(check)] = now
}

// ownNew remembers a CR that was created. The caches need not show it yet.
func (s *Shell) ownNew(check metav1.Object, cr *object.CR) {
	s.owned.mu.Lock()
	defer s.owned.mu.Unlock()
	if by := s.owned.byCheck[cache.MetaObjectToName(check)]; by.check == check.GetUID() && by.crs != nil {
		by.crs[cr.UID] = cr
	}
}

// Owned returns the CRs that a health check had at its last sync.
func (s *Shell) Owned(key cache.ObjectName) sets.Set[types.UID] {
	s.owned.mu.Lock()
	defer s.owned.mu.Unlock()
	return sets.KeySet(s.owned.byCheck[key].crs)
}

// OwnersBefore returns the health checks that had a CR at their last sync.
func (s *Shell) OwnersBefore(cr *object.CR) (owners []cache.ObjectName) {
	s.owned.mu.Lock()
	defer s.owned.mu.Unlock()
	for key, by := range s.owned.byCheck {
		if by.crs[cr.UID] != nil {
			owners = append(owners, key)
		}
	}
	return owners
}

// EndFormer deletes the CRs that a former health check has left: it is gone (uid is empty), or was created again.
func (s *Shell) EndFormer(ctx context.Context, key cache.ObjectName, uid types.UID) error {
	s.owned.mu.Lock()
	by := s.owned.byCheck[key]
	remembered := sets.KeySet(by.crs)
	s.owned.mu.Unlock()
	if by.check == uid {
		remembered = nil
	} else if by.orphans {
		return nil
	}
	executor := execute.Executor{Client: s.Dynamic, Mapping: s.Mapping}
	former := execute.Former{Present: s.Owner(key, uid), Checks: s.Checks.Resource, CRs: s.Remediations.Caches(), Remembered: remembered}
	if err := executor.EndFormer(ctx, &former); err != nil {
		return fmt.Errorf("ending the remediations of a former %s: %w", s.Checks.Kind, err)
	}
	return nil
}

// Forget drops what is known of a health check that is gone.
func (s *Shell) Forget(key cache.ObjectName) {
	s.Writes.Forget(key.String())
	s.Budgets.Forget(s.Asker(key.String()))
	s.owned.mu.Lock()
	defer s.owned.mu.Unlock()
	delete(s.owned.byCheck, key)
}
