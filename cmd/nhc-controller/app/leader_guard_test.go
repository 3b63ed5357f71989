// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestLeaderGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &leaseServer{}
		g := &leaderGuard{validity: 10 * time.Second}
		lock := &guardedLock{Interface: &leaseLock{leaseServer: server, identity: "a"}, guard: g}
		require.False(t, g.valid(), "P9: no write before the lease is held")

		ours := resourcelock.LeaderElectionRecord{HolderIdentity: "a"}
		require.NoError(t, lock.Create(t.Context(), ours))
		require.True(t, g.valid())
		time.Sleep(10*time.Second - 1)
		require.True(t, g.valid())
		time.Sleep(time.Nanosecond)
		require.False(t, g.valid(), "P9: before the lease runs out")

		require.NoError(t, lock.Update(t.Context(), ours))
		require.True(t, g.valid(), "P12: renewed late, but before another process led")
		time.Sleep(5 * time.Second)
		unanswered, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, lock.Update(unanswered, ours))
		_, _, err := lock.Get(unanswered)
		require.Error(t, err)
		require.True(t, g.valid(), "a renewal without an answer takes nothing away")
		time.Sleep(5 * time.Second)
		require.False(t, g.valid(), "P5: nor does it prolong anything")

		_, _, err = lock.Get(t.Context())
		require.NoError(t, err)
		require.NoError(t, lock.Update(t.Context(), ours))
		require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
		require.False(t, g.valid(), "22.6: released")
	})
}

// TestLeaderGuardIsRevoked: what shows that another process may lead closes the guard until the next renewal (spec 22.5).
func TestLeaderGuardIsRevoked(t *testing.T) {
	t.Parallel()
	ours := resourcelock.LeaderElectionRecord{HolderIdentity: "a"}
	for name, learn := range map[string]func(t *testing.T, server *leaseServer, lock *guardedLock){
		"the lease was deleted": func(t *testing.T, server *leaseServer, lock *guardedLock) {
			t.Helper()
			server.record = nil
			_, _, err := lock.Get(t.Context())
			require.Error(t, err)
		},
		"another process holds it": func(t *testing.T, server *leaseServer, lock *guardedLock) {
			t.Helper()
			server.record = &resourcelock.LeaderElectionRecord{HolderIdentity: "b"}
			_, _, err := lock.Get(t.Context())
			require.NoError(t, err)
		},
		"it was changed": func(t *testing.T, server *leaseServer, lock *guardedLock) {
			t.Helper()
			server.version++
			require.Error(t, lock.Update(t.Context(), ours))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, g := &leaseServer{}, &leaderGuard{validity: 10 * time.Second}
			lock := &guardedLock{Interface: &leaseLock{leaseServer: server, identity: "a"}, guard: g}
			require.NoError(t, lock.Create(t.Context(), ours))
			require.True(t, g.valid())
			learn(t, server, lock)
			require.False(t, g.valid(), "P9")
			server.record = nil
			require.NoError(t, lock.Create(t.Context(), ours))
			require.True(t, g.valid(), "P12: it leads again")
		})
	}
}

// slowLock is a lease whose writes call a function first.
type slowLock struct {
	resourcelock.Interface
	before func() error
}

func (l *slowLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return errors.Join(l.before(), l.Interface.Create(ctx, record))
}

func (l *slowLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return errors.Join(l.before(), l.Interface.Update(ctx, record))
}

// The renewal counts from when it was sent: that is what the others count from, at
// the latest.
func TestLeaderGuardCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &leaderGuard{validity: 10 * time.Second}
		slow := &slowLock{Interface: &leaseLock{leaseServer: &leaseServer{}, identity: "a"}, before: func() error {
			time.Sleep(9 * time.Second)
			return nil
		}}
		require.NoError(t, (&guardedLock{Interface: slow, guard: g}).Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}))
		require.True(t, g.valid())
		time.Sleep(time.Second)
		require.False(t, g.valid(), "P9")
	})
}

func TestLeaderGuardWhileReleasing(t *testing.T) {
	t.Parallel()
	g := &leaderGuard{validity: time.Hour}
	lost := errors.New("the answer was lost")
	slow := &slowLock{Interface: &leaseLock{leaseServer: &leaseServer{}, identity: "a"}, before: func() error { return nil }}
	lock := &guardedLock{Interface: slow, guard: g}
	require.NoError(t, lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}))
	slow.before = func() error {
		require.False(t, g.valid(), "P9: it may be released at any moment now")
		return lost
	}
	require.ErrorIs(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}), lost)
	require.False(t, g.valid(), "P5: it may have been released")
}

// TestLeaseOfAnotherIsNotReleased: a process that was stopped, or was slow, finds that
// another one leads, and releases what it has read last.
func TestLeaseOfAnotherIsNotReleased(t *testing.T) {
	t.Parallel()
	server := &leaseServer{}
	candidate := func(identity string) *guardedLock {
		return &guardedLock{Interface: &leaseLock{leaseServer: server, identity: identity}, guard: &leaderGuard{validity: time.Hour}}
	}
	holds := func(identity string) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: identity}
	}
	former, leader := candidate("a"), candidate("b")
	require.NoError(t, former.Create(t.Context(), holds("a")))
	_, _, err := leader.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, leader.Update(t.Context(), holds("b")), "the lease has expired")

	_, _, err = former.Get(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, former.Update(t.Context(), holds("")), errNotHolder, "22.5")
	require.Equal(t, "b", server.holder(), "22.5: no other process can lead")
	require.False(t, former.guard.valid())

	_, _, err = leader.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, leader.Update(t.Context(), holds("")), "22.5: the leader may")
	require.Empty(t, server.holder())
	_, _, err = former.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, former.Update(t.Context(), holds("a")), "22.5: and then each process can lead")
	require.True(t, former.guard.valid())
}

func TestLeaderGuardStopsWrites(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path string
		passes       bool
	}{
		"reads need no lease":                       {method: http.MethodGet, path: "/api/v1/nodes", passes: true},
		"22.5 HEAD":                                 {method: http.MethodHead, path: "/api/v1/nodes", passes: true},
		"22.5 it asks for its permissions":          {method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", passes: true},
		"22.5 it checks tokens":                     {method: http.MethodPost, path: "/apis/authentication.k8s.io/v1/tokenreviews", passes: true},
		"22.5 it writes nothing: POST":              {method: http.MethodPost, path: "/apis/example.com/v1/namespaces/x/rebootremediations"},
		"22.5 it writes nothing: PATCH":             {method: http.MethodPatch, path: "/api/v1/nodes/a"},
		"22.5 it writes nothing: PUT":               {method: http.MethodPut, path: "/apis/coordination.k8s.io/v1/namespaces/x/leases/a"},
		"22.5 it writes nothing: DELETE":            {method: http.MethodDelete, path: "/apis/example.com/v1/namespaces/x/rebootremediations/a"},
		"22.5 it writes nothing: events":            {method: http.MethodPost, path: "/apis/events.k8s.io/v1/namespaces/default/events"},
		"22.5 a path that only looks like a review": {method: http.MethodPost, path: "/apis/authorization.k8s.io.example.com/v1/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &leaderGuard{validity: time.Hour}
			sent := 0
			transport := g.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
				sent++
				return &http.Response{Body: http.NoBody}, nil
			}))
			send := func() (*body, error) {
				b := &body{Reader: strings.NewReader("{}")}
				request, err := http.NewRequestWithContext(t.Context(), tc.method, "https://cluster"+tc.path, b)
				require.NoError(t, err)
				response, err := transport.RoundTrip(request)
				if err == nil {
					response.Body.Close()
				}
				return b, err
			}
			b, err := send()
			if tc.passes {
				require.NoError(t, err)
				require.Equal(t, 1, sent)
			} else {
				require.ErrorIs(t, err, errNotLeading)
				require.Zero(t, sent)
				require.True(t, b.closed, "a round tripper closes the body in any case")
			}
			g.set(time.Now())
			_, err = send()
			require.NoError(t, err, "the leader may do anything")
		})
	}
}

type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}
