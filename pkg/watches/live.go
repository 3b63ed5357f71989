// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
)

// ListAll calls visit with all objects of a resource, as a live list has them. After an error, some may have been visited.
func ListAll(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, visit func(*unstructured.Unstructured)) error {
	pages := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(resource).List(ctx, options)
	}
	err := pager.New(pages).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		visit(item.(*unstructured.Unstructured))
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	return nil
}

// ListLive calls visit with the objects of a kind, as a live list has them. It visits none, without an error, if the kind is
// not served or may not be listed.
func (s *Set[K]) ListLive(ctx context.Context, key K, visit func(*unstructured.Unstructured)) error {
	mapping, err := s.Mapping(key)
	if mapping != nil { // Another permission that is missing does not matter here.
		err = ListAll(ctx, s.config.Client, mapping.Resource, visit)
	}
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
