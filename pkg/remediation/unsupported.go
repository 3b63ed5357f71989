// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Unsupported is the problem that a spec asks for what this version does not do. To
// start remediations and leave out what its author counts on, a delay or a limit,
// would be worse than to start none.
func Unsupported(spec *v1alpha1.NodeHealthCheckSpec) *Problem {
	var field string
	switch {
	case spec.StormRecoveryThreshold != nil:
		field = "stormRecoveryThreshold"
	case spec.StormCooldownDuration != nil:
		field = "stormCooldownDuration"
	default:
		return nil
	}
	return &Problem{
		Reason:  v1alpha1.ReasonUnsupported,
		Message: fmt.Sprintf("This version of the controller does not support spec.%s. Remove the field, or use a version that supports it", field),
	}
}
