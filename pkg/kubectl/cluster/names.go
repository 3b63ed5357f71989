// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// NodeNames returns the names of all Nodes.
func NodeNames(ctx context.Context, clients *Clients) ([]string, error) {
	return names(ctx, clients.nodes())
}

// NodeHealthCheckNames returns the names of all NodeHealthChecks.
func NodeHealthCheckNames(ctx context.Context, clients *Clients) ([]string, error) {
	return names(ctx, clients.nodeHealthChecks())
}

// HealthCheckNames returns the names of all NodeHealthChecks, MachineHealthChecks, as
// namespace/name, and RemediationBudgets. Kinds that cannot be read have none.
func HealthCheckNames(ctx context.Context, clients *Clients) ([]string, error) {
	all, err := names(ctx, clients.nodeHealthChecks())
	if err != nil {
		return nil, err
	}
	for _, optional := range []kind{clients.machineHealthChecks(), clients.budgets()} {
		if more, err := names(ctx, optional); err == nil {
			all = append(all, more...)
		}
	}
	return all, nil
}

func names(ctx context.Context, k kind) (found []string, err error) {
	lister := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) { return k.list(ctx, options) }))
	err = lister.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
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
