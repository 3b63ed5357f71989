// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync/atomic"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// maxWaitingEvents is how many events may wait to be written. With 5,000 nodes that fail
// at once there are 20,000. The reporter drops further events and logs that.
const maxWaitingEvents = 50_000

// The limits of the events, per second and at once. The events of a few nodes are written
// without delay. Thousands of nodes have six events each, which follow in the next
// minutes: they must not delay remediations at the API server.
const (
	eventQPS   = 50
	eventBurst = 100
)

// eventReporter hands events to a recorder at a limited rate. The recorder starts a
// goroutine for every event it is given, and drops events that come too fast.
type eventReporter struct {
	next    events.EventRecorder
	limiter flowcontrol.RateLimiter
	waiting chan func()
	dropped atomic.Int64
}

// newEventReporter returns a reporter whose rate is never more than that of all other
// requests.
func newEventReporter(options *Options) *eventReporter {
	return &eventReporter{
		limiter: flowcontrol.NewTokenBucketRateLimiter(min(options.QPS, eventQPS), max(1, min(options.Burst, eventBurst))),
		waiting: make(chan func(), maxWaitingEvents),
	}
}

// Eventf implements [events.EventRecorder]. It never blocks.
func (r *eventReporter) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.handOver(func() { r.next.Eventf(regarding, related, eventType, reason, action, note, args...) })
}

func (r *eventReporter) handOver(report func()) {
	select {
	case r.waiting <- report:
	default:
		r.dropped.Add(1)
	}
}

// silencingSink writes events, except those of controllers that must not write any more. It checks right before the
// request, because an event may have waited for a long time, or failed before.
type silencingSink struct {
	events.EventSink
	silenced func(controller string) bool
}

// Create implements [events.EventSink].
func (s *silencingSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if s.silenced(event.ReportingController) {
		return event, nil
	}
	return s.EventSink.Create(ctx, event)
}

// Patch implements [events.EventSink].
func (s *silencingSink) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	if s.silenced(event.ReportingController) {
		return event, nil
	}
	return s.EventSink.Patch(ctx, event, data)
}

// sharedReporter hands events to a recorder of its own, at the rate of a reporter that others use
// too.
type sharedReporter struct {
	*eventReporter
	next events.EventRecorder
}

// Eventf implements [events.EventRecorder]. It never blocks.
func (r *sharedReporter) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.handOver(func() { r.next.Eventf(regarding, related, eventType, reason, action, note, args...) })
}

// run hands the events on until ctx is done. Then it logs how many were still waiting.
func (r *eventReporter) run(ctx context.Context) {
	defer func() {
		if dropped := r.dropped.Swap(0) + int64(len(r.waiting)); dropped > 0 {
			klog.FromContext(ctx).Error(nil, "Dropped events: stopping before they were written", "dropped", dropped)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case report := <-r.waiting:
			if r.limiter.Wait(ctx) != nil {
				r.dropped.Add(1)
				return
			}
			report()
		}
		if dropped := r.dropped.Swap(0); dropped > 0 {
			klog.FromContext(ctx).Error(nil, "Dropped events: too many were waiting to be written", "dropped", dropped)
		}
	}
}
