// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// stubRecorder is the recorder behind the reporter.
type stubRecorder struct {
	events.EventRecorder
	mu    sync.Mutex
	notes []string
}

func (r *stubRecorder) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(note, args...))
}

func (r *stubRecorder) reported() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.notes...)
}

// withReporter runs a test with a reporter that may hand on ten events per second, two at
// once. It runs from when the test calls start.
func withReporter(t *testing.T, next events.EventRecorder, test func(r *eventReporter, start func())) {
	t.Helper()
	r := newEventReporter(NewOptions())
	r.next, r.limiter = next, flowcontrol.NewTokenBucketRateLimiter(10, 2)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	test(r, func() { wg.Go(func() { r.run(ctx) }) })
}

func (r *eventReporter) recordOfNode(n int) {
	nhc, node := &corev1.ObjectReference{Name: "nhc"}, &corev1.ObjectReference{Name: "node"}
	r.Eventf(nhc, node, corev1.EventTypeNormal, "Reason", "Action", "node %d", n)
}

func TestEventsKeepTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		behind := &stubRecorder{}
		withReporter(t, behind, func(r *eventReporter, start func()) {
			start()
			for i := range 12 {
				r.recordOfNode(i)
			}
			require.Equal(t, []string{"node 0", "node 1"}, behind.reported(), "the burst")
			time.Sleep(500 * time.Millisecond)
			require.Len(t, behind.reported(), 2+5, "ten per second")
			time.Sleep(time.Minute)
			require.Len(t, behind.reported(), 12, "none is lost")
			require.Equal(t, "node 11", behind.reported()[11], "in order")
		})
	})
}

func TestTooManyEventsAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		behind := &stubRecorder{}
		withReporter(t, behind, func(r *eventReporter, start func()) {
			for i := range maxWaitingEvents + 7 {
				r.recordOfNode(i)
			}
			require.EqualValues(t, 7, r.dropped.Load())
			start()
			require.Len(t, behind.reported(), 2)
			require.Zero(t, r.dropped.Load(), "it was logged")
		})
	})
}

// TestDroppedAtShutdown: the log says how many events were not written when the process stopped (spec 19.3).
func TestDroppedAtShutdown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		events int
		want   string
	}{
		"more than the burst": {5, "dropped=3"},
		"none is left":        {2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				r := newEventReporter(NewOptions())
				r.next, r.limiter = &stubRecorder{}, flowcontrol.NewTokenBucketRateLimiter(10, 2)
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
				var wg sync.WaitGroup
				wg.Go(func() { r.run(ctx) })
				for i := range tc.events {
					r.recordOfNode(i)
				}
				synctest.Wait()
				cancel()
				wg.Wait()
				logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
				if tc.want == "" {
					require.Empty(t, logged)
					return
				}
				require.Contains(t, logged, "Dropped events: stopping before they were written")
				require.Contains(t, logged, tc.want)
			})
		})
	}
}

// countingSink counts the writes.
type countingSink struct {
	events.EventSink
	written int
}

func (s *countingSink) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s.written++
	return event, nil
}

func (s *countingSink) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s.written++
	return event, nil
}

// TestSilencedEvents: events of a controller that must not write any more are not written, also if they were
// recorded before, or a series of them continues (spec M4.2).
func TestSilencedEvents(t *testing.T) {
	t.Parallel()
	sink, silenced := &countingSink{}, false
	s := &silencingSink{EventSink: sink, silenced: func(controller string) bool { return silenced && controller == "machines" }}
	write := func(controller string) {
		t.Helper()
		event := &eventsv1.Event{ReportingController: controller}
		created, err := s.Create(t.Context(), event)
		require.NoError(t, err)
		require.Same(t, event, created)
		patched, err := s.Patch(t.Context(), event, nil)
		require.NoError(t, err)
		require.Same(t, event, patched)
	}
	write("machines")
	require.Equal(t, 2, sink.written)
	silenced = true
	write("machines")
	require.Equal(t, 2, sink.written)
	write("nodes")
	require.Equal(t, 4, sink.written)
}
