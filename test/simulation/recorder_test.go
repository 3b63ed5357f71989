// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// recorder is the events.EventRecorder of one process: each event is an object at once. A
// process that has died records nothing.
type recorder struct {
	server *memapi.Server
	// controller is the name under which it reports.
	controller string
	client     *memapi.Client
	count      *atomic.Int64
}

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if r.client.Dead() {
		return
	}
	event := &eventsv1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		ObjectMeta:          metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("event-%d", r.count.Add(1))},
		ReportingController: r.controller,
		Type:                eventType, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...),
	}
	if reference, ok := regarding.(*corev1.ObjectReference); ok {
		event.Regarding = *reference
	}
	if reference, ok := related.(*corev1.ObjectReference); ok {
		event.Related = reference
	}
	_, _ = r.server.Create(controllerUser, events, from(event)) // Its name is new.
}
