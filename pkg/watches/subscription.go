// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"fmt"

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

// Subscribe calls changed with each object that is new (old is nil) or updated, and deleted with each that is gone.
func Subscribe[T cache.Object](s *Subscription, what string, informer cache.TypedSharedIndexInformer[T], changed func(old, current T), deleted func(cache.DeletedObject[T])) {
	var none T
	handler := cache.TypedResourceEventHandlerFuncs[T]{AddFunc: func(obj T) { changed(none, obj) }, UpdateFunc: changed, DeleteFunc: deleted}
	s.add(what)(informer.AddTypedEventHandler(handler, s.options))
}

// SubscribeCRDs calls changed with the name of each CustomResourceDefinition that is new, updated or gone.
func (s *Subscription) SubscribeCRDs(informer cache.SharedIndexInformer, changed func(name string)) {
	call := func(obj any) {
		if crd, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			changed(crd.Name)
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
