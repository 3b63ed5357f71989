// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// What tests begin with.
var (
	epoch     = objecttest.Epoch
	testCheck = objecttest.Check
	testCR    = objecttest.StepOf
)

// testNode returns an unhealthy node.
func testNode(name string) *remediation.Node {
	return &remediation.Node{
		Name: name, UID: types.UID(name + "-uid"),
		Verdict: health.Verdict{State: health.Unhealthy, Type: "Ready", Status: "Unknown", Since: epoch.Add(-time.Minute), Deadline: epoch},
	}
}
