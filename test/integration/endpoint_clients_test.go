// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestEndpoints sends clients without permission to the ports of a controller, after its
// certificate was renewed.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	token := c.createToken(t, "reader", true)
	mount := newMountedSecret(t)
	first, firstKey := issueCertificate(t, 1)
	second, secondKey := issueCertificate(t, 2)
	mount.publish(t, "first", first, firstKey)
	p := c.startController(t, "endpoints", mount.flags()...)
	eventuallyReady(t, p)
	c.eventuallyLeader(t, "endpoints")
	testRotation(t, p, mount, token, first, second, secondKey)

	scraper := newScraper(t, p, token, second)
	probes, metrics := address(t, p, "probes"), address(t, p, "metrics")
	ctx, stop := context.WithCancel(t.Context())
	begin := time.Now()
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for i := range 200 {
		clients.Go(func() { dawdle(ctx, probes, "GET /livez HTTP/1.1\r\nHost:", nil) })
		clients.Go(func() { dawdle(ctx, metrics, "\x16\x03\x01\x02\x00\x01", nil) })
		if i%2 == 0 { // Handshakes cost the test more than the controller.
			clients.Go(func() {
				dawdle(ctx, metrics, "GET /metrics HTTP/1.1\r\nAuthorization: Bearer", insecure())
			})
		}
	}
	guesses := newGuesses()
	for i := range 40 {
		clients.Go(func() { guesses.make(ctx, scraper.url, fmt.Sprint(i)) })
	}
	patience.Eventually(t, "unknown tokens are refused", func() bool { return guesses.made(http.StatusTooManyRequests) > 100 })

	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	for _, path := range []string{"/livez", "/readyz"} {
		patience.Eventually(t, "the probe "+path, func() bool { return answered(ctx, "http://"+probes+path, "") == http.StatusOK })
		patience.Eventually(t, "a large header is refused by "+path, func() bool {
			return refused(answered(ctx, "http://"+probes+path, strings.Repeat("x", 1<<20)))
		})
	}
	patience.Eventually(t, "a scrape", func() bool { code, _, err := scraper.scrape(t); return err == nil && code == http.StatusOK })
	patience.Eventually(t, "a large header is refused by /metrics", func() bool {
		return refused(answered(ctx, scraper.url, strings.Repeat("x", 1<<20)))
	})
	s.heal("a")
	s.eventuallyNoCR("a")
	require.Equal(t, "endpoints", c.leader(t))
	requireRunning(t, p)

	stop()
	clients.Wait()
	reviews := c.audited(t, func(r localkube.Request) bool { return r.Resource == "tokenreviews" })
	// Twenty at once and ten per second, and those of the scraper.
	seconds := int(time.Since(begin)/time.Second) + 1
	require.LessOrEqual(t, len(reviews), 20+10*seconds+10+seconds/10, "P3: of %v in %d s", guesses.codes, seconds)
	require.Greater(t, len(reviews), 20)
	require.Subset(t, []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusInternalServerError}, slices.Collect(maps.Keys(guesses.codes)), "nothing is served to unknown clients")
}

func insecure() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
}

// dawdle opens a connection, says a few words and no more, and does so again a
// moment after the server has closed it. A handshake comes before that if there is a
// configuration for it.
func dawdle(ctx context.Context, address, words string, config *tls.Config) {
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			if config != nil {
				conn = tls.Client(conn, config)
			}
			hangUp := context.AfterFunc(ctx, func() { _ = conn.Close() })
			if _, err = io.WriteString(conn, words); err == nil {
				_, _ = io.Copy(io.Discard, conn) // Until the server has had enough.
			}
			hangUp()
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// answered sends a request on a connection of its own, with an extra header, and
// returns the status code, zero without an answer.
func answered(ctx context.Context, url, extra string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	request.Header.Set("X-Extra", extra)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: insecure()}}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// refused reports whether a request with a large header was refused. The server hangs up,
// so the answer may be lost.
func refused(code int) bool { return code == 0 || code == http.StatusRequestHeaderFieldsTooLarge }

// guesses tries out tokens and counts the answers.
type guesses struct {
	mu    sync.Mutex
	codes map[int]int
}

func newGuesses() *guesses { return &guesses{codes: map[int]int{}} }

func (g *guesses) make(ctx context.Context, url, prefix string) {
	client := &http.Client{Timeout: patience.Limit, Transport: &http.Transport{TLSClientConfig: insecure()}}
	defer client.CloseIdleConnections()
	for i := 0; ctx.Err() == nil; i++ {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return
		}
		request.Header.Set("Authorization", fmt.Sprintf("Bearer guess-%s-%d", prefix, i))
		if response, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body) // The code is all that matters.
			_ = response.Body.Close()
			g.mu.Lock()
			g.codes[response.StatusCode]++
			g.mu.Unlock()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (g *guesses) made(code int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.codes[code]
}
