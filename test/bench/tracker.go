// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// waitTimeout is how long something may take that comes by itself. It bounds a failure,
// and measures nothing.
const waitTimeout = 15 * time.Minute

// tracker is what the bench sees by its own watches, with the time at which it arrived.
type tracker struct {
	mu      sync.Mutex
	changed chan struct{} // Closed at the next change.
	err     error         // Why it sees no more.

	// By node.
	crs, leases map[string]time.Time // Since when it is there.
	listed      map[string]bool      // In status, and whether with a remediation.

	crGone, leaseGone, statusSeen time.Time // When the last of them arrived.
	observed, healthy             int
}

func newTracker() *tracker {
	return &tracker{changed: make(chan struct{}), crs: map[string]time.Time{}, leases: map[string]time.Time{}, listed: map[string]bool{}}
}

// update applies a change, and wakes those that wait.
func (t *tracker) update(apply func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	apply()
	close(t.changed)
	t.changed = make(chan struct{})
}

// read reads while nothing changes.
func (t *tracker) read(read func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	read()
}

// waitFor waits until something holds. holds must be quick: it is asked at each change.
func (t *tracker) waitFor(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, errors.New("it did not come"))
	defer cancel()
	for {
		t.mu.Lock()
		held, changed, err := holds(), t.changed, t.err
		state := fmt.Sprintf("%d CRs, %d leases, %d listed, %d of %d healthy", len(t.crs), len(t.leases), len(t.listed), t.healthy, t.observed)
		t.mu.Unlock()
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

// clean reports whether no trace of a remediation of a node is left.
func (t *tracker) clean(node string) bool {
	_, hasCR := t.crs[node]
	_, hasLease := t.leases[node]
	_, isListed := t.listed[node]
	return !hasCR && !hasLease && !isListed
}

// allClean reports whether that holds for all nodes.
func (t *tracker) allClean() bool { return len(t.crs) == 0 && len(t.leases) == 0 && len(t.listed) == 0 }

func (t *tracker) onCR(event watch.Event) {
	at := time.Now()
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return
	}
	node := object.GetAnnotations()[v1alpha1.AnnotationNodeName]
	t.note(event, node, at, t.crs, &t.crGone)
}

// note records when the object of a node came, or when the last one has gone.
func (t *tracker) note(event watch.Event, node string, at time.Time, came map[string]time.Time, gone *time.Time) {
	t.update(func() {
		switch event.Type {
		case watch.Added:
			came[node] = at
		case watch.Deleted:
			delete(came, node)
			*gone = at
		default:
		}
	})
}

func (t *tracker) onLease(event watch.Event) {
	at := time.Now()
	lease, ok := event.Object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	node, _ := object.NodeOfLease(lease)
	t.note(event, node, at, t.leases, &t.leaseGone)
}

func (t *tracker) onNHC(event watch.Event) {
	at := time.Now()
	nhc, ok := event.Object.(*v1alpha1.NodeHealthCheck)
	if !ok || nhc.Name != nhcName {
		return
	}
	listed := make(map[string]bool, len(nhc.Status.UnhealthyNodes))
	for i := range nhc.Status.UnhealthyNodes {
		listed[nhc.Status.UnhealthyNodes[i].Name] = len(nhc.Status.UnhealthyNodes[i].Remediations) > 0
	}
	t.update(func() {
		t.listed, t.statusSeen = listed, at
		t.observed, t.healthy = number(nhc.Status.ObservedNodes), number(nhc.Status.HealthyNodes)
	})
}

func number(n *int32) int {
	if n == nil {
		return -1
	}
	return int(*n)
}

// fail ends all waiting: what was missed cannot be waited for.
func (t *tracker) fail(err error) {
	t.update(func() { t.err = errors.Join(t.err, err) })
}

// follow hands the events of a watch to see, one after the other, until ctx is done.
func (t *tracker) follow(ctx context.Context, what string, watcher watch.Interface, see func(watch.Event)) {
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
				t.fail(fmt.Errorf("the watch of %s has ended", what))
				return
			case event.Type == watch.Error:
				t.fail(fmt.Errorf("the watch of %s has failed: %v", what, describe(event.Object)))
				return
			case event.Type != watch.Bookmark:
				see(event)
			}
		}
	}
}

func describe(object runtime.Object) string { return fmt.Sprintf("%T %v", object, object) }
