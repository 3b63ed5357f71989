// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func mode(mode v1alpha1.Mode) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.Mode = mode }
}

func pause(requests ...string) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = requests }
}

// conditions changes the unhealthyConditions of a spec.
func conditions(unhealthy ...v1alpha1.UnhealthyCondition) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.UnhealthyConditions = unhealthy }
}

func minHealthy(value intstr.IntOrString) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.MinHealthy, spec.MaxUnhealthy = &value, nil }
}
