// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// LogDecision logs the decision about a target if it differs from that of the last report. Either is nil if there is
// none. subject has the keys and names under which the log has the target.
func LogDecision(logger klog.Logger, before, after *v1alpha1.Decision, subject ...any) {
	reasonBefore := v1alpha1.DecisionReason("")
	if before != nil {
		reasonBefore = before.Reason
	}
	switch {
	case before == after, after.SameReason(before):
	case after == nil:
		logger.V(2).Info("Decision ended", append(subject, "before", string(reasonBefore))...)
	default:
		logger.V(2).Info("Decision changed", append(subject, "decision", string(after.Type), "reason", string(after.Reason),
			"before", string(reasonBefore), "message", after.Message)...)
	}
}
