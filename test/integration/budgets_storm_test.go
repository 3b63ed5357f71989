// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"

	"k8s.io/client-go/util/workqueue"
)

// names returns a number of names with the same beginning.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return all
}

// each does something with many nodes, several at a time.
func (s *scenario) each(nodes []string, do func(node string)) {
	s.t.Helper()
	workqueue.ParallelizeUntil(s.t.Context(), 8, len(nodes), func(i int) { do(nodes[i]) })
}
