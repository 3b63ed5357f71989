// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// conditions changes the unhealthyConditions of a spec.
func conditions(unhealthy ...v1alpha1.UnhealthyCondition) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.UnhealthyConditions = unhealthy }
}
