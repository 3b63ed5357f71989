// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strings"
	"sync"
)

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
