// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync/atomic"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// maxWaitingEvents is how many events may wait to be written. The recorder has a goroutine for each.
const maxWaitingEvents = 10_000

// The limits of the events, per second and at once. The events of a few nodes are written
// without delay. Thousands of nodes have six events each, which follow in the next
// minutes: they must not delay remediations at the API server.
const (
	eventQPS   = 50
	eventBurst = 100
)

// eventSink writes events at a limited rate. It drops those that are too many, and those of controllers that must not
// write any more. The recorder calls it beside the syncs, so it keeps none of them waiting.
type eventSink struct {
	events.EventSink
	limiter  flowcontrol.RateLimiter
	waiting  atomic.Int64
	silenced func(controller string) bool
}

// newEventSink returns a sink whose rate is never more than that of all other requests.
func newEventSink(options *Options, next events.EventSink, silenced func(controller string) bool) *eventSink {
	limiter := flowcontrol.NewTokenBucketRateLimiter(min(options.QPS, eventQPS), max(1, min(options.Burst, eventBurst)))
	return &eventSink{EventSink: next, limiter: limiter, silenced: silenced}
}

// Create implements [events.EventSink].
func (s *eventSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if !s.admit(ctx, event) {
		return event, nil
	}
	return s.EventSink.Create(ctx, event)
}

// Patch implements [events.EventSink].
func (s *eventSink) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	if !s.admit(ctx, event) {
		return event, nil
	}
	return s.EventSink.Patch(ctx, event, data)
}

// admit waits until the rate permits an event, and reports whether to write it. Its controller may have become
// silent meanwhile.
func (s *eventSink) admit(ctx context.Context, event *eventsv1.Event) bool {
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxWaitingEvents || s.limiter.Wait(ctx) != nil {
		klog.FromContext(ctx).V(2).Info("Dropped an event", "reason", event.Reason, "object", event.Regarding.Name)
		return false
	}
	return !s.silenced(event.ReportingController)
}
