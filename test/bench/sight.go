// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// patience is how long something may take that comes by itself. It bounds a failure,
// and measures nothing.
const patience = 5 * time.Minute

// sight is what the bench sees by its own watches, with the time at which it arrived.
type sight struct {
	mu      sync.Mutex
	changed chan struct{} // Closed at the next change.
	err     error         // Why it sees no more.

	// By node.
	crs, leases map[string]time.Time // Since when it is there.
	listed      map[string]bool      // In status, and whether with a remediation.

	crGone, leaseGone, statusSeen time.Time // When the last of them arrived.
	observed, healthy             int
}

func newSight() *sight {
	return &sight{changed: make(chan struct{}), crs: map[string]time.Time{}, leases: map[string]time.Time{}, listed: map[string]bool{}}
}

// change applies a change, and wakes who waits.
func (s *sight) change(apply func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	apply()
	close(s.changed)
	s.changed = make(chan struct{})
}

// look reads while nothing changes.
func (s *sight) look(read func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read()
}

// await waits until something holds. holds must be quick: it is asked at each change.
func (s *sight) await(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it did not come"))
	defer cancel()
	for {
		s.mu.Lock()
		held, changed, err := holds(), s.changed, s.err
		state := fmt.Sprintf("%d CRs, %d leases, %d listed, %d of %d healthy", len(s.crs), len(s.leases), len(s.listed), s.healthy, s.observed)
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if held {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (%s)", what, context.Cause(ctx), state)
		}
	}
}

// clean tells whether no trace of a remediation of a node is left.
func (s *sight) clean(node string) bool {
	_, hasCR := s.crs[node]
	_, hasLease := s.leases[node]
	_, isListed := s.listed[node]
	return !hasCR && !hasLease && !isListed
}

// allClean tells that of all nodes.
func (s *sight) allClean() bool { return len(s.crs) == 0 && len(s.leases) == 0 && len(s.listed) == 0 }

func (s *sight) sawCR(event watch.Event) {
	at := time.Now()
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return
	}
	node := object.GetAnnotations()[v1alpha1.AnnotationNodeName]
	s.change(func() {
		switch event.Type {
		case watch.Added:
			s.crs[node] = at
		case watch.Deleted:
			delete(s.crs, node)
			s.crGone = at
		default:
		}
	})
}

func (s *sight) sawLease(event watch.Event) {
	at := time.Now()
	lease, ok := event.Object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	node, _ := object.NodeOfLease(lease)
	s.change(func() {
		switch event.Type {
		case watch.Added:
			s.leases[node] = at
		case watch.Deleted:
			delete(s.leases, node)
			s.leaseGone = at
		default:
		}
	})
}

func (s *sight) sawNHC(event watch.Event) {
	at := time.Now()
	nhc, ok := event.Object.(*v1alpha1.NodeHealthCheck)
	if !ok {
		return
	}
	listed := make(map[string]bool, len(nhc.Status.UnhealthyNodes))
	for i := range nhc.Status.UnhealthyNodes {
		listed[nhc.Status.UnhealthyNodes[i].Name] = len(nhc.Status.UnhealthyNodes[i].Remediations) > 0
	}
	s.change(func() {
		s.listed, s.statusSeen = listed, at
		s.observed, s.healthy = number(nhc.Status.ObservedNodes), number(nhc.Status.HealthyNodes)
	})
}

func number(n *int32) int {
	if n == nil {
		return -1
	}
	return int(*n)
}

// sawError ends all waiting: what was missed cannot be waited for.
func (s *sight) sawError(err error) {
	s.change(func() { s.err = errors.Join(s.err, err) })
}

// follow hands the events of a watch to see, one after the other, until ctx is done.
func (s *sight) follow(ctx context.Context, what string, watcher watch.Interface, see func(watch.Event)) {
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watcher.ResultChan():
			switch {
			case ctx.Err() != nil:
				return
			case !open:
				s.sawError(fmt.Errorf("the watch of %s has ended", what))
				return
			case event.Type == watch.Error:
				s.sawError(fmt.Errorf("the watch of %s has failed: %v", what, describe(event.Object)))
				return
			case event.Type != watch.Bookmark:
				see(event)
			}
		}
	}
}

func describe(object runtime.Object) string { return fmt.Sprintf("%T %v", object, object) }
