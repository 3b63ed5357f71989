// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

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
func NodeNames(ctx context.Context, clients *Clients) (names []string, err error) {
	nodes := clients.nodes()
	err = nodes.list.each(ctx, func(object runtime.Object) error {
		names = append(names, object.(metav1.Object).GetName())
		return nil
	})
	return names, Explain(err, "list", nodes.resource)
}

// Names returns a function with the names of all NodeHealthChecks, and of what else is wanted and can be read.
func Names(wanted Kinds) func(context.Context, *Clients) ([]string, error) {
	return func(ctx context.Context, clients *Clients) ([]string, error) {
		snapshot, err := Read(ctx, clients, wanted)
		if err != nil {
			return nil, err
		}
		return view.NewOverview(snapshot, time.Time{}).Names(), nil
	}
}

// ReadObjects reads all NodeHealthChecks, MachineHealthChecks and RemediationBudgets as they are
// stored, with what no client of today understands. Those of a kind that cannot be read are missing.
func ReadObjects(ctx context.Context, clients *Clients) (objects []*unstructured.Unstructured, missing []view.Missing, err error) {
	kinds := []kind{clients.nodeHealthChecks(), clients.machineHealthChecks(), clients.budgets()}
	kinds[0].required = true
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
