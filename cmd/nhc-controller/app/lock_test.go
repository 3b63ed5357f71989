// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// leaseServer stores one leader lease. Like an API server, it refuses an update if the
// lease has changed since it was read.
type leaseServer struct {
	mu      sync.Mutex
	version int
	record  *resourcelock.LeaderElectionRecord
}

func (s *leaseServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record == nil {
		return ""
	}
	return s.record.HolderIdentity
}

// leaseLock is one candidate's view of the lease. Its connection may be cut.
type leaseLock struct {
	*leaseServer
	identity string
	read     int

	cutMu sync.Mutex
	cut   bool
}

func (l *leaseLock) cutOff(cut bool) {
	l.cutMu.Lock()
	defer l.cutMu.Unlock()
	l.cut = cut
}

// reach waits for ctx if the connection is cut: requests get no answer.
func (l *leaseLock) reach(ctx context.Context) error {
	l.cutMu.Lock()
	cut := l.cut
	l.cutMu.Unlock()
	if cut {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (l *leaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.reach(ctx); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(leases, "lease")
	}
	l.read = l.version
	record := *l.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (l *leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.reach(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record != nil {
		return apierrors.NewAlreadyExists(leases, "lease")
	}
	return l.store(record)
}

func (l *leaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.reach(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version != l.read {
		return apierrors.NewConflict(leases, "lease", nil)
	}
	return l.store(record)
}

func (l *leaseLock) store(record resourcelock.LeaderElectionRecord) error {
	l.version++
	l.read = l.version
	l.record = &record
	return nil
}

func (l *leaseLock) RecordEvent(string) {}
func (l *leaseLock) Identity() string   { return l.identity }
func (l *leaseLock) Describe() string   { return "nhc-system/nhc-controller" }
