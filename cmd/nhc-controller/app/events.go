// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// maxWaitingEvents is how many events may wait to be written. With 5,000 nodes that
// fail at once there are 20,000. What exceeds it is dropped, and that is logged.
const maxWaitingEvents = 50_000

// The limits of the events, per second and at once. The events of some nodes are
// written without delay. Those of thousands, six for each, follow in the minutes after:
// nothing that matters may wait behind them, at the API server neither.
const (
	eventQPS   = 50
	eventBurst = 100
)

// newEventLimiter returns the limit of the events, which is never more than that of
// everything else.
func newEventLimiter(options *Options) flowcontrol.RateLimiter {
	return flowcontrol.NewTokenBucketRateLimiter(min(options.QPS, eventQPS), max(1, min(options.Burst, eventBurst)))
}

// pacedRecorder hands events to a recorder one after the other, at a limited rate, and
// at a slow one while the API server takes none. The recorder behind it starts a
// goroutine for every event it is given, and drops events that come too fast.
//
// Events about a NodeHealthCheck alone overtake those about its nodes: of these there
// are several for each node, and when thousands fail at once, that remediation has
// been stopped must not be told minutes later.
type pacedRecorder struct {
	next    events.EventRecorder
	limiter flowcontrol.RateLimiter
	// crowded tells whether there is something more important to write, nil for never.
	crowded func() bool
	// failedAt is when the API server refused an event or did not answer, in nanoseconds
	// since 1970, and zero once it has taken one.
	failedAt atomic.Int64
	wake     chan struct{}

	mu            sync.Mutex
	first, second []recordedEvent
	dropped       int
}

type recordedEvent struct {
	regarding, related              runtime.Object
	eventType, reason, action, note string
	args                            []any
}

func newPacedRecorder(limiter flowcontrol.RateLimiter) *pacedRecorder {
	return &pacedRecorder{limiter: limiter, wake: make(chan struct{}, 1)}
}

// Eventf keeps an event until it is its turn. It never blocks.
func (r *pacedRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.first)+len(r.second) >= maxWaitingEvents {
		r.dropped++
		return
	}
	event := recordedEvent{regarding: regarding, related: related, eventType: eventType, reason: reason, action: action, note: note, args: args}
	if related == nil {
		r.first = append(r.first, event)
	} else {
		r.second = append(r.second, event)
	}
	select {
	case r.wake <- struct{}{}:
	default: // Somebody has woken it already.
	}
}

// run hands the events on until ctx is done.
func (r *pacedRecorder) run(ctx context.Context) {
	for {
		event, ok := r.pop(ctx)
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
			}
			continue
		}
		if r.pace(ctx, event.related == nil) != nil {
			return
		}
		r.next.Eventf(event.regarding, event.related, event.eventType, event.reason, event.action, event.note, event.args...)
	}
}

// pop returns the event whose turn it is, and false if none waits.
func (r *pacedRecorder) pop(ctx context.Context) (recordedEvent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped > 0 {
		klog.FromContext(ctx).Error(nil, "Dropped events: too many were waiting to be written", "dropped", r.dropped)
		r.dropped = 0
	}
	for _, queue := range []*[]recordedEvent{&r.first, &r.second} {
		if len(*queue) == 0 {
			continue
		}
		event := (*queue)[0]
		(*queue)[0] = recordedEvent{} // What was written need not stay in memory.
		*queue = (*queue)[1:]
		return event, true
	}
	return recordedEvent{}, false
}

// While events fail, one per probeInterval is tried. An event that has failed is tried
// again by its goroutine for about two minutes, so that these stay few.
const (
	probeInterval = time.Second
	failureLasts  = 15 * time.Second
)

// crowdedInterval is the time between two events about nodes while nodes wait to be
// acted on.
const crowdedInterval = 200 * time.Millisecond

// pace waits until an event may be handed on.
func (r *pacedRecorder) pace(ctx context.Context, first bool) error {
	pause := time.Duration(0)
	if !first && r.crowded != nil && r.crowded() {
		pause = crowdedInterval
	}
	if failed := r.failedAt.Load(); failed != 0 && time.Since(time.Unix(0, failed)) < failureLasts {
		pause = probeInterval
	}
	if pause > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return r.limiter.Wait(ctx)
}

// watchedSink tells the recorder whether the API server takes events.
type watchedSink struct {
	events.EventSink
	recorder *pacedRecorder
}

func (s watchedSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	written, err := s.EventSink.Create(ctx, event)
	s.recorder.sent(err)
	return written, err
}

func (s watchedSink) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	written, err := s.EventSink.Patch(ctx, event, data)
	s.recorder.sent(err)
	return written, err
}

func (r *pacedRecorder) sent(err error) {
	if err == nil {
		r.failedAt.Store(0)
		return
	}
	r.failedAt.Store(time.Now().UnixNano())
}
