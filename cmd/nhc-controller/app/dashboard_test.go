// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	kubectlcluster "github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// permits lets the user of a token list these kinds in the whole cluster.
func permits(kube *fake.Clientset, token string, kinds ...string) {
	admits(kube, token)
	kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).Spec.ResourceAttributes
		allowed := false
		for _, kind := range kinds {
			allowed = allowed || asked != nil && asked.Verb == "list" && asked.Namespace == "" && asked.Name == "" && asked.Resource+"."+asked.Group == kind
		}
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
}

const (
	checks   = "nodehealthchecks.remediation.medik8s.io"
	budgets  = "remediationbudgets.remediation.medik8s.io"
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
			g := &gate{kube: kube, Handler: authorized(kube, func(*http.Request) requirement { return viewing(snapshot) }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ok(w) }))}
			require.Equal(t, tc.want, g.get(t, "/", "Bearer good").Code)
			require.Equal(t, http.StatusUnauthorized, g.get(t, "/", "Bearer bad").Code)
			require.Equal(t, http.StatusUnauthorized, g.get(t, "/", "").Code)
		})
	}
}

// An answer is for all pages, but not for kinds that were not there when it was asked for.
func TestViewersAreAskedAboutOnce(t *testing.T) {
	t.Parallel()
	kube, snapshot := fake.NewClientset(), &view.Snapshot{}
	permits(kube, "good", checks, budgets, allNodes)
	g := &gate{kube: kube, Handler: authorized(kube, func(*http.Request) requirement { return viewing(snapshot) }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ok(w) }))}
	for _, path := range []string{"/", "/nodes", "/events", "/assets/style.css"} {
		require.Equal(t, http.StatusOK, g.get(t, path, "Bearer good").Code)
	}
	require.Len(t, kube.Actions(), 4, "the token, and three kinds")
	snapshot.MachineHealthChecks = []*machinev1beta1.MachineHealthCheck{{}}
	require.Equal(t, http.StatusForbidden, g.get(t, "/", "Bearer good").Code)
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
		newTurnstile(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ok(w) })).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, []time.Time{time.Now().Add(pageTimeout)}, w.read)
		require.Equal(t, "ok", w.Body.String())
	})
}

// TestTurnstileLimits: so many pages are made at a time, others wait; so many streams there are, and no
// more; and they do not keep pages away.
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

// Until the cluster was read, the dashboard lives, is not ready, and serves nothing.
func TestDashboardIsNotReady(t *testing.T) {
	t.Parallel()
	d := &dashboardServer{}
	get := func(handler http.Handler, path string) int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer.Code
	}
	require.Equal(t, http.StatusOK, get(d.probes(), "/livez"))
	require.Equal(t, http.StatusServiceUnavailable, get(d.probes(), "/readyz"))
	require.Equal(t, http.StatusServiceUnavailable, get(d, "/"))
	pages := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ok(w) }))
	d.pages.Store(&pages)
	require.Equal(t, http.StatusOK, get(d.probes(), "/readyz"))
	require.Equal(t, http.StatusOK, get(d, "/"))
	require.Equal(t, http.StatusNotFound, get(d.probes(), "/"), "pages are not on the port of the probes")
}

// An API server that is away at the start is tried again, until the dashboard is to end.
func TestDashboardStartsWithoutTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tried := map[time.Time]bool{}
		client := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			tried[time.Now()] = true
			return nil, errors.New("connection refused")
		})}
		clients := &kubectlcluster.Clients{}
		var err error
		clients.Kube, err = kubernetes.NewForConfigAndClient(&rest.Config{QPS: -1}, client)
		require.NoError(t, err)
		clients.NHC, err = versioned.NewForConfigAndClient(&rest.Config{QPS: -1}, client)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*startInterval+time.Second)
		defer cancel()
		d := &dashboardServer{options: newDashboardOptions(), clients: clients}
		require.Nil(t, d.read(ctx))
		require.Len(t, tried, 3)
	})
}

func TestDashboardCommand(t *testing.T) {
	help, err := execute(t, "dashboard", "--help")
	require.NoError(t, err)
	for _, flag := range []string{"--bind-address", "--cluster-name", "--tls-cert-file", "--logging-format"} {
		require.Contains(t, help, flag)
	}
	for want, arguments := range map[string][]string{
		"--leader-elect":           {"dashboard", "--leader-elect"}, // It is not the controller.
		"--tls-private-key-file":   {"dashboard", "--tls-cert-file=a"},
		"--tls-min-version":        {"dashboard", "--tls-min-version=VersionTLS10"},
		"--lease-namespace":        {"dashboard", "--lease-namespace="},
		"unknown command":          {"dashboard", "now"},
		"the access to the API se": {"dashboard", "--kubeconfig=/nowhere", "--bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"},
	} {
		_, err := execute(t, arguments...)
		require.ErrorContains(t, err, want, "%v", arguments)
	}
}
