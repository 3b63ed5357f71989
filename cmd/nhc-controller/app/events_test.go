// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
)

// stubRecorder is the recorder behind the pacing one.
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

func (r *stubRecorder) told() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.notes...)
}

// inPace runs a test with a recorder that may hand on ten events per second, two at
// once. It runs from when the test says so.
func inPace(t *testing.T, test func(r *pacedRecorder, behind *stubRecorder, start func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		behind := &stubRecorder{}
		r := newPacedRecorder(flowcontrol.NewTokenBucketRateLimiter(10, 2))
		r.next = behind
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		test(r, behind, func() { wg.Go(func() { r.run(ctx) }) })
	})
}

var nhcObject, nodeObject = &corev1.ObjectReference{Name: "nhc"}, &corev1.ObjectReference{Name: "node"}

func (r *pacedRecorder) tellOfNode(n int) {
	r.Eventf(nhcObject, nodeObject, corev1.EventTypeNormal, "Reason", "Action", "node %d", n)
}

func TestEventsKeepTheRate(t *testing.T) {
	inPace(t, func(r *pacedRecorder, behind *stubRecorder, start func()) {
		start()
		for i := range 12 {
			r.tellOfNode(i)
		}
		require.Equal(t, []string{"node 0", "node 1"}, behind.told(), "the burst")
		time.Sleep(500 * time.Millisecond)
		require.Len(t, behind.told(), 2+5, "ten per second")
		time.Sleep(time.Minute)
		require.Len(t, behind.told(), 12, "none is lost")
		require.Equal(t, "node 11", behind.told()[11], "in order")
	})
}

func TestEventsOfTheWholeOvertakeThoseOfNodes(t *testing.T) {
	inPace(t, func(r *pacedRecorder, behind *stubRecorder, start func()) {
		for i := range 3 {
			r.tellOfNode(i)
		}
		r.Eventf(nhcObject, nil, corev1.EventTypeWarning, "StormRecoveryStarted", "StartStorm", "storm")
		start()
		time.Sleep(time.Second)
		require.Equal(t, []string{"storm", "node 0", "node 1", "node 2"}, behind.told())
	})
}

func TestEventsOfNodesStandBackInACrowd(t *testing.T) {
	inPace(t, func(r *pacedRecorder, behind *stubRecorder, start func()) {
		var crowded atomic.Bool
		crowded.Store(true)
		r.crowded = crowded.Load
		for i := range 100 {
			r.tellOfNode(i)
			r.Eventf(nhcObject, nil, corev1.EventTypeNormal, "Enabled", "Enable", "whole")
		}
		start()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 100, len(behind.told()), 5, "those of the whole go on, ten per second")
		require.NotContains(t, behind.told()[:95], "node 0")
		time.Sleep(10 * time.Second)
		require.InDelta(t, 150, len(behind.told()), 5, "five per second")
		crowded.Store(false)
		time.Sleep(10 * time.Second)
		require.Len(t, behind.told(), 200, "ten per second again")
	})
}

func TestEventsSlowDownWhileTheyFail(t *testing.T) {
	inPace(t, func(r *pacedRecorder, behind *stubRecorder, start func()) {
		sink := watchedSink{EventSink: refusingSink{errors.New("connection refused")}, recorder: r}
		_, _ = sink.Create(t.Context(), nil)
		start()
		for i := range 200 {
			r.tellOfNode(i)
		}
		time.Sleep(5500 * time.Millisecond)
		require.Len(t, behind.told(), 5, "one per second")
		_, _ = watchedSink{EventSink: refusingSink{}, recorder: r}.Patch(t.Context(), nil, nil)
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, len(behind.told()), 5+90, "fast again once one was taken")
	})
}

func TestEventsSpeedUpAfterAFailureThatNobodyRepeats(t *testing.T) {
	inPace(t, func(r *pacedRecorder, behind *stubRecorder, start func()) {
		r.sent(errors.New("one that is not tried again"))
		start()
		time.Sleep(failureLasts)
		for i := range 20 {
			r.tellOfNode(i)
		}
		time.Sleep(2 * time.Second)
		require.Len(t, behind.told(), 20)
	})
}

func TestTooManyEventsAreDropped(t *testing.T) {
	inPace(t, func(r *pacedRecorder, behind *stubRecorder, start func()) {
		for i := range maxWaitingEvents + 7 {
			r.tellOfNode(i)
		}
		require.Equal(t, 7, r.dropped)
		start()
		require.Len(t, behind.told(), 2)
		require.Zero(t, r.dropped, "it was logged")
	})
}

// refusingSink answers every request with an error, or with none.
type refusingSink struct{ err error }

func (s refusingSink) Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, s.err
}

func (s refusingSink) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, s.err
}

func (s refusingSink) Patch(context.Context, *eventsv1.Event, []byte) (*eventsv1.Event, error) {
	return nil, s.err
}
