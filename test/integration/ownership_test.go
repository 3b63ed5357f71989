// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
)

// second returns a scenario for another NodeHealthCheck.
func (s *scenario) second(t *testing.T) *scenario {
	t.Helper()
	return newEmptyScenario(t, s.cluster, t.Name()+"/second", s.kind)
}
