// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// reported is one event.
type reported struct {
	at time.Time
	// regarding and related are kind and name.
	regarding, related      string
	eventType, reason, note string
}

// recorder is the events.EventRecorder of one process. A process that has died records
// nothing.
type recorder struct {
	log    *eventLog
	client *memapi.Client
}

// eventLog has the events of all processes.
type eventLog struct {
	mu     sync.Mutex
	events []reported
}

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(regarding, related runtime.Object, eventType, reason, _, note string, args ...any) {
	if r.client.Dead() {
		return
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.events = append(r.log.events, reported{
		at: time.Now(), regarding: nameOfObject(regarding), related: nameOfObject(related), eventType: eventType, reason: reason, note: fmt.Sprintf(note, args...),
	})
}

// since returns the events from an index on.
func (l *eventLog) since(from int) []reported {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events[from:])
}

func nameOfObject(object runtime.Object) string {
	if object == nil {
		return ""
	}
	if reference, ok := object.(*corev1.ObjectReference); ok {
		return reference.Kind + "/" + reference.Name
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err.Error()
	}
	return object.GetObjectKind().GroupVersionKind().Kind + "/" + accessor.GetName()
}
