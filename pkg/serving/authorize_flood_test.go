// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"

	"github.com/nhc-controller/nhc-controller/test/servingtest"
)

// flood sends requests with tokens that are unknown, so many per second, and returns how
// many got which status code.
func (g *gate) flood(t *testing.T, perSecond int, d time.Duration) map[int]int {
	t.Helper()
	codes := map[int]int{}
	for i := range perSecond * int(d/time.Second) {
		codes[g.get(t, "/metrics", fmt.Sprintf("Bearer %s-%d", t.Name(), i)).Code]++
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	return codes
}

// exhaust uses up the limit of unknown tokens.
func (g *gate) exhaust(t *testing.T) {
	t.Helper()
	for i := 0; g.get(t, "/metrics", fmt.Sprintf("Bearer %s-%d", time.Now(), i)).Code != http.StatusTooManyRequests; i++ {
		require.Less(t, i, unknownTokensBurst)
	}
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

// A client that tries out tokens costs the API server little, and learns nothing more
// than that there are too many.
func TestAuthorizedFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		servingtest.AdmitTo(g.kube, "good", "/metrics")
		const seconds, perSecond = 20, 500
		codes := g.flood(t, perSecond, seconds*time.Second)
		reviewed := g.reviews()
		require.LessOrEqual(t, reviewed, unknownTokensBurst+(seconds+1)*unknownTokensPerSecond, "P3")
		require.Greater(t, reviewed, seconds*unknownTokensPerSecond, "those who come first get their turn")
		require.Equal(t, map[int]int{http.StatusUnauthorized: reviewed, http.StatusTooManyRequests: seconds*perSecond - reviewed}, codes)

		time.Sleep(time.Second)
		require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code, "it passes")
	})
}

// A scraper gets its metrics during a flood, although its answer has to be renewed.
func TestAuthorizedKnownToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		servingtest.AdmitTo(g.kube, "good", "/metrics")
		require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code)
		for range 10 {
			time.Sleep(answerLifetime)
			g.exhaust(t)
			require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code)
		}
		servingtest.AdmitTo(g.kube, "another", "/metrics") // The first one is revoked.
		time.Sleep(answerLifetime)
		g.exhaust(t)
		require.Equal(t, http.StatusUnauthorized, g.get(t, "/metrics", "Bearer good").Code)
		time.Sleep(answerLifetime)
		g.exhaust(t)
		require.Equal(t, http.StatusTooManyRequests, g.get(t, "/metrics", "Bearer good").Code, "unknown again")
	})
}

// A token does not stay known for ever without being used.
func TestAuthorizedKnownTokenEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		servingtest.AdmitTo(g.kube, "good", "/metrics")
		require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code)
		time.Sleep(knownFor - 1)
		g.exhaust(t)
		require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code)
		time.Sleep(knownFor)
		g.exhaust(t)
		require.Equal(t, http.StatusTooManyRequests, g.get(t, "/metrics", "Bearer good").Code)
	})
}

// A review does not wait for an API server that never answers.
func TestAuthorizedReviewTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := restfake.CreateHTTPClient(func(request *http.Request) (*http.Response, error) {
			<-request.Context().Done()
			return nil, request.Context().Err()
		})
		kube, err := kubernetes.NewForConfigAndClient(&rest.Config{}, silent)
		require.NoError(t, err)
		g := &gate{Handler: Authorized(kube, PathOf, http.NotFoundHandler())}
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
		counting := restfake.CreateHTTPClient(func(request *http.Request) (*http.Response, error) {
			asked++
			<-request.Context().Done()
			return nil, request.Context().Err()
		})
		kube, err := kubernetes.NewForConfigAndClient(&rest.Config{QPS: -1}, counting)
		require.NoError(t, err)
		r := newReviewer(kube)
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := r.review(ctx, strings.Repeat("x", i+1), Requirement{Name: "/metrics"})
			require.Error(t, err)
			cancel()
		}
		require.LessOrEqual(t, asked, unknownTokensBurst+2*unknownTokensPerSecond, "P3")
	})
}
