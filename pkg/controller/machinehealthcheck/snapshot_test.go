// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// TestCacheCatchesUpDuringTheCheck: a sync never goes by a MachineHealthCheck that is older than
// what its caches were found to show.
func TestCacheCatchesUpDuringTheCheck(t *testing.T) {
	t.Parallel()
	at := func(version string) *v1beta1.MachineHealthCheck {
		return &v1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "workers", ResourceVersion: version}}
	}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	require.NoError(t, store.Add(at("10")))
	c := &Controller{Shell: &reconcile.Shell{Config: reconcile.Config{Clock: clock.RealClock{}, Freshness: watches.NewFreshness()}, Checks: checksIn(catchingUp{store, at("100")})}}
	key := keyOf(at("100"))
	c.Writes.Wrote(key.String(), checkResource, "100", c.Clock.Now())
	require.NoError(t, c.CaughtUp(key.String()))
	check := watches.Cached[*v1beta1.MachineHealthCheck](store, key.String())
	require.Equal(t, "100", check.ResourceVersion)
}

// catchingUp gets the event of an object at the moment when somebody asks how far it is.
type catchingUp struct {
	cache.Store
	check *v1beta1.MachineHealthCheck
}

func (s catchingUp) LastStoreSyncResourceVersion() string {
	if err := s.Update(s.check); err != nil {
		panic(err)
	}
	return s.check.ResourceVersion
}
