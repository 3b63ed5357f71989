// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// sharedCRs returns the own CRs that have a further owner, such as a Machine. Garbage collection only takes away
// their reference to a NodeHealthCheck that is gone (spec 4.8). There are none if
// it is being deleted with its dependents orphaned.
func sharedCRs(nhc *v1alpha1.NodeHealthCheck, own map[string][]*object.CR) (shared []*object.CR) {
	if slices.Contains(nhc.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil
	}
	for _, crs := range own {
		for _, cr := range crs {
			if len(cr.OwnerReferences) > 1 && !cr.Deleting() {
				shared = append(shared, cr)
			}
		}
	}
	return shared
}

// endShared deletes the CRs of a deleted NodeHealthCheck that garbage collection leaves, by its last sync.
func (c *Controller) endShared(ctx context.Context, name string) error {
	executor := execute.Executor{Client: c.dynamic, Mapping: c.locate}
	return executor.DeleteLeft(ctx, c.states.shared(name))
}
