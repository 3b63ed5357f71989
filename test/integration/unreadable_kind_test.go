// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
)

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
