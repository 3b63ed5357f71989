// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// client returns a client that sends reads as ordinary does, and writes over
// connections that stand behind the fence. client-go makes those connections, too, so
// that certificates, tokens, proxies and the HTTP/2 health check are the same.
func (f *fence) client(config *rest.Config, ordinary *http.Client) (*http.Client, error) {
	config = rest.CopyConfig(config)
	config.Dial = f.dial(config.Dial)
	fenced, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("configuring HTTP for writes: %w", err)
	}
	client := *ordinary
	client.Transport = f.wrap(ordinary.Transport, fenced)
	return &client, nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dial makes a dialer make connections that stand behind the fence. Without a dialer,
// it is the one that client-go uses then.
func (f *fence) dial(next dialFunc) dialFunc {
	if next == nil {
		next = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &fencedConn{Conn: conn, fence: f}, nil
	}
}

// fencedConn is a connection on which nothing is sent while the fence is closed. It
// carries TLS, one record per Write, so a request may be cut off anywhere; it is
// complete only with its last record, be that the end of the body or, without a body,
// of the headers. The API server does nothing for a request that is not complete.
//
// What HTTP/2 sends on its own account fails as well: acknowledgements, pings, room
// for an answer. Nobody can see here what a record holds, and to be wrong about one
// is to write as a former leader. The price is small. A failed window update loses no
// answer that fits in the window, which is megabytes. A failed ping or acknowledgement
// breaks the connection, and with it the wait for its answers, of which some may be
// lost, as with any connection that breaks; that is also why nobody waits without end
// for a server that is gone. The connection is dialled again once the fence is open,
// at the latest by the second write: the first may be the one that finds it broken. A
// standby has no such connection.
type fencedConn struct {
	net.Conn
	fence *fence
}

// Write implements [net.Conn]. When it has to wait for room in the buffer of the
// kernel it ends with the tenure, though the lease may have been renewed meanwhile: a
// connection that takes nothing for so long is broken.
func (c *fencedConn) Write(p []byte) (int, error) {
	closes := c.fence.closes()
	if err := c.SetWriteDeadline(closes); err != nil {
		return 0, err
	}
	if !time.Now().Before(closes) {
		return 0, errNotLeading
	}
	return c.Conn.Write(p)
}

// send sends a write, which ends with the fence as long as it is on its way: while it
// waits for a connection, or for room on one. A renewal meanwhile gives it more time.
// Once it is sent it may take its time. It will be carried out, whoever leads then,
// and to give up would only make a failure of what may well be a success.
func (f *fence) send(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	sent := make(chan struct{})
	var settle sync.Once // It is either sent or given up.
	markSent := func() { settle.Do(func() { close(sent) }) }
	closes := f.closes()
	go func() {
		if f.closesBefore(ctx, sent, closes) {
			settle.Do(func() { cancel(errNotLeading) })
		}
	}()
	trace := &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			markSent()
		}
	}}
	response, err := next.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		cancel(nil)
		return nil, f.explain(err, context.Cause(ctx), sent)
	}
	markSent() // Or answered before that.
	response.Body = &answer{ReadCloser: response.Body, cancel: cancel}
	return response, nil
}

// closesBefore waits until a write is sent, has ended, or meets a closed fence, and tells
// whether it was that. The fence closes at that time, or later.
func (f *fence) closesBefore(ctx context.Context, sent <-chan struct{}, closes time.Time) bool {
	for time.Now().Before(closes) {
		select {
		case <-sent:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(closes)):
		}
		closes = f.closes()
	}
	return true
}

// explain tells of a write that was not sent because of the fence. What HTTP/2 makes
// of that depends on which of the requests on a connection met the fence first.
func (f *fence) explain(err, cause error, sent <-chan struct{}) error {
	select {
	case <-sent:
		return err
	default:
	}
	if errors.Is(err, errNotLeading) || f.open() && !errors.Is(cause, errNotLeading) {
		return err
	}
	return fmt.Errorf("%w: %w", errNotLeading, err)
}

// answer is the body of an answer, which is not read any more when it is closed.
type answer struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements [io.Closer].
func (a *answer) Close() error {
	defer a.cancel(nil)
	return a.ReadCloser.Close()
}
