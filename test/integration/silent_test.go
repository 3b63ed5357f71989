// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestSilentKind: one kind can neither be listed nor watched, because the API server
// does not answer, and there is no error either (spec 21.2, P1, P4, P5, P12).
func TestSilentKind(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	other := newScenario(t, c)
	other.createNodes("a", "b")
	s := newRepairScenario(t, c, "silent")
	s.installAll()
	s.createNodes("a", "b", "c", "d")
	silence := &silence{path: "/apis/" + s.kind.remediations.Group + "/"}
	proxy, err := faultproxy.Start(c.AdminConfig(), faultproxy.Hooks{
		Before: silence.hold,
		After:  func(*http.Request, *http.Response) bool { return true },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Stop()) })
	start := func(name string) *localkube.Process {
		process, err := deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{
			Name: name, Args: []string{"-v=5", "--leader-elect=false"}, Through: proxy.Config,
		})
		require.NoError(t, err)
		t.Cleanup(process.Stop)
		return process
	}

	hearing := start("hearing")
	other.createNHC()
	s.createNHC()
	s.eventuallyCounts(4, 4)
	s.fail("a")
	s.fail("b")
	a, b := s.eventuallyCR("a"), s.eventuallyCR("b")
	s.eventuallyListed(map[string]int{"a": 1, "b": 1})
	require.NoError(t, hearing.Kill())
	<-hearing.Exited()

	silence.begin(s.kind.remediations.Resource)
	t.Cleanup(silence.end)
	s.fail("c")
	s.heal("b")
	s.deleteNode("d")
	deaf := start("deaf")
	other.fail("a")
	other.eventuallyCR("a")
	other.recover("a", 2)
	s.eventuallyListed(map[string]int{"a": 1, "b": 1, "c": 0})
	s.eventuallyCounts(3, 0)
	s.requireEnabled()
	requireRunning(t, deaf)
	require.NotNil(t, s.nodeLease("a"))
	require.NotNil(t, s.nodeLease("b"), "P5: the controller does not know whether its CR is gone")
	require.Equal(t, a.GetUID(), s.cr("a").GetUID())
	require.Nil(t, s.cr("b").GetDeletionTimestamp())
	require.Equal(t, b.GetUID(), s.cr("b").GetUID())
	require.Nil(t, s.cr("c"))

	silence.end()
	s.requireOnly("c", s.eventuallyCR("c"))
	s.eventuallyNoCR("b")
	s.eventuallyListed(map[string]int{"a": 1, "c": 1})
	s.eventuallyCounts(3, 1)
	s.requireRequests("create", "a", 1, "P9")
}

// silence keeps a resource from being listed and watched.
type silence struct {
	path string

	mu       sync.Mutex
	resource string
	over     chan struct{}
}

func (s *silence) begin(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resource, s.over = resource, make(chan struct{})
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resource != "" {
		s.resource = ""
		close(s.over)
	}
}

// hold is called before each request.
func (s *silence) hold(r *http.Request) bool {
	s.mu.Lock()
	resource, over := s.resource, s.over
	s.mu.Unlock()
	if resource == "" || !strings.HasPrefix(r.URL.Path, s.path) || !strings.HasSuffix(r.URL.Path, "/"+resource) || r.Method != http.MethodGet {
		return true
	}
	select {
	case <-over:
	case <-r.Context().Done():
	}
	return true
}
