// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Confirm judges a plan that begins a remediation by live reads of its Machine and its Node. It returns why
// the plan must not be carried out, empty if it may (spec M8.4). live only needs Machine, Unselected,
// NodeUID, Verdict, ControlPlane and Obstacles.
func (p *Plan) Confirm(live *Target) v1alpha1.DecisionReason {
	planned, machine := p.Target, live.Machine
	switch {
	case machine.UID != planned.Machine.UID, live.Unselected, live.ControlPlane != planned.ControlPlane, live.Verdict.State != Unhealthy:
		return v1alpha1.DecidedRecovering
	case machine.Node != planned.Machine.Node, live.NodeUID != "" && live.NodeUID != planned.NodeUID:
		return v1alpha1.DecidedRecovering // The plan was made for another Node, so it has no lease of this one (spec M10.3).
	case BackOffConcerns(live.Verdict.Trigger) != BackOffConcerns(planned.Verdict.Trigger):
		return v1alpha1.DecidedRecovering // It is unhealthy for another reason, which needs another plan.
	case !live.Obstacles.UpdateEnds.IsZero():
		return v1alpha1.DecidedClusterUpgrading
	case live.Obstacles.MachinePaused:
		return v1beta1.DecidedMachinePaused
	case live.Obstacles.Excluded:
		return v1alpha1.DecidedExcluded
	case p.Type == v1beta1.RemediationMachineDeletion && machine.Owner() == nil:
		return v1beta1.DecidedNoController
	case machine.Has(v1beta1.AnnotationExternalRemediation) && !machine.Failed():
		return v1alpha1.DecidedRecovering // Another controller has begun.
	}
	return ""
}

// ConfirmRecovery reports whether a live read contradicts the recovery of a target, so that its remediation
// objects stay (spec M12.5).
func (p *Plan) ConfirmRecovery(live *Target) (relapsed bool) {
	return live.Machine.UID != p.Target.Machine.UID || live.Verdict.State != Healthy
}
