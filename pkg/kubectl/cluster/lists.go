// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
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
	return namesOf(ctx, clients.nodeHealthChecks(), clients.machineHealthChecks())
}

// HealthCheckNames returns the names of CheckNames, and of RemediationBudgets, if they can be read.
func HealthCheckNames(ctx context.Context, clients *Clients) ([]string, error) {
	return namesOf(ctx, clients.nodeHealthChecks(), clients.machineHealthChecks(), clients.budgets())
}

func namesOf(ctx context.Context, required kind, optional ...kind) ([]string, error) {
	all, err := names(ctx, required)
	if err != nil {
		return nil, err
	}
	for _, kind := range optional {
		if more, err := names(ctx, kind); err == nil {
			all = append(all, more...)
		}
	}
	return all, nil
}

func names(ctx context.Context, k kind) (found []string, err error) {
	err = k.list.each(ctx, func(object runtime.Object) error {
		accessor := object.(metav1.Object)
		name := accessor.GetName()
		if accessor.GetNamespace() != "" {
			name = accessor.GetNamespace() + "/" + name
		}
		found = append(found, name)
		return nil
	})
	if err != nil {
		return nil, Explain(err, "list", k.resource)
	}
	return found, nil
}

// ReadObjects reads all NodeHealthChecks, MachineHealthChecks and RemediationBudgets as they are
// stored, with what no client of today understands. Those of a kind that cannot be read are missing.
func ReadObjects(ctx context.Context, clients *Clients) ([]*unstructured.Unstructured, []view.Missing, error) {
	var (
		objects []*unstructured.Unstructured
		missing []view.Missing
	)
	for _, resource := range []schema.GroupVersionResource{
		v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural),
		machinev1beta1.SchemeGroupVersion.WithResource(machineHealthChecks),
		nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural),
	} {
		read, err := clients.list(ctx, resource)
		err = clients.explainForbidden(&kind{resource: resource.Resource, version: resource.GroupVersion()}, err)
		switch {
		case err == nil:
			objects = append(objects, read...)
		case resource.Resource == v1alpha1.Plural, ctxEnded(err):
			return nil, nil, Explain(err, "list", resource.Resource)
		case NotServed(err): // Without the kind, there are no such objects.
		default:
			missing = append(missing, view.Missing{Resource: resource.Resource, Reason: Explain(err, "list", resource.Resource).Error()})
		}
	}
	return objects, missing, nil
}

// list lists a resource, page by page, in the namespace that the user has chosen.
func (c *Clients) list(ctx context.Context, resource schema.GroupVersionResource) (objects []*unstructured.Unstructured, err error) {
	var client dynamic.ResourceInterface = c.Dynamic.Resource(resource)
	if c.Namespace != "" && resource.Group == machinev1beta1.SchemeGroupVersion.Group {
		client = c.Dynamic.Resource(resource).Namespace(c.Namespace)
	}
	list := listing(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	})
	err = list.each(ctx, func(object runtime.Object) error {
		objects = append(objects, object.(*unstructured.Unstructured))
		return nil
	})
	return objects, err
}
