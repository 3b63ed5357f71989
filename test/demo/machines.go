// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// machine is what the timeline shows of a Machine.
type machine struct {
	phase, node string
	deleting    bool
}

func parseMachine(object *unstructured.Unstructured) machine {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	node, _, _ := unstructured.NestedString(object.Object, "status", "nodeRef", "name")
	return machine{phase: phase, node: node, deleting: object.GetDeletionTimestamp() != nil}
}

// String returns nothing for a Machine that its provider has not seen yet.
func (m machine) String() string {
	switch {
	case m.deleting:
		return "is being deleted"
	case m.phase == "":
		return ""
	case m.node == "":
		return m.phase + ", without a node"
	default:
		return m.phase + " on " + m.node
	}
}

// line is one of the timeline.
type line struct{ who, what string }

// changes returns what the timeline says when the status of a MachineHealthCheck changes: its
// counts, and new decisions about Machines.
func changes(before, now v1beta1.MachineHealthCheckStatus) []line {
	var lines []line
	if counts := countsOf(now); counts != "" && counts != countsOf(before) {
		lines = append(lines, line{"machinehealthcheck", counts})
	}
	for i := range now.UnhealthyMachines {
		m := &now.UnhealthyMachines[i]
		if decisionAbout(before, m.Name).Reason == m.Decision.Reason {
			continue
		}
		what := fmt.Sprintf("%s: %s, %s", m.Name, m.Decision.Type, m.Decision.Reason)
		if m.Trigger != nil && m.Trigger.Reason != "" {
			what += " (" + m.Trigger.Reason + ")"
		}
		if m.Decision.NextCheckTime != nil {
			what += " until " + m.Decision.NextCheckTime.UTC().Format(time.TimeOnly)
		}
		lines = append(lines, line{"decision", what})
	}
	return lines
}

// countsOf returns nothing before the first status.
func countsOf(status v1beta1.MachineHealthCheckStatus) string {
	if status.ExpectedMachines == nil || status.CurrentHealthy == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d machines healthy", *status.CurrentHealthy, *status.ExpectedMachines)
}
