// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// platformSeen is what was read of the platform last, by this process, nil before it was read.
// It holds while the platform cannot be read. The zero value is ready to use, from any
// goroutine.
type platformSeen struct {
	checks      atomic.Pointer[seenChecks]
	progressing atomic.Pointer[bool]
}

// seenChecks is what MachineHealthChecks say.
type seenChecks struct{ conflict, exist bool }

// recall completes what this process has never read by what status says about it. Only the
// status at the start of the process counts for an upgrade: a later one repeats what this
// process has written, so that an upgrade would never end.
func (s *platformState) recall(nhc *v1alpha1.NodeHealthCheck, state *nhcState) {
	s.conflict = s.conflict || (s.unknown && inConflict(nhc))
	s.progressing = s.progressing || (s.unseen && state.upgrading)
}

// inConflict reports whether MachineHealthChecks were in conflict when that was known
// last: no answer is not the end of it.
func inConflict(nhc *v1alpha1.NodeHealthCheck) bool {
	condition := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionDisabled)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == v1alpha1.ReasonConflict
}

// wasUpgrading reports whether status says that nothing begins because of an upgrade.
func wasUpgrading(nhc *v1alpha1.NodeHealthCheck) bool {
	condition := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionRemediationAllowed)
	return condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == string(v1alpha1.DecidedClusterUpgrading)
}
