// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/fake"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/serving"
	"github.com/nhc-controller/nhc-controller/test/servingtest"
)

// permits lets the user of a token list these kinds in the whole cluster.
func permits(kube *fake.Clientset, token string, kinds ...string) {
	servingtest.Admit(kube, token, func(asked *authorizationv1.SubjectAccessReviewSpec) bool {
		r := asked.ResourceAttributes
		return r != nil && r.Verb == "list" && r.Namespace == "" && r.Name == "" && slices.Contains(kinds, r.Resource+"."+r.Group)
	})
}

// door is the handler through which viewers of a snapshot have to go, with the reviews that it asks for.
func door(kube *fake.Clientset, snapshot *view.Snapshot) http.Handler {
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { serving.OK(w) })
	return serving.Authorized(kube, func(*http.Request) serving.Requirement { return viewing(snapshot) }, pages)
}

// enter asks for a page with a header, and returns the status code.
func enter(t *testing.T, door http.Handler, path, authorization string) int {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Header.Set("Authorization", authorization)
	answer := httptest.NewRecorder()
	door.ServeHTTP(answer, request)
	return answer.Code
}

const (
	checks   = "nodehealthchecks.remediation.medik8s.io"
	budgets  = "remediationbudgets.nhc-controller.io"
	allNodes = "nodes."
	machines = "machinehealthchecks.machine.openshift.io"
)

func TestViewers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		may  []string
		with bool // Whether there are MachineHealthChecks.
		want int
	}{
		"nhc-view":              {may: []string{checks, budgets, allNodes}, want: http.StatusOK},
		"nothing":               {want: http.StatusForbidden},
		"no NodeHealthChecks":   {may: []string{budgets, allNodes}, want: http.StatusForbidden},
		"no budgets":            {may: []string{checks, allNodes}, want: http.StatusForbidden},
		"no nodes, as view":     {may: []string{checks, budgets}, want: http.StatusForbidden},
		"nhc-view and machines": {may: []string{checks, budgets, allNodes, machines}, with: true, want: http.StatusOK},
		"no machines":           {may: []string{checks, budgets, allNodes}, with: true, want: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube, snapshot := fake.NewClientset(), &view.Snapshot{}
			if tc.with {
				snapshot.MachineHealthChecks = []*machinev1beta1.MachineHealthCheck{{}}
			}
			permits(kube, "good", tc.may...)
			door := door(kube, snapshot)
			require.Equal(t, tc.want, enter(t, door, "/", "Bearer good"))
			require.Equal(t, http.StatusUnauthorized, enter(t, door, "/", "Bearer bad"))
			require.Equal(t, http.StatusUnauthorized, enter(t, door, "/", ""))
		})
	}
}

// An answer is for all pages, but not for kinds that were not there when it was asked for.
func TestViewersAreAskedAboutOnce(t *testing.T) {
	t.Parallel()
	kube, snapshot := fake.NewClientset(), &view.Snapshot{}
	permits(kube, "good", checks, budgets, allNodes)
	door := door(kube, snapshot)
	for _, path := range []string{"/", "/nodes", "/events", "/assets/style.css"} {
		require.Equal(t, http.StatusOK, enter(t, door, path, "Bearer good"))
	}
	require.Len(t, kube.Actions(), 4, "the token, and three kinds")
	snapshot.MachineHealthChecks = []*machinev1beta1.MachineHealthCheck{{}}
	require.Equal(t, http.StatusForbidden, enter(t, door, "/", "Bearer good"))
}

// deadlines records those that a handler sets.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error  { d.read = append(d.read, at); return nil }
func (d *deadlines) SetWriteDeadline(at time.Time) error { d.write = append(d.write, at); return nil }

func TestTurnstileStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failed error
		turnstile := newTurnstile(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, err := w.Write([]byte("x"))
				failed = errors.Join(failed, err, http.NewResponseController(w).Flush())
				time.Sleep(20 * time.Second)
			}
		}))
		w, begin := &deadlines{ResponseRecorder: httptest.NewRecorder()}, time.Now()
		turnstile.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, eventsPath, nil))
		require.NoError(t, failed)
		require.Equal(t, []time.Time{{}}, w.read, "it ends when the viewer goes, not before")
		require.Equal(t, []time.Time{begin.Add(streamTimeout), begin.Add(20*time.Second + streamTimeout), begin.Add(40*time.Second + streamTimeout)}, w.write)
		require.Equal(t, "xxx", w.Body.String())
		require.True(t, w.Flushed)
	})
}

// A page has longer than a request without permission, and an end.
func TestTurnstilePage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		newTurnstile(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { serving.OK(w) })).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, []time.Time{time.Now().Add(pageTimeout)}, w.read)
		require.Equal(t, "ok", w.Body.String())
	})
}

// TestTurnstileLimits: a limited number of pages is made at a time, and others wait. The number of streams
// is limited, too, and they do not keep pages away.
func TestTurnstileLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		var mu sync.Mutex
		inside := map[string]int{}
		turnstile := newTurnstile(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			inside[r.URL.Path]++
			mu.Unlock()
			<-leave
		}))
		var viewers sync.WaitGroup
		enter := func(ctx context.Context, path string) *deadlines {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			viewers.Go(func() { turnstile.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)) })
			return w
		}
		for range maxStreams {
			enter(t.Context(), eventsPath)
		}
		synctest.Wait()
		refused := enter(t.Context(), eventsPath)
		for range maxPages {
			enter(t.Context(), "/")
		}
		synctest.Wait()
		impatient, cancel := context.WithCancel(t.Context())
		enter(impatient, "/")
		enter(t.Context(), "/")
		synctest.Wait()
		require.Equal(t, http.StatusServiceUnavailable, refused.Code)
		require.Equal(t, map[string]int{eventsPath: maxStreams, "/": maxPages}, inside)
		cancel()
		synctest.Wait()
		close(leave)
		viewers.Wait()
		require.Equal(t, map[string]int{eventsPath: maxStreams, "/": maxPages + 1}, inside, "who has waited is let in, who has gone is not")
	})
}
