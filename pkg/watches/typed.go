// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// The names of the caches of typed informers. A cache of a Set has the name of the Set and the
// resource.
const (
	NodeCache               = "nodes"
	LeaseCache              = "leases"
	OtherLeaderCache        = "other-leaders"
	CRDCache                = "customresourcedefinitions"
	NodeHealthCheckCache    = "nodehealthchecks"
	MachineHealthCheckCache = "machinehealthchecks"
)

// Nodes returns an informer of Nodes, not started.
func (f *Freshness) Nodes(kube kubernetes.Interface, transform cache.TransformFunc) coreinformers.TypedNodeInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(transform))
	factory.InformerFor(&corev1.Node{}, func(kube kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return NewInformer(f, NodeCache, kube, kube.CoreV1().Nodes(), &corev1.Node{}, "")
	})
	return factory.Core().V1().Nodes()
}

// Leases returns an informer of the Leases of a namespace, not started.
func (f *Freshness) Leases(kube kubernetes.Interface, namespace string, transform cache.TransformFunc) coordinationinformers.TypedLeaseInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(transform))
	factory.InformerFor(&coordinationv1.Lease{}, func(kube kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return NewInformer(f, LeaseCache, kube, kube.CoordinationV1().Leases(namespace), &coordinationv1.Lease{}, "")
	})
	return factory.Coordination().V1().Leases()
}

// LeasesNamed returns an informer of the Leases of a name in all namespaces, not started.
func (f *Freshness) LeasesNamed(kube kubernetes.Interface, name string) cache.SharedIndexInformer {
	return NewInformer(f, OtherLeaderCache, kube, kube.CoordinationV1().Leases(metav1.NamespaceAll), &coordinationv1.Lease{}, name)
}

// crdResource is that of the CustomResourceDefinitions.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// CRDs returns an informer of the metadata of CustomResourceDefinitions, not started.
func (f *Freshness) CRDs(client metadata.Interface) cache.SharedIndexInformer {
	return NewInformer(f, CRDCache, client, client.Resource(crdResource), &metav1.PartialObjectMetadata{}, "")
}

// resourceClient is what lists and watches a resource.
type resourceClient[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer, not started, whose requests are followed. An empty name is that of all objects.
func NewInformer[L runtime.Object](f *Freshness, cacheName string, client any, resource resourceClient[L], object runtime.Object, name string) cache.SharedIndexInformer {
	c := &connection{failed: func(error, bool) {}, changed: func() {}}
	return cache.NewSharedIndexInformerWithOptions(f.follow(cacheName, c, listWatch(resource, name), client), object,
		cache.SharedIndexInformerOptions{Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}})
}

func listWatch[L runtime.Object](resource resourceClient[L], name string) *cache.ListWatch {
	named := func(options *metav1.ListOptions) {
		if name != "" {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			named(&options)
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			named(&options)
			return resource.Watch(ctx, options)
		},
	}
}
