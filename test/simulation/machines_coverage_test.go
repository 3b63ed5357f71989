// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// unreachedOfMachines are the reasons of decisions about Machines for which the simulated cluster
// gives no cause, or too seldom.
var unreachedOfMachines = []v1alpha1.DecisionReason{
	v1beta1.DecidedClusterPaused,                                     // There are no Clusters.
	v1alpha1.DecidedClockUntrusted,                                   // The clocks agree.
	v1alpha1.DecidedDryRun,                                           // That is a flag.
	v1alpha1.DecidedNextBatch,                                        // There are not that many Machines.
	v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedCreateFailed, // TestRemediationObjectInTheWay.
	v1beta1.DecidedRemediationOverdue, // Nothing takes that long: TestRemediationOverdue.
}

// machineCoverage are the events that have to happen in clusters with Machines.
func machineCoverage() []string {
	want := []string{
		"event about Machines: DetectedUnhealthy", "event about Machines: MachineDeleted", "event about Machines: MachineDeletionFailed",
		"event about Machines: SkippedNoController", "event about Machines: ExternalAnnotationAdded", "event about Machines: RemediationRestricted",
		"event about Machines: RemediationCreated", "event about Machines: RemediationRemoved", "event about Machines: RemediationSkipped",
		"trigger MachineFailed", "trigger NodeMissing", "trigger NodeStartupTimeout", "trigger UnhealthyCondition",
		"condition RemediationAllowed=True", "condition RemediationAllowed=False", "condition SelectorOverlap=True",
		"condition ExternalRemediationTemplateAvailable=False",
		"history machineDeletion started", "history machineDeletion fenced", "history machineDeletion finished", "history machineDeletion closed",
		"history external started", "history external fenced", "history external finished", "history external closed",
		"Machines deleted", "Machines annotated", "CRs for Machines", "fault: other controller", "fault: feature gate", "fault: denied change of a Machine",
	}
	for _, reason := range sorted(v1beta1.DecisionReasons()) {
		if !slices.Contains(unreachedOfMachines, reason) {
			want = append(want, "decision about a Machine "+string(reason))
		}
	}
	return want
}

// noteMachines counts what a MachineHealthCheck says.
func (c *cluster) noteMachines(change *memapi.Change) {
	status := &as[v1beta1.MachineHealthCheck](change.Object).Status
	for i := range status.UnhealthyMachines {
		entry := &status.UnhealthyMachines[i]
		c.seen["decision about a Machine "+string(entry.Decision.Reason)]++
		c.noteWaiting("MachineHealthCheck", &entry.Decision)
		if entry.Trigger != nil {
			c.seen["trigger "+entry.Trigger.Reason]++
		}
	}
	for _, condition := range status.Conditions {
		c.seen["condition "+condition.Type+"="+string(condition.Status)]++
	}
	for i := range status.RemediationHistory {
		entry := &status.RemediationHistory[i]
		for what, happened := range map[string]bool{
			"started": entry.Started != nil, "fenced": entry.Fenced != nil, "finished": entry.Finished != nil, "closed": entry.Closed != nil,
		} {
			if happened {
				c.seen["history "+string(entry.RemediationType)+" "+what]++
			}
		}
	}
}
