// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
)

// TestKindFailsLater: a kind that was read once can neither be listed nor watched any
// more, though its CRs can be created. Other kinds and nodes go on (spec 6.8, P1, P12).
func TestKindFailsLater(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	l := newLadder(t, c, 2)
	l.createNodes("a", "b", "c")
	failure := &outOfOrder{path: "/apis/" + rungGroup.Group + "/"}
	proxy, err := faultproxy.Start(c.AdminConfig(), faultproxy.Hooks{Before: failure.before, After: failure.after})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Stop()) })
	process, err := deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{
		Name: "hindered", Args: []string{"-v=5", "--leader-elect=false"}, Through: proxy.Config,
	})
	require.NoError(t, err)
	t.Cleanup(process.Stop)
	l.createNHC(l.escalation())
	l.fail("a")
	l.eventuallyStep("a", 0)

	failure.begin(l.rungs[1].kind.remediations.Resource)
	l.rungs[0].reportFailure("a")
	l.eventually("the CR of the second step", func() bool { return l.rungs[1].cr("a") != nil })
	second := l.rungs[1].cr("a")
	l.fail("b")
	l.rungs[0].eventuallyCR("b") // P1: a CR of the other kind.
	l.eventuallyListed(map[string]int{"a": 2, "b": 1})
	l.eventually("the decision on the node whose CR cannot be read", func() bool {
		entry := l.entry("a")
		return entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedUnreadable
	})
	l.requireEnabled() // 6.5
	l.heal("b")
	l.rungs[0].eventuallyNoCR("b")
	l.eventuallyListed(map[string]int{"a": 2})
	l.eventually("the log says so", func() bool {
		return len(logged(t, process, "The watch of a cache has failed for too long: nothing that depends on the cache begins")) > 0
	})

	failure.end()
	l.eventually("the second step runs", func() bool {
		entry := l.entry("a")
		return entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedStepRunning
	})
	require.Equal(t, second.GetUID(), l.rungs[1].cr("a").GetUID(), "P9")
	require.Len(t, l.rungs[1].crRequests("create", "a"), 1, "P9")
	l.heal("a")
	l.eventuallyCounts(3, 3)
}

// outOfOrder answers lists and watches of a resource with 503, and ends the watches that
// are open.
type outOfOrder struct {
	path string

	mu       sync.Mutex
	resource string
	watches  map[string][]context.CancelFunc
}

func (o *outOfOrder) begin(resource string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resource = resource
	for _, end := range o.watches[resource] {
		end()
	}
}

func (o *outOfOrder) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resource = ""
}

// before is called before each request.
func (o *outOfOrder) before(r *http.Request) bool {
	if resource, ok := o.collection(r); ok {
		ctx, cancel := context.WithCancel(r.Context())
		*r = *r.WithContext(ctx)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.watches == nil {
			o.watches = map[string][]context.CancelFunc{}
		}
		o.watches[resource] = append(o.watches[resource], cancel)
	}
	return true
}

// after is called with each answer.
func (o *outOfOrder) after(r *http.Request, response *http.Response) bool {
	resource, ok := o.collection(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if ok && resource == o.resource {
		_ = response.Body.Close()
		response.StatusCode, response.Status = http.StatusServiceUnavailable, "503 Service Unavailable"
		response.Header = http.Header{"Content-Type": {"text/plain"}}
		response.Body, response.ContentLength = io.NopCloser(strings.NewReader("out of order")), -1
	}
	return true
}

// collection returns the resource that a request lists or watches, if it does.
func (o *outOfOrder) collection(r *http.Request) (string, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, o.path)
	parts := strings.Split(rest, "/")
	if !ok || r.Method != http.MethodGet || len(parts) != 2 {
		return "", false
	}
	return parts[1], true
}
