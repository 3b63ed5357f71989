// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// ReadInstalled reads Nodes, NodeHealthChecks and budgets. Nodes are needed; the others are missing
// where they may not be read. Installed is false where NodeHealthChecks are not served: the cluster
// has none, and no budgets.
func ReadInstalled(ctx context.Context, clients *Clients) (snapshot *view.Snapshot, installed bool, err error) {
	kinds := Kinds{Nodes: true, Budgets: true}.of(clients)
	answers := make([]answer, len(kinds))
	installed = true
	var wg sync.WaitGroup
	for i := range kinds {
		kinds[i].required = kinds[i].resource == nodes
		wg.Go(func() { answers[i] = kinds[i].read(ctx, clients) })
	}
	wg.Wait()
	for i := range kinds {
		if kinds[i].resource == v1alpha1.Plural && NotServed(answers[i].err) {
			installed = false
		}
	}
	snapshot, err = clients.assemble(kinds, answers)
	return snapshot, installed, err
}
