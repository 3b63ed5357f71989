// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// State is the health of a Machine (spec M6.1).
type State int

const (
	// Healthy means none of the others.
	Healthy State = iota
	// UnderRemediation means that the Machine has recovered, and that its remediation has not ended.
	UnderRemediation
	// NotStarted means that the Machine has no Node yet.
	NotStarted
	// SoonUnhealthy means that something is wrong that has not lasted for its timeout yet.
	SoonUnhealthy
	// Unhealthy means that a criterion holds.
	Unhealthy
	// Deleting means that the Machine is being deleted, by any client.
	Deleting
)

// String returns the name of the state.
func (s State) String() string {
	names := [...]string{"Healthy", "UnderRemediation", "NotStarted", "SoonUnhealthy", "Unhealthy", "Deleting"}
	if s < 0 || int(s) >= len(names) {
		return "Invalid"
	}
	return names[s]
}

// NodeState is whether the Node that a Machine names exists.
type NodeState int

const (
	// NodeUnknown means that the cache does not have the Node, and that a live read has no
	// answer yet.
	NodeUnknown NodeState = iota
	// NodeExists means that the Node is there.
	NodeExists
	// NodeMissing means that a live read did not find it. A cache alone is no proof.
	NodeMissing
)

// Verdict is the judgement on one Machine.
type Verdict struct {
	State State
	// Trigger is the reason of v1beta1.MachineTrigger, for an unhealthy Machine.
	Trigger string
	// Type and Status are those of the deciding condition, if there is one.
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
	// Since is since when that condition has had its status, zero if that is not known or no condition
	// decides. Doubt says why Since is not its lastTransitionTime.
	Since time.Time
	Doubt string
	// Deadline is the instant at which the Machine becomes, or became, unhealthy; zero if time
	// alone does not make it so.
	Deadline time.Time
}

// maxStartupExtension is how many startup timeouts a Machine gets at most when changes of its
// status delay its start (spec M6.3).
const maxStartupExtension = 6

// Judge returns the verdict on a Machine at the instant now. evidence is that of its Node, if the
// Node exists. remediated means that a remediation of the Machine is under way.
func (c *Criteria) Judge(machine *Machine, node NodeState, evidence health.Evidence, remediated bool, now time.Time) Verdict {
	if machine.Deleting() {
		return Verdict{State: Deleting}
	}
	evidence.MachineCreated = machine.CreationTimestamp.Time
	condition := health.Judge(c.Conditions, evidence, now)
	startup := c.startupDeadline(machine)
	switch {
	case machine.Failed():
		return Verdict{State: Unhealthy, Trigger: v1beta1.TriggerMachineFailed}
	case machine.Node != "" && node == NodeMissing:
		return Verdict{State: Unhealthy, Trigger: v1beta1.TriggerNodeMissing}
	case machine.Node == "" && !startup.IsZero() && !now.Before(startup):
		return Verdict{State: Unhealthy, Trigger: v1beta1.TriggerNodeStartupTimeout, Deadline: startup}
	case machine.Node == "":
		return Verdict{State: NotStarted, Deadline: startup}
	case node != NodeExists:
		return Verdict{State: SoonUnhealthy}
	case condition.State != health.Healthy:
		v := Verdict{State: SoonUnhealthy, Type: condition.Type, Status: condition.Status, Since: condition.Since, Doubt: condition.Doubt, Deadline: condition.Deadline}
		if condition.State == health.Unhealthy {
			v.State, v.Trigger = Unhealthy, v1beta1.TriggerUnhealthyCondition
		}
		return v
	case remediated:
		return Verdict{State: UnderRemediation}
	default:
		return Verdict{}
	}
}

// startupDeadline returns until when the Machine may be without a Node. Zero means without
// limit.
func (c *Criteria) startupDeadline(machine *Machine) time.Time {
	if c.StartupTimeout == 0 {
		return time.Time{}
	}
	created := machine.CreationTimestamp.Time
	start := created
	if machine.Started.After(start) {
		start = machine.Started
	}
	// The longest timeouts cannot be multiplied.
	extension := maxStartupExtension * min(c.StartupTimeout, math.MaxInt64/maxStartupExtension)
	if latest := created.Add(extension); start.After(latest) {
		start = latest
	}
	return start.Add(c.StartupTimeout)
}
