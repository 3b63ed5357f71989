// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
)

// slowClient delays lists. A reactor cannot: the fake answers one request at a
// time.
type slowClient struct {
	*dynamicfake.FakeDynamicClient
	fakeCluster *fakeCluster
}

func (c slowClient) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return slowResource{NamespaceableResourceInterface: c.FakeDynamicClient.Resource(resource), fakeCluster: c.fakeCluster}
}

type slowResource struct {
	dynamic.NamespaceableResourceInterface
	fakeCluster *fakeCluster
}

func (r slowResource) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	defer counted(&r.fakeCluster.listing)()
	r.fakeCluster.mu.Lock()
	r.fakeCluster.listedAt = append(r.fakeCluster.listedAt, options.ResourceVersion)
	r.fakeCluster.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(r.fakeCluster.delay.Load())):
	}
	return r.NamespaceableResourceInterface.List(ctx, options)
}

func (r slowResource) Namespace(namespace string) dynamic.ResourceInterface {
	if namespace != metav1.NamespaceAll {
		return r.NamespaceableResourceInterface.Namespace(namespace)
	}
	return r
}
