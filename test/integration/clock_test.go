// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
)

// TestClockAhead: nothing begins while the clock of the controller is far ahead of that of the API server, whose answers
// have an earlier date here (spec 23d.2).
func TestClockAhead(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	proxy, err := faultproxy.Start(c.AdminConfig(), faultproxy.Hooks{
		Before: func(*http.Request) bool { return true },
		After: func(_ *http.Request, answer *http.Response) bool {
			answer.Header.Set("Date", time.Now().Add(-4*time.Minute).UTC().Format(http.TimeFormat))
			return true
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Stop()) })
	c.startDeployed(t, deploy.Controller{Name: "ahead", Args: []string{"--leader-elect=false"}, Through: proxy.Config})
	s := newScenario(t, c)
	s.createNodes("a")
	s.createNHC()
	s.fail("a")
	s.eventuallyDecided("a", v1alpha1.DecidedClockUntrusted)
	require.Empty(t, s.crs())
}
