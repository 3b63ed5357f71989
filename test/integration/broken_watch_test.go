// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// deletions returns the requests to delete the CR of a node.
func (s *scenario) deletions(node string) []localkube.Request {
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == "delete" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && r.Name == s.node(node)
	})
}
