// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// flood sends requests with tokens that nobody has seen, so many per second, and
// returns how many got which status code.
func (g *gate) flood(t *testing.T, perSecond int, d time.Duration) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	codes := map[int]int{}
	for i := range perSecond * int(d/time.Second) {
		wg.Go(func() {
			code := g.get(t, "/metrics", fmt.Sprintf("Bearer %s-%d", t.Name(), i)).Code
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	wg.Wait()
	return codes
}

// reviews returns how many tokens the API server was asked about.
func (g *gate) reviews() int {
	n := 0
	for _, action := range g.kube.Actions() {
		if action.Matches("create", "tokenreviews") {
			n++
		}
	}
	return n
}

// Whoever tries out tokens costs the API server little, and learns nothing more than
// that there are too many.
func TestAuthorizedFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		admits(g.kube, "good")
		const seconds, perSecond = 20, 500
		codes := g.flood(t, perSecond, seconds*time.Second)
		reviewed := g.reviews()
		require.LessOrEqual(t, reviewed, strangersBurst+(seconds+1)*strangersPerSecond, "P3")
		require.Greater(t, reviewed, seconds*strangersPerSecond, "those who come first get their turn")
		require.Equal(t, map[int]int{http.StatusUnauthorized: reviewed, http.StatusTooManyRequests: seconds*perSecond - reviewed}, codes)

		time.Sleep(strangersPatience)
		require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code, "it passes")
	})
}

// crowd is a gate all of whose places for strangers are taken, by tokens that the
// API server does not answer about. It was asked about the token good before that.
type crowd struct {
	gate
	asked   atomic.Int32
	revoked atomic.Bool
	// answer ends it.
	answer chan struct{}
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{answer: make(chan struct{})}
	kube, err := kubernetes.NewForConfigAndClient(&rest.Config{QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}},
		&http.Client{Transport: roundTripper(c.roundTrip)})
	require.NoError(t, err)
	c.Handler = authorized(kube, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ok(w) }))
	require.Equal(t, http.StatusOK, c.get(t, "/metrics", "Bearer good").Code)
	time.Sleep(time.Minute)
	c.asked.Store(0)
	for i := range 10 * strangersAtOnce {
		go c.get(t, "/metrics", fmt.Sprint("Bearer slow", i))
	}
	synctest.Wait()
	require.EqualValues(t, strangersAtOnce, c.asked.Load(), "so many at a time")
	require.Equal(t, http.StatusTooManyRequests, c.get(t, "/metrics", "Bearer bad").Code)
	return c
}

// roundTrip answers reviews like an API server.
func (c *crowd) roundTrip(request *http.Request) (*http.Response, error) {
	c.asked.Add(1)
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(`"token":"slow`)) {
		<-c.answer
	}
	answer := `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
	if strings.HasSuffix(request.URL.Path, "/tokenreviews") {
		known := !c.revoked.Load() && bytes.Contains(body, []byte(`"token":"good"`))
		answer = fmt.Sprintf(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":%t}}`, known)
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(answer)), Request: request,
	}, nil
}

// A scraper gets its metrics whatever strangers do, although its answer has to be
// renewed.
func TestAuthorizedAcquaintance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		for range 10 {
			require.Equal(t, http.StatusOK, c.get(t, "/metrics", "Bearer good").Code)
			time.Sleep(answerLifetime)
		}
		c.revoked.Store(true)
		require.Equal(t, http.StatusUnauthorized, c.get(t, "/metrics", "Bearer good").Code)
		time.Sleep(answerLifetime)
		require.Equal(t, http.StatusTooManyRequests, c.get(t, "/metrics", "Bearer good").Code, "a stranger again")
		close(c.answer)
		synctest.Wait()
		require.Equal(t, http.StatusUnauthorized, c.get(t, "/metrics", "Bearer bad").Code, "the places are free again")
	})
}

// A token does not stay known for ever without being used.
func TestAuthorizedAcquaintanceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		require.Equal(t, http.StatusOK, c.get(t, "/metrics", "Bearer good").Code)
		time.Sleep(acquaintance - 1)
		require.Equal(t, http.StatusOK, c.get(t, "/metrics", "Bearer good").Code)
		time.Sleep(acquaintance)
		require.Equal(t, http.StatusTooManyRequests, c.get(t, "/metrics", "Bearer good").Code)
		close(c.answer)
	})
}

// A review does not wait for an API server that never answers.
func TestAuthorizedReviewTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := roundTripper(func(request *http.Request) (*http.Response, error) {
			<-request.Context().Done()
			return nil, request.Context().Err()
		})
		kube, err := kubernetes.NewForConfigAndClient(&rest.Config{}, &http.Client{Transport: silent})
		require.NoError(t, err)
		g := &gate{Handler: authorized(kube, http.NotFoundHandler())}
		begin := time.Now()
		require.Equal(t, http.StatusInternalServerError, g.get(t, "/metrics", "Bearer good").Code)
		require.Equal(t, reviewTimeout, time.Since(begin))
	})
}

// A client that does not wait for its answer costs no more than another one.
func TestAuthorizedClientHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		counting := roundTripper(func(request *http.Request) (*http.Response, error) {
			asked++
			<-request.Context().Done()
			return nil, request.Context().Err()
		})
		kube, err := kubernetes.NewForConfigAndClient(&rest.Config{QPS: -1}, &http.Client{Transport: counting})
		require.NoError(t, err)
		r := newReviewer(kube)
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := r.review(ctx, strings.Repeat("x", i+1), "/metrics")
			require.Error(t, err)
			cancel()
		}
		require.LessOrEqual(t, asked, strangersBurst+2*strangersPerSecond, "P3")
	})
}
