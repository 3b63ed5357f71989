// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
)

// countingSink counts the writes.
type countingSink struct {
	events.EventSink
	mu      sync.Mutex
	written int
}

func (s *countingSink) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written++
	return event, nil
}

func (s *countingSink) Patch(ctx context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return s.Create(ctx, event)
}

func (s *countingSink) count() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

func nobodySilent(string) bool { return false }

// TestEventsKeepTheRate: events of a storm are written at a limited rate, and what is too much is dropped (spec 19.3).
func TestEventsKeepTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &countingSink{}
		s := newEventSink(NewOptions(), sink, nobodySilent)
		write := func() { _, _ = s.Create(t.Context(), &eventsv1.Event{}) }
		for range eventBurst {
			write()
		}
		require.Equal(t, eventBurst, sink.count())
		for range maxWaitingEvents + 500 {
			go write()
		}
		require.Equal(t, eventBurst, sink.count())
		time.Sleep(time.Second)
		require.Equal(t, eventBurst+eventQPS, sink.count())
		time.Sleep(time.Hour)
		require.Equal(t, eventBurst+maxWaitingEvents, sink.count())
		go write()
		require.Equal(t, eventBurst+maxWaitingEvents+1, sink.count(), "there is room again")
	})
}

// TestEventsEndWithTheProcess: none is written after the end (spec 19.3).
func TestEventsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &countingSink{}
		s := newEventSink(NewOptions(), sink, nobodySilent)
		ctx, cancel := context.WithCancel(t.Context())
		for range eventBurst + 1 {
			go func() { _, _ = s.Create(ctx, &eventsv1.Event{}) }()
		}
		require.Equal(t, eventBurst, sink.count())
		cancel()
		require.Equal(t, eventBurst, sink.count())
	})
}

// TestSilencedEvents: events of a controller that must not write any more are not written, also if they were
// recorded before, or a series of them continues (spec M4.2).
func TestSilencedEvents(t *testing.T) {
	t.Parallel()
	sink, silenced := &countingSink{}, false
	s := newEventSink(NewOptions(), sink, func(controller string) bool { return silenced && controller == "machines" })
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
