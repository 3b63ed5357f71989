// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// shortLease lets another replica take over soon. On a busy machine, a request takes seconds, and a leader that loses its
// lease by that loses events, too.
var shortLease = []string{"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=300ms"}

// workers is how many NodeHealthChecks a replica syncs at the same time.
const workers = 5

// TestLeaders runs replicas. The test kills the leader, freezes it until another replica leads, cuts
// it off, and cuts it off without its noticing. No write begins without a valid lease of its process.
// Beside the NodeHealthChecks there are MachineHealthChecks and budgets.
func TestLeaders(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		r := &replicas{e: e, running: map[string]*replica{}}
		r.follow()
		// Two as in the manifest, or three. With two, a leader that lost its lease by mistake
		// would get it again.
		for range 2 + seed%2 {
			r.start()
		}
		e.createMachines(4)
		r.underLoad(func() {
			for range numberOf(1, 5) {
				for _, fault := range []func(*replica){r.replaceLeader, r.freezeLeader, r.cutLeader, r.silenceLeader} {
					leader := r.eventuallyLeader("")
					time.Sleep(time.Second) // Let it work.
					fault(leader)
				}
			}
		})
		e.requireSeenMachines(2)
	})
}

// replicas are controllers. One of them leads.
type replicas struct {
	e *environment

	mu      sync.Mutex
	running map[string]*replica
	started int
	tenures []rules.Tenure
}

// replica is a controller with a way to the API server of its own, by which the audit
// log tells who it is.
type replica struct {
	name    string
	proxy   *Proxy
	process *localkube.Process
}

// underLoad lets the usual load work while something happens to the replicas. After that everything has to
// settle, and only leaders may have written.
func (r *replicas) underLoad(happen func()) {
	r.e.t.Helper()
	l := r.e.usualLoad()
	ctx, cancel := context.WithCancel(r.e.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx, time.Hour) })
	happen()
	cancel()
	wg.Wait()
	r.eventuallyLeader("")
	l.runUntilSeen(5)
	r.e.requireSettled()
	r.e.requireSeen(5, 3)
	r.requireOneWriter()
}

func (r *replicas) start() *replica {
	r.e.t.Helper()
	r.started++
	name := fmt.Sprintf("replica-%d-%d", r.e.seed, r.started)
	proxy := r.e.startProxy(name)
	added := &replica{name: name, proxy: proxy, process: r.e.start(name, proxy, append(shortLease, "--concurrent-syncs="+strconv.Itoa(workers))...)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[name] = added
	return added
}

// follow follows the leader lease until the end of the test.
func (r *replicas) follow() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.e.t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			lease, err := r.e.kube.CoordinationV1().Leases(deploy.Namespace).Get(ctx, deploy.LeaderLease, metav1.GetOptions{})
			if err == nil {
				r.observe(lease)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	r.e.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (r *replicas) observe(lease *coordinationv1.Lease) {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.tenures); n > 0 && r.tenures[n-1].Leader != holder && r.tenures[n-1].Lost.IsZero() {
		r.tenures[n-1].Lost = time.Now()
	}
	if holder == "" || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return
	}
	if n := len(r.tenures); n == 0 || !r.tenures[n-1].Lost.IsZero() {
		r.tenures = append(r.tenures, rules.Tenure{Leader: holder, Taken: acquired(lease)})
		r.e.referee.Remark("%s leads", holder)
		r.e.referee.Led()
	}
	last := &r.tenures[len(r.tenures)-1]
	last.Until = lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
}

// acquired returns when the holder of the leader lease says that it has acquired it, which
// is before it was written.
func acquired(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.AcquireTime == nil {
		return time.Now()
	}
	return lease.Spec.AcquireTime.Time
}

// eventuallyLeader waits until somebody leads that is running, but not this one.
func (r *replicas) eventuallyLeader(not string) *replica {
	r.e.t.Helper()
	var leader *replica
	patience.Eventually(r.e.t, "a leader other than "+not, func() bool {
		r.restartExited(not)
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.tenures); n > 0 && r.tenures[n-1].Lost.IsZero() && r.tenures[n-1].Leader != not {
			leader = r.running[r.tenures[n-1].Leader]
		}
		return leader != nil
	})
	return leader
}

// restartExited replaces the replicas that have exited, as the kubelet does, but not the one with the name not. On
// a busy machine a leader may not renew its lease in time.
func (r *replicas) restartExited(not string) {
	r.mu.Lock()
	running := maps.Clone(r.running)
	r.mu.Unlock()
	delete(running, not)
	for _, other := range running {
		select {
		case <-other.process.Exited():
			r.requireLost(other)
		default:
		}
	}
}

// forget forgets a replica that runs no more.
func (r *replicas) forget(old *replica) {
	r.mu.Lock()
	delete(r.running, old.name)
	r.mu.Unlock()
}

// unresponsive is what a process may do late that was frozen or cut off until another one
// leads: a request that it has decided on before.
var unresponsive = rules.Tolerance{Cache: 5 * time.Second, LiveRead: 5 * time.Second, Sync: 5 * time.Second}

func (r *replicas) killLeader(leader *replica) {
	r.e.referee.Fault("leader %s is killed", leader.name)
	require.NoError(r.e.t, leader.process.Kill())
	r.forget(leader)
}

// replaceLeader kills the leader, and starts another replica in its place.
func (r *replicas) replaceLeader(leader *replica) {
	r.killLeader(leader)
	r.start()
	r.eventuallyLeader(leader.name)
}

// freezeLeader stops the leader until another one leads, and lets it go on.
func (r *replicas) freezeLeader(leader *replica) {
	defer r.e.referee.BeginFaultOf(leader.name, "leader "+leader.name+" is frozen", unresponsive)()
	require.NoError(r.e.t, leader.process.Signal(syscall.SIGSTOP))
	defer func() { _ = leader.process.Signal(syscall.SIGCONT) }()
	r.eventuallyLeader(leader.name)
	r.e.referee.Remark("%s goes on", leader.name)
	require.NoError(r.e.t, leader.process.Signal(syscall.SIGCONT))
	r.requireLost(leader)
}

// cutLeader cuts the leader off until another one leads, and heals its connection.
func (r *replicas) cutLeader(leader *replica) {
	r.disconnectLeader(leader, "cut off", Disruption{Way: faultproxy.Closed})
}

// silenceLeader does the same by packets that vanish: no connection breaks.
func (r *replicas) silenceLeader(leader *replica) {
	r.disconnectLeader(leader, "silent", Disruption{Way: faultproxy.Silent})
}

func (r *replicas) disconnectLeader(leader *replica, how string, disruption Disruption) {
	defer r.e.referee.BeginFaultOf(leader.name, "leader "+leader.name+" is "+how, unresponsive)()
	leader.proxy.Set(disruption)
	r.eventuallyLeader(leader.name)
	r.e.referee.Remark("%s is connected again", leader.name)
	leader.proxy.Set(Disruption{})
	r.requireLost(leader)
}

// requireLost requires that a replica has noticed that it leads no more, and starts another one in its place.
func (r *replicas) requireLost(old *replica) {
	r.e.t.Helper()
	ctx, cancel := context.WithTimeout(r.e.t.Context(), patience.Limit)
	defer cancel()
	code, err := old.process.Wait(ctx)
	require.NoError(r.e.t, err, "22.6: it exits")
	require.Equal(r.e.t, 1, code, "22.6: %s", old.process.LogTail())
	r.forget(old)
	r.start()
}

// requireOneWriter requires that only the leader wrote.
func (r *replicas) requireOneWriter() {
	r.e.t.Helper()
	requests, err := r.e.referee.Requests()
	require.NoError(r.e.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	writers := map[string]bool{}
	writer := func(request rules.Request) string {
		name, _, _ := strings.Cut(request.UserAgent, "/")
		// Events only report actions from the time when it led.
		if request.Reads() || request.Group == "events.k8s.io" || (request.Resource == "leases" && request.Namespace == deploy.Namespace) {
			return ""
		}
		writers[name] = true
		return name
	}
	var tenures strings.Builder
	for _, t := range r.tenures {
		const clock = "15:04:05.000"
		fmt.Fprintf(&tenures, "\n%s led from %s until %s, lost it at %s", t.Leader, t.Taken.Format(clock), t.Until.Format(clock), t.Lost.Format(clock))
	}
	require.Empty(r.e.t, rules.LateWrites(requests, r.tenures, workers, writer), "22.5: writes after the end of the lease%s", &tenures)
	require.GreaterOrEqual(r.e.t, len(writers), 3, "each of them has written")
}
