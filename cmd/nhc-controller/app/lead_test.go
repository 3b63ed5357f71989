// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	// The default handlers slow down repeated errors by a clock that all tests
	// share; in a bubble, where time starts anew, that would be for decades.
	utilruntime.ErrorHandlers = nil //nolint:reassign // before any test
	// What runs ends all that it has begun when its context ends. What a failed start leaves behind
	// ends with the process.
	// A server that hangs up on a client sleeps for half a second.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*Typed[...]).updateUnfinishedWorkLoop"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// candidate is a process that wants to lead.
type candidate struct {
	lock     *leaseLock
	guard    *leaderGuard
	watchdog *leaderelection.HealthzAdaptor
	stop     context.CancelFunc
	// err is what lead returned, after done is closed.
	err  error
	done chan struct{}

	mu             sync.Mutex
	working        bool
	started, ended time.Time
}

// cluster is some candidates for one lease.
type cluster struct {
	*leaseServer
	candidates []*candidate
}

// inCluster runs a test in a bubble, and stops the candidates when it is over.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{leaseServer: &leaseServer{}}
		defer func() {
			for _, candidate := range c.candidates {
				candidate.stop()
				<-candidate.done
			}
		}()
		test(t, c)
	})
}

// start makes a candidate want to lead. run is its work: it breaks off when held ends,
// and comes to an end when drain is closed.
func (cl *cluster) start(t *testing.T, name string, run func(held context.Context, drain <-chan struct{}) error) *candidate {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	c := &candidate{
		lock: &leaseLock{leaseServer: cl.leaseServer, identity: name}, guard: &leaderGuard{validity: NewOptions().LeaderElection.RenewDeadline.Duration}, watchdog: leaderelection.NewLeaderHealthzAdaptor(20 * time.Second),
		stop: cancel, done: make(chan struct{}),
	}
	cl.candidates = append(cl.candidates, c)
	go func() {
		defer close(c.done)
		c.err = lead(ctx, &guardedLock{Interface: c.lock, guard: c.guard}, &NewOptions().LeaderElection, c.watchdog, func(held context.Context) error {
			c.note(true)
			defer c.note(false)
			return run(held, ctx.Done())
		})
	}()
	synctest.Wait()
	return c
}

func (c *candidate) note(working bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = working
	if working {
		c.started = time.Now()
	} else {
		c.ended = time.Now()
	}
}

func (c *candidate) isWorking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.working
}

// mayWrite reports whether the candidate works and its writes pass.
func (c *candidate) mayWrite() bool { return c.isWorking() && c.guard.valid() }

func (c *candidate) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// work is work that ends at once.
func work(held context.Context, drain <-chan struct{}) error {
	select {
	case <-held.Done():
	case <-drain:
	}
	return nil
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLeadReleasesAfterTheWork(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		leader := c.start(t, "a", func(held context.Context, drain <-chan struct{}) error {
			<-drain
			time.Sleep(40 * time.Second) // What is under way takes longer than the lease lasts.
			return held.Err()
		})
		require.True(t, leader.isWorking())
		require.Equal(t, "a", c.holder())
		leader.stop()
		pass(39 * time.Second)
		require.Equal(t, "a", c.holder(), "22.6: running syncs finish, then the lease is released")
		require.False(t, leader.isDone())
		pass(time.Second)
		require.True(t, leader.isDone())
		require.NoError(t, leader.err, "22.6: exit 0; and the lease was held to the end")
		require.Empty(t, c.holder(), "22.6: released")
	})
}

func TestLeadReturnsTheErrorOfTheWork(t *testing.T) {
	broken := errors.New("broken")
	inCluster(t, func(t *testing.T, c *cluster) {
		leader := c.start(t, "a", func(context.Context, <-chan struct{}) error { return broken })
		pass(time.Second)
		require.True(t, leader.isDone())
		require.ErrorIs(t, leader.err, broken)
		require.Empty(t, c.holder(), "released")
	})
}

func TestLeadCandidateThatNeverLeads(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		leader := c.start(t, "a", work)
		standby := c.start(t, "b", work)
		pass(time.Hour)
		require.False(t, standby.isWorking(), "22.5: a standby writes nothing")
		standby.stop()
		pass(0)
		require.True(t, standby.isDone(), "at once")
		require.NoError(t, standby.err, "22.6")
		require.True(t, standby.started.IsZero())
		require.True(t, leader.isWorking())
		require.Equal(t, "a", c.holder(), "the lease of the leader is not touched")
	})
}

func TestLeadCandidateThatCannotReachTheServer(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.record = &resourcelock.LeaderElectionRecord{HolderIdentity: "somebody", LeaseDurationSeconds: 15}
		cut := c.start(t, "a", work)
		cut.lock.cutOff(true)
		pass(time.Hour)
		cut.stop()
		pass(11 * time.Second)
		require.True(t, cut.isDone())
		require.NoError(t, cut.err)
	})
}

func TestLeadStandbyTakesOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		leader := c.start(t, "a", work)
		standby := c.start(t, "b", work)
		pass(time.Minute)
		leader.stop()
		pass(5 * time.Second)
		require.True(t, leader.isDone())
		require.True(t, standby.isWorking(), "P8: within two retry periods of the release")
		require.Equal(t, "b", c.holder())
		require.False(t, standby.started.Before(leader.ended), "P9: never two at a time")
	})
}

// TestLeadLosesLease: the leader is cut off from the API server for good or for a
// while.
func TestLeadLosesLease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		leader := c.start(t, "a", work)
		pass(time.Minute)
		leader.lock.cutOff(true)
		pass(time.Minute)
		require.False(t, leader.isWorking(), "the context of the work ends")
		require.True(t, leader.isDone())
		require.ErrorIs(t, leader.err, errLeaseLost, "22.6: exit 1")
		require.ErrorContains(t, leader.err, "nhc-system/nhc-controller")
	})
}

// TestLeadNeverTwo: the leader is cut off, and no process tells it. Its writes
// have to end before the lease runs out, because then the standby begins.
func TestLeadNeverTwo(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		leader := c.start(t, "a", work)
		standby := c.start(t, "b", work)
		for range 600 {
			pass(100 * time.Millisecond)
			require.True(t, leader.mayWrite(), "a leader that renews its lease is never held up")
		}
		leader.lock.cutOff(true)
		for range 600 {
			pass(100 * time.Millisecond)
			require.False(t, leader.mayWrite() && standby.mayWrite(), "P9 22.6: never two at a time")
		}
		require.True(t, standby.mayWrite(), "P8")
		require.True(t, leader.isDone())
	})
}

// TestLeadWatchdog: a leader that does not end although it has lost the lease is
// not alive any more.
func TestLeadWatchdog(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		release := make(chan struct{})
		defer close(release)
		leader := c.start(t, "a", func(context.Context, <-chan struct{}) error { <-release; return nil })
		alive := func() int { return probe(&process{}, leader.watchdog, "/livez") }
		pass(time.Hour)
		require.Equal(t, http.StatusOK, alive())
		leader.lock.cutOff(true)
		pass(20 * time.Second)
		require.Equal(t, http.StatusOK, alive())
		pass(30 * time.Second)
		require.Equal(t, http.StatusInternalServerError, alive(), "22.5: the leader lease cannot be renewed in time")
	})
}
