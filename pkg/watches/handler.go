// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"k8s.io/client-go/tools/cache"
)

// Handler returns a handler of the objects of one type. It calls changed with each object that is new (old is nil),
// that has changed in a way that matters to a decision, or that is gone (current is nil).
func Handler[T interface {
	comparable
	SameAs(other T) bool
}](changed func(old, current T)) cache.ResourceEventHandler {
	var none T
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(none, obj.(T)) },
		UpdateFunc: func(before, obj any) {
			if old, current := before.(T), obj.(T); !current.SameAs(old) {
				changed(old, current)
			}
		},
		DeleteFunc: func(obj any) {
			if old, ok := LastKnown(obj).(T); ok {
				changed(old, none)
			}
		},
	}
}

// LastKnown returns the object of a deletion event, which may be older than the deletion.
func LastKnown(obj any) any {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return obj
}
