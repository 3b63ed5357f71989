// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/cache"
)

// timeline prints what happens, with the time since its beginning. Its lock guards
// what plays have seen.
type timeline struct {
	start time.Time
	mu    sync.Mutex
}

func newTimeline() *timeline { return &timeline{start: time.Now()} }

// say prints one line.
func (t *timeline) say(who, what string) {
	fmt.Printf("%7.1fs  %-18s %s\n", time.Since(t.start).Seconds(), who, what)
}

// seen asks under the lock.
func (t *timeline) seen(ask func() bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return ask()
}

// watch watches until ctx is done.
func (t *timeline) watch(ctx context.Context, watches []watch) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, w := range watches {
		see := func(object any, deleted bool) {
			t.mu.Lock()
			defer t.mu.Unlock()
			w.see(object, deleted)
		}
		_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { see(object, false) },
			UpdateFunc: func(_, object any) { see(object, false) },
			DeleteFunc: func(object any) {
				if _, unknown := object.(cache.DeletedFinalStateUnknown); !unknown {
					see(object, true)
				}
			},
		})
		if err != nil {
			t.say("demo", "cannot watch: "+err.Error())
			return
		}
		wg.Go(func() { w.informer.RunWithContext(ctx) })
	}
}

// sayEvent prints an event.
func (t *timeline) sayEvent(event *eventsv1.Event) {
	t.say("event", fmt.Sprintf("%s %s: %s", event.Type, event.Reason, strings.TrimSpace(event.Note)))
}
