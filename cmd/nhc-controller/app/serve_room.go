// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// room is a listener with a limited number of connections. Whoever comes when it is
// full gets the place of the connection that has been without an answer for the
// longest time: those that send their requests slowly, or none at all, must not keep
// others from theirs. A connection whose request is being answered keeps its place;
// if that is so for all, the newcomer is turned away. Nobody waits in the queue of
// the port in any case.
type room struct {
	net.Listener
	limit int

	mu sync.Mutex
	// turns counts the arrivals and answers.
	turns  uint64
	guests map[*guest]struct{}
}

// guest is a connection in a room.
type guest struct {
	net.Conn
	room *room
	// turn is when it arrived or was answered last, and answering the number of its
	// requests that are being answered now. The room's mu protects both.
	turn      uint64
	answering int
}

func newRoom(listener net.Listener, limit int) *room {
	return &room{Listener: listener, limit: limit, guests: map[*guest]struct{}{}}
}

// Accept implements [net.Listener].
func (r *room) Accept() (net.Conn, error) {
	for {
		conn, err := r.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := r.admit(conn); g != nil {
			return g, nil
		}
		_ = conn.Close() // Whoever is turned away has nothing to lose.
	}
}

// admit gives a connection a place, or returns nil.
func (r *room) admit(conn net.Conn) *guest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.guests) >= r.limit {
		idle := r.idlest()
		if idle == nil {
			return nil
		}
		delete(r.guests, idle)
		_ = idle.Conn.Close() // Its server finds out by reading.
	}
	r.turns++
	g := &guest{Conn: conn, room: r, turn: r.turns}
	r.guests[g] = struct{}{}
	return g
}

// idlest returns the guest to part with, nil if there is none.
func (r *room) idlest() *guest {
	var idlest *guest
	for g := range r.guests {
		if g.answering == 0 && (idlest == nil || g.turn < idlest.turn) {
			idlest = g
		}
	}
	return idlest
}

// Close implements [net.Conn].
func (g *guest) Close() error {
	g.room.mu.Lock()
	delete(g.room.guests, g)
	g.room.mu.Unlock()
	return g.Conn.Close()
}

// CloseWrite tells the client that there is no more to come. An HTTP server does so
// when it hangs up on a client that is still sending.
func (g *guest) CloseWrite() error {
	if conn, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return nil
}

type guestKey struct{}

// withGuest adds the guest to the context of the requests of a connection. It has
// the signature of [http.Server.ConnContext].
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, guestKey{}, conn)
}

// attend keeps the place of those who are being answered.
func (r *room) attend(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if g, ok := request.Context().Value(guestKey{}).(*guest); ok {
			g.answered(1)
			defer g.answered(-1)
		}
		next.ServeHTTP(w, request)
	})
}

func (g *guest) answered(change int) {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	g.answering += change
	g.room.turns++
	g.turn = g.room.turns
}
