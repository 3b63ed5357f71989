// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Subscription registers handlers of events.
type Subscription struct {
	options cache.HandlerOptions
	// Synced has a function for each handler. It reports whether the handler has got the first
	// list.
	Synced []cache.DoneChecker
	// Err says which handlers could not be registered.
	Err error
}

// NewSubscription returns a Subscription without handlers, which log where ctx says.
func NewSubscription(ctx context.Context) *Subscription {
	logger := klog.FromContext(ctx)
	return &Subscription{options: cache.HandlerOptions{Logger: &logger}}
}

// Subscribe has changed called with each object that is new (old is nil) or updated, and deleted with each that is gone.
func Subscribe[T cache.Object](s *Subscription, what string, informer cache.TypedSharedIndexInformer[T], changed func(old, current T), deleted func(cache.DeletedObject[T])) {
	var none T
	handler := cache.TypedResourceEventHandlerFuncs[T]{AddFunc: func(obj T) { changed(none, obj) }, UpdateFunc: changed, DeleteFunc: deleted}
	s.add(what)(informer.AddTypedEventHandler(handler, s.options))
}

// SubscribeCRDs has changed called with the name and the API group of each CustomResourceDefinition that is new, updated or gone.
func (s *Subscription) SubscribeCRDs(informer cache.SharedIndexInformer, changed func(name, group string)) {
	call := func(obj any) {
		if name, group, ok := groupOfCRD(obj); ok {
			changed(name, group)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: call, UpdateFunc: func(_, crd any) { call(crd) }, DeleteFunc: call}
	s.add("CustomResourceDefinitions")(informer.AddEventHandlerWithOptions(handler, s.options))
}

func (s *Subscription) add(what string) func(cache.ResourceEventHandlerRegistration, error) {
	return func(registration cache.ResourceEventHandlerRegistration, err error) {
		if err != nil {
			s.Err = errors.Join(s.Err, fmt.Errorf("watching %s: %w", what, err))
			return
		}
		s.Synced = append(s.Synced, registration.HasSyncedChecker())
	}
}

// groupOfCRD returns the name and the API group of the CustomResourceDefinition of an event. Its name is <plural>.<group>.
func groupOfCRD(obj any) (name, group string, ok bool) {
	object, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return "", "", false
	}
	_, group, ok = strings.Cut(object.Name, ".")
	return object.Name, group, ok
}
