// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Want replaces the kinds that a health check wants. recorded are those that its status lists because there may be CRs.
func (k *Kinds) Want(owner string, wanted, recorded sets.Set[schema.GroupKind]) {
	k.mu.Lock()
	if k.recorded == nil {
		k.recorded = map[string]sets.Set[schema.GroupKind]{}
	}
	if k.recorded[owner] = recorded; len(recorded) == 0 {
		delete(k.recorded, owner)
	}
	k.mu.Unlock()
	k.Set.Want(owner, wanted)
}

// Unread returns an error if there may be CRs of one of these kinds that cannot be read. A kind that is gone has none. The
// error is the same for as long as it lasts: the log has the cause.
func (k *Kinds) Unread(of ...schema.GroupKind) error {
	byName := func(a, b schema.GroupKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, kind := range slices.SortedFunc(slices.Values(of), byName) {
		if _, err := k.Cache(kind); err != nil && !k.Gone(kind) {
			return fmt.Errorf("remediation objects of kind %s cannot be read at the moment", kind)
		}
	}
	return nil
}

// AnyUnread returns an error if there may be CRs of any kind that cannot be read. Meanwhile nothing begins that depends on
// the remediations of all health checks (spec 6.8). A kind that is refused or not served, that was never read, and of
// which no status lists a CR, is a mistake of the user, and holds up only those that name it.
func (k *Kinds) AnyUnread() error {
	var unread []schema.GroupKind
	for kind := range k.Kinds() {
		_, err := k.Cache(kind)
		if _, read := k.LastCache(kind); read || watches.Unread(err) || k.isRecorded(kind) {
			unread = append(unread, kind)
		}
	}
	return k.Unread(unread...)
}

func (k *Kinds) isRecorded(kind schema.GroupKind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, recorded := range k.recorded {
		if recorded.Has(kind) {
			return true
		}
	}
	return false
}
