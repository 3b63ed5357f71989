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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	machineinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/machine/v1beta1"
	remediationinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/remediation/v1alpha1"
)

// The names of the caches of typed informers. Those of a Set are called by the Set and the resource.
const (
	NodeCache               = "nodes"
	LeaseCache              = "leases"
	OtherLeaderCache        = "other-leaders"
	CRDCache                = "customresourcedefinitions"
	NodeHealthCheckCache    = v1alpha1.Plural
	MachineHealthCheckCache = v1beta1.Plural
)

// Nodes returns an informer of Nodes, not started.
func (f *Freshness) Nodes(kube kubernetes.Interface, transform cache.TransformFunc) coreinformers.TypedNodeInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(transform))
	factory.InformerFor(&corev1.Node{}, func(kube kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return newInformer(f, NodeCache, kube, kube.CoreV1().Nodes(), &corev1.Node{}, "")
	})
	return factory.Core().V1().Nodes()
}

// Leases returns an informer of the Leases of a namespace, not started.
func (f *Freshness) Leases(kube kubernetes.Interface, namespace string, transform cache.TransformFunc) coordinationinformers.TypedLeaseInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(transform))
	factory.InformerFor(&coordinationv1.Lease{}, func(kube kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return newInformer(f, LeaseCache, kube, kube.CoordinationV1().Leases(namespace), &coordinationv1.Lease{}, "")
	})
	return factory.Coordination().V1().Leases()
}

// LeasesNamed returns an informer of the Leases of a name in all namespaces, not started.
func (f *Freshness) LeasesNamed(kube kubernetes.Interface, name string, transform cache.TransformFunc) coordinationinformers.TypedLeaseInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(transform))
	factory.InformerFor(&coordinationv1.Lease{}, func(kube kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return newInformer(f, OtherLeaderCache, kube, kube.CoordinationV1().Leases(metav1.NamespaceAll), &coordinationv1.Lease{}, name)
	})
	return factory.Coordination().V1().Leases()
}

// NodeHealthChecks returns an informer of NodeHealthChecks, not started.
func (f *Freshness) NodeHealthChecks(client versioned.Interface, transform cache.TransformFunc) remediationinformers.TypedNodeHealthCheckInformer {
	factory := nhcinformers.NewSharedInformerFactoryWithOptions(client, 0, nhcinformers.WithTransform(transform))
	factory.InformerFor(&v1alpha1.NodeHealthCheck{}, func(client versioned.Interface, _ time.Duration) cache.SharedIndexInformer {
		return newInformer(f, NodeHealthCheckCache, client, client.RemediationV1alpha1().NodeHealthChecks(), &v1alpha1.NodeHealthCheck{}, "")
	})
	return factory.Remediation().V1alpha1().NodeHealthChecks()
}

// MachineHealthChecks returns an informer of MachineHealthChecks, not started.
func (f *Freshness) MachineHealthChecks(client versioned.Interface, transform cache.TransformFunc) machineinformers.TypedMachineHealthCheckInformer {
	factory := nhcinformers.NewSharedInformerFactoryWithOptions(client, 0, nhcinformers.WithTransform(transform))
	factory.InformerFor(&v1beta1.MachineHealthCheck{}, func(client versioned.Interface, _ time.Duration) cache.SharedIndexInformer {
		return newInformer(f, MachineHealthCheckCache, client, client.MachineV1beta1().MachineHealthChecks(metav1.NamespaceAll), &v1beta1.MachineHealthCheck{}, "")
	})
	return factory.Machine().V1beta1().MachineHealthChecks()
}

// CRDs returns an informer of the metadata of CustomResourceDefinitions, not started.
func (f *Freshness) CRDs(client metadata.Interface) cache.SharedIndexInformer {
	return newInformer(f, CRDCache, client, client.Resource(crdResource), &metav1.PartialObjectMetadata{}, "")
}

// resourceClient is what lists and watches a resource.
type resourceClient[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// newInformer returns an informer whose requests are followed. An empty name is that of all objects.
func newInformer[L runtime.Object](f *Freshness, cacheName string, client any, resource resourceClient[L], object runtime.Object, name string) cache.SharedIndexInformer {
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
