// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// unlimited is a budget that is counted, and refuses nothing.
func unlimited(spec *v1alpha1.RemediationBudgetSpec) {
	spec.MaxUnhealthy = new(intstr.FromString("100%"))
}
