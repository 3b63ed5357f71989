// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// ask sends a request for a host to a door, and returns the status and where it leads.
func ask(t *testing.T, door *Door, host, path string) (status int, location string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Host = host
	answer := httptest.NewRecorder()
	door.ServeHTTP(answer, request)
	require.NotEmpty(t, answer.Header().Get("Content-Security-Policy"), "%s %s", host, path)
	return answer.Code, answer.Header().Get("Location")
}

func newTestDoor() *Door {
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	return NewDoor(inner, "secret", "127.0.0.1:8080", "localhost:8080")
}

// TestDoorToken: nothing is served without the token.
func TestDoorToken(t *testing.T) {
	t.Parallel()
	door := newTestDoor()
	require.Equal(t, "/secret/", door.Path())
	for path, want := range map[string]int{
		"/secret/": http.StatusOK, "/secret/events": http.StatusOK, "/secret/a/b": http.StatusOK, "/secret/?x=1": http.StatusOK, "/secret": http.StatusFound,
		"/": http.StatusForbidden, "/events": http.StatusForbidden, "/secre/": http.StatusForbidden, "/secrets/": http.StatusForbidden, "/SECRET/": http.StatusForbidden,
		"//secret/": http.StatusForbidden, "/x/secret/": http.StatusForbidden, "/?token=secret": http.StatusForbidden, "/favicon.ico": http.StatusForbidden,
	} {
		status, _ := ask(t, door, "127.0.0.1:8080", path)
		require.Equal(t, want, status, path)
	}
	_, location := ask(t, door, "127.0.0.1:8080", "/secret")
	require.Equal(t, "/secret/", location)
}

// TestDoorHost: a name that somebody made to resolve to this address is refused, even with the token.
func TestDoorHost(t *testing.T) {
	t.Parallel()
	door := newTestDoor()
	for host, want := range map[string]int{
		"127.0.0.1:8080": http.StatusOK, "localhost:8080": http.StatusOK, "LOCALHOST:8080": http.StatusOK,
		"evil.example:8080": http.StatusMisdirectedRequest, "127.0.0.1": http.StatusMisdirectedRequest, "127.0.0.1:80": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
		"localhost:8080.evil.example": http.StatusMisdirectedRequest, "127.0.0.1:8080@evil.example": http.StatusMisdirectedRequest,
	} {
		status, _ := ask(t, door, host, "/secret/")
		require.Equal(t, want, status, host)
	}
}
