// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// NodeNames returns the names of all Nodes.
func NodeNames(ctx context.Context, clients *Clients) ([]string, error) {
	return names(ctx, clients.nodes())
}

// NodeHealthCheckNames returns the names of all NodeHealthChecks.
func NodeHealthCheckNames(ctx context.Context, clients *Clients) ([]string, error) {
	return names(ctx, clients.nodeHealthChecks())
}

// CheckNames returns the names of all NodeHealthChecks, and of MachineHealthChecks, as namespace/name, if they can be read.
func CheckNames(ctx context.Context, clients *Clients) ([]string, error) {
	return names(ctx, clients.nodeHealthChecks(), clients.machineHealthChecks())
}

// HealthCheckNames returns the names of CheckNames, and of RemediationBudgets, if they can be read.
func HealthCheckNames(ctx context.Context, clients *Clients) ([]string, error) {
	return names(ctx, clients.nodeHealthChecks(), clients.machineHealthChecks(), clients.budgets())
}

// names returns the names of all objects of some kinds. Only the first kind has to be readable.
func names(ctx context.Context, kinds ...kind) (found []string, err error) {
	for i, k := range kinds {
		err := k.list.each(ctx, func(object runtime.Object) error {
			accessor := object.(metav1.Object)
			found = append(found, strings.TrimPrefix(accessor.GetNamespace()+"/"+accessor.GetName(), "/"))
			return nil
		})
		if err != nil && i == 0 {
			return nil, Explain(err, "list", k.resource)
		}
	}
	return found, nil
}

// ReadObjects reads all NodeHealthChecks, MachineHealthChecks and RemediationBudgets as they are
// stored, with what no client of today understands. Those of a kind that cannot be read are missing.
func ReadObjects(ctx context.Context, clients *Clients) (objects []*unstructured.Unstructured, missing []view.Missing, err error) {
	kinds := []kind{clients.nodeHealthChecks(), clients.machineHealthChecks(), clients.budgets()}
	for i := range kinds {
		kinds[i].list = clients.listing(kinds[i].version.WithResource(kinds[i].resource))
		kinds[i].add = func(_ *view.Snapshot, read []runtime.Object) {
			objects = append(objects, sorted[*unstructured.Unstructured](read)...)
		}
	}
	snapshot, err := clients.assemble(kinds, clients.readAll(ctx, kinds))
	if err != nil {
		return nil, nil, err
	}
	return objects, snapshot.Missing, nil
}

// listing lists a resource in the namespace that the user has chosen.
func (c *Clients) listing(resource schema.GroupVersionResource) listing {
	var client dynamic.ResourceInterface = c.Dynamic.Resource(resource)
	if c.Namespace != "" && resource.Group != v1alpha1.SchemeGroupVersion.Group && resource.Group != nhcv1alpha1.SchemeGroupVersion.Group {
		client = c.Dynamic.Resource(resource).Namespace(c.Namespace)
	}
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	}
}
