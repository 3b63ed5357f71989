// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
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

func TestFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &leaseServer{}
		lock := &leaseLock{leaseServer: server, identity: "a"}
		f := &fence{tenure: 10 * time.Second}
		fenced := &fencedLock{Interface: lock, fence: f}
		require.False(t, f.open(), "P9: closed before the lease is held")

		ours := resourcelock.LeaderElectionRecord{HolderIdentity: "a"}
		require.NoError(t, fenced.Create(t.Context(), ours))
		require.True(t, f.open())
		time.Sleep(10*time.Second - 1)
		require.True(t, f.open())
		time.Sleep(time.Nanosecond)
		require.False(t, f.open(), "P9: before the lease runs out")

		require.NoError(t, fenced.Update(t.Context(), ours))
		require.True(t, f.open(), "P12: renewed late, but before anybody else led")
		time.Sleep(5 * time.Second)
		server.version++
		require.Error(t, fenced.Update(t.Context(), ours))
		require.True(t, f.open(), "a renewal that fails takes nothing away")
		time.Sleep(5 * time.Second)
		require.False(t, f.open(), "P5: nor does it prolong anything")

		_, _, err := fenced.Get(t.Context())
		require.NoError(t, err)
		require.NoError(t, fenced.Update(t.Context(), ours))
		require.NoError(t, fenced.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
		require.False(t, f.open(), "22.6: released")
	})
}

// The renewal counts from when it was sent: that is what the others count from, at
// the latest.
func TestFenceCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fence{tenure: 10 * time.Second}
		slow := &fencedLock{Interface: &leaseLock{identity: "a"}, fence: f}
		require.NoError(t, slow.write(resourcelock.LeaderElectionRecord{HolderIdentity: "a"}, func() error {
			time.Sleep(9 * time.Second)
			return nil
		}))
		require.True(t, f.open())
		time.Sleep(time.Second)
		require.False(t, f.open(), "P9")
	})
}

func TestFenceIsClosedWhileReleasing(t *testing.T) {
	t.Parallel()
	f := &fence{tenure: time.Hour}
	lock := &fencedLock{Interface: &leaseLock{identity: "a"}, fence: f}
	require.NoError(t, lock.write(resourcelock.LeaderElectionRecord{HolderIdentity: "a"}, func() error { return nil }))
	lost := errors.New("the answer was lost")
	require.ErrorIs(t, lock.write(resourcelock.LeaderElectionRecord{}, func() error {
		require.False(t, f.open(), "P9: it may be released at any moment now")
		return lost
	}), lost)
	require.False(t, f.open(), "P5: it may have been released")
}

// TestLeaseOfAnotherIsNotReleased: a process that was stopped, or was slow, finds that
// somebody else leads, and releases what it has read last.
func TestLeaseOfAnotherIsNotReleased(t *testing.T) {
	t.Parallel()
	server := &leaseServer{}
	candidate := func(identity string) *fencedLock {
		return &fencedLock{Interface: &leaseLock{leaseServer: server, identity: identity}, fence: &fence{tenure: time.Hour}}
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
	require.ErrorIs(t, former.Update(t.Context(), holds("")), errNotOurs, "22.5")
	require.Equal(t, "b", server.holder(), "22.5: nobody else can lead")
	require.False(t, former.fence.open())

	require.NoError(t, leader.Update(t.Context(), holds("")), "22.5: the leader may")
	require.Empty(t, server.holder())
	_, _, err = former.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, former.Update(t.Context(), holds("a")), "22.5: and then everybody can lead")
	require.True(t, former.fence.open())
}

func TestFenceStopsWrites(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path string
		passes       bool
	}{
		"22.5 a standby keeps its caches filled":    {method: http.MethodGet, path: "/api/v1/nodes", passes: true},
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
			f := &fence{tenure: time.Hour}
			sent := 0
			next := roundTripper(func(*http.Request) (*http.Response, error) {
				sent++
				return &http.Response{Body: http.NoBody}, nil
			})
			transport := f.wrap(next, next)
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
			f.set(time.Now())
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
