// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEvents: the version comes at once, and again with each change, in a few bytes.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := newSource(snapshot())
	server := httptest.NewServer(newDashboard(s))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/events", nil)
	require.NoError(t, err)
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		var text strings.Builder
		for lines.Scan() && lines.Text() != "" {
			text.WriteString(lines.Text() + "\n")
		}
		return text.String()
	}
	require.Equal(t, "retry: 2000\nevent: changed\ndata: 1\n", next())
	s.set(snapshot(), time.Time{})
	require.Equal(t, "event: changed\ndata: 2\n", next())
	s.set(snapshot(), now)
	require.Equal(t, "event: changed\ndata: 3\n", next())
}
