// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// Way is what becomes of the bytes between the clients and the proxy, below TLS.
type Way int

// The ways. What gets through on a connection that was silent is lost: it breaks when the way is Open again.
const (
	// Open is as ever.
	Open Way = iota
	// HalfOpen has the connections that exist be silent: nothing gets through in either direction, and none breaks,
	// as if a load balancer had forgotten them. New ones are open.
	HalfOpen
	// Silent has all connections be silent, also new ones: as if packets vanished.
	Silent
	// Closed breaks all connections, also new ones.
	Closed
)

// line is a listener with the connections of the clients.
type line struct {
	net.Listener

	mu       sync.Mutex
	way      Way
	accepted int
	conns    map[*conn]struct{}
}

// conn is a connection of a client. Once it is silent, it stays so until it is closed.
type conn struct {
	net.Conn
	line   *line
	silent atomic.Bool
	closed chan struct{}
	close  func() error
}

// set changes the way.
func (l *line) set(way Way) {
	var broken []*conn
	l.mu.Lock()
	l.way = way
	for c := range l.conns {
		switch {
		case way == HalfOpen || way == Silent:
			c.silent.Store(true)
		case way == Closed || c.silent.Load():
			broken = append(broken, c)
		}
	}
	l.mu.Unlock()
	for _, c := range broken {
		_ = c.Close() // Its user finds out.
	}
}

// Accept returns the next connection.
func (l *line) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.add(accepted); c != nil {
			return c, nil
		}
		_ = accepted.Close()
	}
}

// add adds a connection, and returns nil if it is to break.
func (l *line) add(accepted net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.way == Closed {
		return nil
	}
	c := &conn{Conn: accepted, line: l, closed: make(chan struct{})}
	c.silent.Store(l.way == Silent)
	c.close = sync.OnceValue(func() error {
		l.mu.Lock()
		delete(l.conns, c)
		l.mu.Unlock()
		close(c.closed)
		return c.Conn.Close()
	})
	l.conns[c] = struct{}{}
	l.accepted++
	return c
}

// Read returns what has come, unless the connection is silent.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.silent.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Write sends something. If the connection is silent, it vanishes.
func (c *conn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close closes the connection.
func (c *conn) Close() error { return c.close() }
