// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/nhc-controller/nhc-controller/test/contract"
)

// TestContract: the table by which the API server in memory is built is what the real one does.
func TestContract(t *testing.T) {
	t.Parallel()
	contract.Run(t, exclusiveCluster(t).AdminConfig())
}
