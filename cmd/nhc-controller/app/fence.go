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

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errNotLeading is the error of a write that was not sent, or not to its end, and of
// what else breaks with its connection.
var errNotLeading = errors.New("the leader lease was not renewed in time, another process may be the leader")

// fence lets requests that write pass only while nobody else can be the leader.
// Leader election alone is no guarantee: a process that was frozen goes on where it
// was, and tries to renew for a while before it gives up. As it may be frozen at any
// point, the last look at the fence is the one of fencedConn, right before the bytes
// leave; all the others only spare useless work. What remains is to be frozen between
// that look and the system call, or while that waits for room, and what the kernel and
// the network deliver late. Its methods may be called from any goroutine.
type fence struct {
	// tenure is how long a renewal permits writing. It is shorter than the lease, so
	// that what was sent at its end arrives before another process leads.
	tenure time.Duration

	mu      sync.Mutex
	renewed time.Time
}

// set records that the lease was renewed by a request that began at this time.
func (f *fence) set(renewed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = renewed
}

// closes returns when the fence closes, unless the lease is renewed before. That is the
// zero time if the lease is not held.
func (f *fence) closes() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return time.Time{}
	}
	return f.renewed.Add(f.tenure)
}

func (f *fence) open() bool { return time.Now().Before(f.closes()) }

// wrap returns a transport that sends what writes by way of fenced, while the fence is
// open, and everything else by way of ordinary.
func (f *fence) wrap(ordinary, fenced http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if !writes(request) {
			return ordinary.RoundTrip(request)
		}
		if !f.open() {
			if request.Body != nil {
				_ = request.Body.Close() // A round tripper closes it in any case.
			}
			return nil, errNotLeading
		}
		return f.send(fenced, request)
	})
}

// writes tells whether a request may change something. A standby may ask for its
// permissions and check tokens.
func writes(request *http.Request) bool {
	return request.Method != http.MethodGet && request.Method != http.MethodHead &&
		!strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/") &&
		!strings.HasPrefix(request.URL.Path, "/apis/authentication.k8s.io/")
}

// fencedLock is a leader lease that moves a fence, and that nobody but its holder
// releases: the elector releases whatever it has read last, though that may be the lease
// of a successor, who would go on for a while when a third one takes it.
type fencedLock struct {
	resourcelock.Interface
	fence *fence

	mu sync.Mutex
	// holder is the one that was read or written last. An update is bound to the
	// resourceVersion of that.
	holder string
}

// errNotOurs is returned instead of a release of the lease of somebody else.
var errNotOurs = errors.New("the leader lease has another holder, who keeps it")

// Get implements [resourcelock.Interface].
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.setHolder(record.HolderIdentity)
	}
	return record, raw, err
}

func (l *fencedLock) setHolder(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = holder
}

// isOthers tells whether somebody else holds the lease.
func (l *fencedLock) isOthers() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder != "" && l.holder != l.Identity()
}

// Create implements [resourcelock.Interface].
func (l *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements [resourcelock.Interface].
func (l *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *fencedLock) write(record resourcelock.LeaderElectionRecord, send func() error) error {
	begin := time.Now()
	held := record.HolderIdentity == l.Identity()
	if !held {
		l.fence.set(time.Time{}) // Released, whether the answer arrives or not.
		if l.isOthers() {
			return errNotOurs
		}
	}
	err := send()
	if err == nil {
		l.setHolder(record.HolderIdentity)
		if held {
			l.fence.set(begin)
		}
	}
	return err
}
