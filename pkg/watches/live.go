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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// pageSize is how many objects are listed at once.
const pageSize = 500

// ListAll calls visit with all objects of a resource, as a live list has them. After an error, some may have been visited.
func ListAll(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, options metav1.ListOptions, visit func(*unstructured.Unstructured)) error {
	options.Limit = pageSize
	for {
		page, err := client.Resource(resource).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// ListLive calls visit with the objects of a kind, as a live list has them. It visits none, without an error, if the kind is
// not served or may not be listed.
func (s *Set[K]) ListLive(ctx context.Context, key K, options metav1.ListOptions, visit func(*unstructured.Unstructured)) error {
	mapping, err := s.Mapping(key)
	if mapping != nil { // Another permission that is missing does not matter here.
		err = ListAll(ctx, s.config.Client, mapping.Resource, options, visit)
	}
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
