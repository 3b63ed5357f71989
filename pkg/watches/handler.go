// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"strings"

	"k8s.io/client-go/tools/cache"
)

// Handler returns a handler of the objects of one type. It calls changed with one that is new (old is nil), that has
// changed, unless no decision can tell the two apart, or that is gone (current is nil).
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

// GroupOfCRD returns the name and the API group of the CustomResourceDefinition of an event. Its name is <plural>.<group>.
func GroupOfCRD(obj any) (name, group string, ok bool) {
	object, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return "", "", false
	}
	_, group, ok = strings.Cut(object.Name, ".")
	return object.Name, group, ok
}
