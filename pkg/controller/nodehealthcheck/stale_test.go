// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
)

// TestCacheStaysBehind: a cache that never shows our own write holds up nothing for ever
// (spec P1, P12).
func TestCacheStaysBehind(t *testing.T) {
	t.Parallel()
	withRemediations(t, fakeRemediators{}, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		c.Clock = clock.RealClock{}
		for _, resource := range []schema.GroupResource{nhcResource, execute.LeaseResource, {Group: "example.com", Resource: "reboots"}} {
			c.Writes.Wrote("workers", resource, "100", c.Clock.Now())
			time.Sleep(staleness.Patience - 1)
			_, err := c.caughtUp("workers")
			require.IsType(t, &staleness.Error{}, err)
			time.Sleep(time.Nanosecond)
			nhc, err := c.caughtUp("workers")
			require.NoError(t, err, resource.String())
			require.Equal(t, "10", nhc.ResourceVersion, "as the cache has it")
		}
	})
}

// TestCacheCatchesUpDuringTheCheck: a sync never goes by a NodeHealthCheck that is older than what its
// caches were found to show (spec P5).
func TestCacheCatchesUpDuringTheCheck(t *testing.T) {
	t.Parallel()
	c := bareController()
	require.NoError(t, c.Checks.Store.Add(testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.ResourceVersion = "10" })))
	written := testCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.ResourceVersion = "100" })
	c.Checks.Store = catchingUp{c.Checks.Store, written}
	c.Writes.Wrote(written.Name, nhcResource, written.ResourceVersion, c.Clock.Now())
	nhc, err := c.caughtUp(written.Name)
	require.NoError(t, err)
	require.Equal(t, written.ResourceVersion, nhc.ResourceVersion)
}

// catchingUp gets the event of an object at the moment when somebody asks how far it is.
type catchingUp struct {
	cache.Store
	obj *v1alpha1.NodeHealthCheck
}

func (s catchingUp) LastStoreSyncResourceVersion() string {
	if err := s.Update(s.obj); err != nil {
		panic(err)
	}
	return s.obj.ResourceVersion
}
