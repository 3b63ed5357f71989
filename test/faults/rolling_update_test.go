// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"flag"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

var previousRelease = flag.String("faults.previous", "", "the executable of an earlier release: TestRollingUpdate updates from it")

// TestRollingUpdate replaces the replicas of an earlier release by those of this one, one after the
// other, during remediations. The update is taken back, and made again. Each release goes on with what the
// other one has begun; the manifests and the rules are those of this one.
func TestRollingUpdate(t *testing.T) {
	if *previousRelease == "" {
		t.Skip("needs -faults.previous, as in make test-faults")
	}
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		r := &replicas{e: e, running: map[string]*replica{}}
		r.follow()
		e.executable = *previousRelease
		r.start()
		r.start()
		r.underLoad(func() {
			for range numberOf(1, 5) {
				for _, executable := range []string{"", *previousRelease, ""} {
					r.roll(executable)
				}
			}
		})
	})
}

// roll replaces all replicas by those of an executable as a Deployment does: one more is started, then
// one is stopped. The leader comes first: so the new replica and the old one may both lead next.
func (r *replicas) roll(executable string) {
	r.e.t.Helper()
	r.e.executable = executable
	leader := r.eventuallyLeader("")
	r.mu.Lock()
	old := maps.Clone(r.running)
	r.mu.Unlock()
	delete(old, leader.name)
	for _, replaced := range slices.Concat([]*replica{leader}, slices.Collect(maps.Values(old))) {
		r.start()
		time.Sleep(time.Second) // Let it fill its caches, and the leader work.
		r.e.referee.Fault("%s is replaced", replaced.name)
		r.terminate(replaced)
		r.eventuallyLeader(replaced.name)
	}
}

// terminate stops a replica as the kubelet stops a pod.
func (r *replicas) terminate(old *replica) {
	r.e.t.Helper()
	require.NoError(r.e.t, old.process.Signal(syscall.SIGTERM))
	ctx, cancel := context.WithTimeout(r.e.t.Context(), patience.Limit)
	defer cancel()
	code, err := old.process.Wait(ctx)
	require.NoError(r.e.t, err)
	require.Zero(r.e.t, code, old.process.LogTail())
	r.forget(old)
}
