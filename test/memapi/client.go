// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
)

// Fault is what happens to one request. The zero value is a request that is carried out
// and answered at once.
type Fault struct {
	// Before and After are how long the request and its answer are under way.
	Before, After time.Duration
	// Err refuses the request: an API status error is answered, any other one is an error
	// of the connection.
	Err error
	// Lost means that the request is carried out and the connection breaks before the
	// answer.
	Lost bool
	// StaleBy has a list that may be stale show the objects as they were so long ago.
	StaleBy time.Duration
	// Then is called after the request was carried out, before the answer is under way. It
	// may be nil.
	Then func()
}

// Client is one user of the server, with faults of its own. It is an
// [http.RoundTripper].
type Client struct {
	server *Server
	user   string
	// Intercept decides about each request. It may be nil. It is called from any goroutine,
	// before the request is carried out.
	intercept func(Request) Fault

	mu sync.Mutex
	// dead is closed when the process behind the client has died.
	dead chan struct{}
	// delays are how late watches report changes.
	delays    map[schema.GroupVersionResource]time.Duration
	forbidden sets.Set[permission]
	watches   map[*watcher]struct{}
}

// permission is what a user may need.
type permission struct {
	verb     string
	resource schema.GroupResource
}

// NewClient returns a client of the server. Intercept decides what happens to its requests;
// it may be nil.
func (s *Server) NewClient(user string, intercept func(Request) Fault) *Client {
	return &Client{
		server: s, user: user, intercept: intercept, dead: make(chan struct{}),
		delays: map[schema.GroupVersionResource]time.Duration{}, forbidden: sets.New[permission](), watches: map[*watcher]struct{}{},
	}
}

// Config returns the configuration of clients that use this one. There is no rate limit.
func (c *Client) Config() *rest.Config {
	return &rest.Config{
		Host: "http://memapi", Transport: c, QPS: -1, UserAgent: c.user, WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Kill has the process behind the client die: no request of it is carried out or answered
// from now on, and its watches are silent until their contexts end.
func (c *Client) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.dead:
	default:
		close(c.dead)
	}
}

// Dead reports whether the client was killed.
func (c *Client) Dead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// Delay has the watches of a resource bring what changes so much later.
func (c *Client) Delay(gvr schema.GroupVersionResource, delay time.Duration) {
	c.mu.Lock()
	c.delays[gvr] = delay
	c.mu.Unlock()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if t := c.server.tables[gvr]; t != nil {
		t.announce()
	}
}

func (c *Client) delay(gvr schema.GroupVersionResource) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.delays[gvr]
}

// EndWatches ends the open watches of a resource: with the error 410 Gone, or just so.
func (c *Client) EndWatches(gvr schema.GroupVersionResource, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		if w.table.GroupVersionResource == gvr {
			w.end(gone)
		}
	}
}

// Forbid takes a permission from the user, or gives it back.
func (c *Client) Forbid(verb string, resource schema.GroupResource, forbidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if forbidden {
		c.forbidden.Insert(permission{verb, resource})
	} else {
		c.forbidden.Delete(permission{verb, resource})
	}
}

func (c *Client) isForbidden(verb string, resource schema.GroupResource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forbidden.Has(permission{verb, resource})
}

// errDead is the error of a request of a process that has died.
var errDead = errors.New("the process has died")

// RoundTrip implements [http.RoundTripper].
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	call, err := newCall(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	call.User = c.user
	var fault Fault
	if c.intercept != nil {
		fault = c.intercept(call.Request)
	}
	if err := c.pause(ctx, fault.Before); err != nil {
		return nil, err
	}
	call.Received, call.staleBy = time.Now(), fault.StaleBy
	response := c.serve(ctx, call, fault.Err)
	if response == nil {
		return nil, fault.Err
	}
	if fault.Then != nil {
		fault.Then()
	}
	err = c.pause(ctx, fault.After)
	if err == nil && fault.Lost {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		response.Body.Close()
		return nil, err
	}
	response.Request = r
	return response, nil
}

// pause waits until a message has arrived, the request is cancelled or the process dies.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-c.dead:
		}
	}
	if c.Dead() {
		return errDead
	}
	return ctx.Err()
}
