// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errNotLeading is the error of a write that did not begin because the leader lease was no longer valid.
var errNotLeading = errors.New("the leader lease was not renewed in time, another process may be the leader")

// leaderGuard permits writes only while no other process can be the leader. Leader
// election alone is no guarantee: a process that was frozen continues where it stopped,
// and tries to renew for a while before it gives up. A renewal permits writes for a while. What shows
// that another process may lead ends that at once.
//
// No write begins once the lease is no longer valid. A write that has begun goes on. A process that was
// frozen between this check and the system call still sends its write when it continues. That does no
// harm: the name of its object locks a create, and other writes are bound to a uid or a resourceVersion.
// All methods may be called from any goroutine.
type leaderGuard struct {
	// validity is how long a renewal permits writing. It is shorter than the lease, so that a
	// write sent at its end arrives before another process leads.
	validity time.Duration

	mu      sync.Mutex
	renewed time.Time
}

// set records that the lease was renewed by a request that began at this time. The zero
// time means that the lease is not held.
func (g *leaderGuard) set(renewed time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed = renewed
}

// valid reports whether a write may begin.
func (g *leaderGuard) valid() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.renewed.Add(g.validity)) > 0
}

// wrap returns a transport that sends writes only while the lease is valid.
func (g *leaderGuard) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if !writes(request) {
			return next.RoundTrip(request)
		}
		if !g.valid() {
			if request.Body != nil {
				_ = request.Body.Close() // A round tripper closes it in any case.
			}
			return nil, errNotLeading
		}
		return next.RoundTrip(request)
	})
}

// writes reports whether a request may change something. A standby may ask for its
// permissions and check tokens.
func writes(request *http.Request) bool {
	return request.Method != http.MethodGet && request.Method != http.MethodHead &&
		!strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/") &&
		!strings.HasPrefix(request.URL.Path, "/apis/authentication.k8s.io/")
}

// guardedLock is a leader lease that reports its renewals to a leaderGuard, and that only
// its holder releases. The elector would also release the lease of a successor that it
// has just read. Its methods are called from the goroutine of the elector.
type guardedLock struct {
	resourcelock.Interface
	guard *leaderGuard
	// holder is the one that Get returned last. The elector reads the lease before it
	// releases it, and an update is bound to the resourceVersion that was read.
	holder string
}

// errNotHolder is returned instead of a release of the lease of another process.
var errNotHolder = errors.New("another process holds the leader lease and keeps it")

// Get implements [resourcelock.Interface].
func (l *guardedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	if apierrors.IsNotFound(err) || (err == nil && l.holder != l.Identity()) {
		l.guard.set(time.Time{})
	}
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *guardedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(func() error { return l.Interface.Create(ctx, record) })
}

// Update implements [resourcelock.Interface].
func (l *guardedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == l.Identity() {
		return l.renew(func() error { return l.Interface.Update(ctx, record) })
	}
	l.guard.set(time.Time{}) // Released, also if the answer is lost.
	if l.holder != "" && l.holder != l.Identity() {
		return errNotHolder
	}
	return l.Interface.Update(ctx, record)
}

func (l *guardedLock) renew(send func() error) error {
	begin := time.Now()
	err := send()
	switch {
	case err == nil:
		l.guard.set(begin)
	case apierrors.IsConflict(err): // Another process has changed the lease.
		l.guard.set(time.Time{})
	}
	return err
}
