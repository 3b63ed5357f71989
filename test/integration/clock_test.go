// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
)

// TestClockOfTheAPIServer: a single answer with the time of an hour ago does not delay a
// remediation. While all answers say so nothing begins, and what ends goes on (P5, P12).
func TestClockOfTheAPIServer(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	var late atomic.Int64 // So many answers are an hour late.
	proxy, err := faultproxy.Start(c.AdminConfig(), faultproxy.Hooks{
		Before: func(*http.Request) bool { return true },
		After: func(_ *http.Request, response *http.Response) bool {
			if date, err := http.ParseTime(response.Header.Get("Date")); err == nil && late.Add(-1) >= 0 {
				response.Header.Set("Date", date.Add(-time.Hour).Format(http.TimeFormat))
			}
			return true
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Stop()) })
	process, err := deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{
		Name: "clock", Args: []string{"-v=4", "--leader-elect-retry-period=1s"}, Through: proxy.Config,
	})
	require.NoError(t, err)
	t.Cleanup(process.Stop)
	eventuallyReady(t, process)

	s := newScenario(t, c)
	s.createNodes("a", "b", "c", "d")
	s.createNHC()
	s.eventuallyCounts(4, 4)
	late.Store(1)
	s.eventually("a late answer", func() bool { return late.Load() < 1 })
	s.fail("a")
	s.eventuallyCR("a")

	late.Store(1 << 40)
	allowed := func() (reason string) {
		condition := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRemediationAllowed)
		require.NotNil(t, condition)
		return condition.Reason
	}
	s.eventually("the clock is not trusted", func() bool { return allowed() == string(v1alpha1.DecidedClockUntrusted) })
	require.Equal(t, http.StatusServiceUnavailable, probe(t, process, "/readyz"))
	s.setCondition("b", corev1.NodeReady, corev1.ConditionUnknown, time.Now().Add(-time.Hour))
	s.eventually("the decision", func() bool {
		for _, node := range s.status().UnhealthyNodes {
			if node.Name == s.node("b") {
				return node.Decision != nil && node.Decision.Reason == v1alpha1.DecidedClockUntrusted
			}
		}
		return false
	})
	require.Nil(t, s.cr("b"))
	s.heal("a")
	s.eventuallyNoCR("a")

	late.Store(0)
	s.eventuallyCR("b")
	s.eventually("the clock is trusted again", func() bool { return allowed() == v1alpha1.ReasonGateOpen })
	eventuallyReady(t, process)
}
