// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/serving"
)

// viewing is what viewers need: the permission to list, in the whole cluster, each kind whose objects
// the dashboard lists. So the ClusterRole nhc-view is enough, and the dashboard does not show
// these objects to users who cannot read them with kubectl.
func viewing(snapshot *view.Snapshot) serving.Requirement {
	required := serving.Requirement{Name: "checks", Accesses: []authorizationv1.SubjectAccessReviewSpec{
		list(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)),
		list(nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural)),
		list(corev1.SchemeGroupVersion.WithResource("nodes")),
	}}
	if len(snapshot.MachineHealthChecks) > 0 { // nhc-view permits them where they are.
		required.Name = "checks and machines"
		required.Accesses = append(required.Accesses, list(machinev1beta1.SchemeGroupVersion.WithResource("machinehealthchecks")))
	}
	return required
}

func list(resource schema.GroupVersionResource) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "list", Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
	}}
}

// Limits for viewers.
const (
	// maxPages is how many pages are made at a time, which takes memory.
	maxPages = 10
	// maxStreams is how many pages may follow the cluster. Others do not follow it, and are complete.
	maxStreams = 500
	// pageTimeout is how long a page may take, with what is read for it.
	pageTimeout = 20 * time.Second
	// streamTimeout is how long a viewer may take to read what a stream sends. There is something
	// every 15 seconds.
	streamTimeout = 30 * time.Second
	// eventsPath is where the pages follow the cluster.
	eventsPath = "/events"
)

// turnstile lets only so many viewers in at a time, and lets streams last. A stream tells that
// something has changed, and nothing else: a viewer who has lost the permission gets no page any more.
type turnstile struct {
	pages          http.Handler
	making, stream chan struct{}
}

func newTurnstile(pages http.Handler) *turnstile {
	return &turnstile{pages: pages, making: make(chan struct{}, maxPages), stream: make(chan struct{}, maxStreams)}
}

// ServeHTTP implements [http.Handler].
func (t *turnstile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == eventsPath {
		t.serveEvents(w, r)
		return
	}
	// When the time to read is over, a request ends, even if all of it was read: clients without
	// permission have little time. An error means that there is no limit.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(pageTimeout))
	select {
	case t.making <- struct{}{}:
		defer func() { <-t.making }()
	case <-r.Context().Done():
		return
	}
	t.pages.ServeHTTP(w, r)
}

// serveEvents serves a stream, to which the time limits of other requests do not apply.
func (t *turnstile) serveEvents(w http.ResponseWriter, r *http.Request) {
	select {
	case t.stream <- struct{}{}:
		defer func() { <-t.stream }()
	default:
		http.Error(w, "too many pages follow the cluster, reload yours now and then", http.StatusServiceUnavailable)
		return
	}
	controller := http.NewResponseController(w)
	if err := controller.SetReadDeadline(time.Time{}); err != nil { // Else it ends when that of the request does.
		http.Error(w, "this server has no streams", http.StatusInternalServerError)
		return
	}
	t.pages.ServeHTTP(&streamWriter{ResponseWriter: w, controller: controller}, r)
}

// streamWriter gives each write its own time.
type streamWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
}

// Write implements [http.ResponseWriter].
func (s *streamWriter) Write(text []byte) (int, error) {
	if err := s.controller.SetWriteDeadline(time.Now().Add(streamTimeout)); err != nil {
		return 0, err
	}
	return s.ResponseWriter.Write(text)
}

// Unwrap is for [http.ResponseController].
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
