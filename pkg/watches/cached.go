// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import "k8s.io/client-go/tools/cache"

// Cached returns the object of a cache that has a key, nil if there is none.
func Cached[T any](store cache.Store, key string) T {
	obj, _, _ := store.GetByKey(key) // A cache in memory has no errors.
	found, _ := obj.(T)
	return found
}

// Indexed returns the objects of a cache under a value of an index that it has.
func Indexed[T any](indexer cache.Indexer, index, value string) []T {
	objects, _ := indexer.ByIndex(index, value) // The only error is that there is no such index.
	found := make([]T, 0, len(objects))
	for _, obj := range objects {
		found = append(found, obj.(T))
	}
	return found
}
