// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"

// Unsupported returns what a spec asks for and this version does not do, or
// nothing. To start a remediation and leave out what its author counts on, a delay
// or a limit, would be worse than to start none.
func Unsupported(spec *v1alpha1.NodeHealthCheckSpec) string {
	switch {
	case len(spec.EscalatingRemediations) > 0:
		return "escalatingRemediations is not supported by this version: use remediationTemplate"
	case spec.HealthyDelay != nil && spec.HealthyDelay.Duration != 0:
		return "healthyDelay is not supported by this version: remove it"
	case spec.StormRecoveryThreshold != nil:
		return "stormRecoveryThreshold is not supported by this version: remove it"
	case spec.StormCooldownDuration != nil:
		return "stormCooldownDuration is not supported by this version: remove it"
	default:
		return ""
	}
}
