// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// changes tells scenarios when one of their objects has changed, so that a test that
// waits need not ask the API server all the time. It watches the metadata of the
// NodeHealthChecks, nodes, CRs of the demo remediator, node leases and events. Its
// methods may be called from any goroutine.
type changes struct {
	mu      sync.Mutex
	waiters map[string]chan struct{} // By scenario. Closed at the next change.
}

// scenarioName is in the name or the namespace of every object of a scenario.
var scenarioName = regexp.MustCompile(`s-[0-9a-f]{8}`)

// watchChanges watches until ctx is done.
func watchChanges(ctx context.Context, config *rest.Config) (*changes, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a metadata client: %w", err)
	}
	c := &changes{waiters: map[string]chan struct{}{}}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: c.changed, UpdateFunc: func(_, object any) { c.changed(object) }, DeleteFunc: c.changed}
	for resource, namespace := range map[schema.GroupVersionResource]string{
		v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural):         metav1.NamespaceAll,
		corev1.SchemeGroupVersion.WithResource("nodes"):                   metav1.NamespaceAll,
		powerCycle.remediations:                                           metav1.NamespaceAll,
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}: nodeLeaseNamespace,
		{Group: "events.k8s.io", Version: "v1", Resource: "events"}:       metav1.NamespaceDefault,
	} {
		informer := metadatainformer.NewFilteredMetadataInformer(client, resource, namespace, 0, cache.Indexers{}, nil).Informer()
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
		go informer.RunWithContext(ctx)
	}
	return c, nil
}

func (c *changes) changed(object any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	name := scenarioName.FindString(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiter, ok := c.waiters[name]; ok {
		close(waiter)
		delete(c.waiters, name)
	}
}

// next returns a channel that is closed at the next change of an object of a scenario.
func (c *changes) next(scenario string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters[scenario] == nil {
		c.waiters[scenario] = make(chan struct{})
	}
	return c.waiters[scenario]
}
