// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// lookingStore calls look before it reads a NodeHealthCheck.
type lookingStore struct {
	cache.Store
	look func()
}

func (s lookingStore) GetByKey(key string) (any, bool, error) {
	s.look()
	return s.Store.GetByKey(key)
}

// TestChangeDuringSync: what ends after a sync has looked, and before it has decided to wait, starts another one
// (spec 21.1, P2).
func TestChangeDuringSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := newTestController(t, clock.RealClock{})
		var listed []string
		c.Checks.Store = lookingStore{c.Checks.Store, func() { listed = append(listed, c.waiters.all()...) }}
		_, err := c.sync(t.Context(), "workers")
		require.NoError(t, err)
		require.Equal(t, []string{"workers"}, listed)
		require.Empty(t, c.waiters.all(), "P4: it is gone")
	})
}
