// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Overview is the state of all health checks and budgets.
type Overview struct {
	// Time is the instant at which it holds.
	Time metav1.Time `json:"time"`
	// Selected is the name that everything has, empty if nothing was left out.
	Selected         string  `json:"selected,omitempty"`
	NodeHealthChecks []Check `json:"nodeHealthChecks"`
	// Leader is absent if it cannot be read.
	Leader *Leader `json:"leader,omitempty"`
	// These are as the API server has them.
	MachineHealthChecks []*machinev1beta1.MachineHealthCheck `json:"machineHealthChecks,omitempty"`
	RemediationBudgets  []*nhcv1alpha1.RemediationBudget     `json:"remediationBudgets,omitempty"`
	// Common are the properties that failing nodes have in common and others do not have.
	Common []Shared `json:"common,omitempty"`
	// PausedNodes are those for which nothing begins.
	PausedNodes []PausedNode `json:"pausedNodes,omitempty"`
	// Missing is not empty if the overview is partial.
	Missing []Missing `json:"missing,omitempty"`
}

// Check is the state of one NodeHealthCheck, as its status has it.
type Check struct {
	Name   string         `json:"name"`
	Phase  v1alpha1.Phase `json:"phase,omitempty"`
	Reason string         `json:"reason,omitempty"`
	// Outdated means that the controller has not reported about the present spec yet.
	Outdated bool `json:"outdated,omitempty"`

	ObservedNodes      int `json:"observedNodes"`
	HealthyNodes       int `json:"healthyNodes"`
	UnhealthyNodes     int `json:"unhealthyNodes"`
	SoonUnhealthyNodes int `json:"soonUnhealthyNodes"`
	RemediatingNodes   int `json:"remediatingNodes"`

	// Gate is absent as long as the controller has counted no nodes.
	Gate *Gate `json:"gate,omitempty"`
	// Storm is absent without a storm.
	Storm *Storm `json:"storm,omitempty"`
	// Held is why nothing new begins for any node, absent if nothing prevents it.
	Held *Held `json:"held,omitempty"`
	// Stopped says by which RemediationBudget everything is stopped, empty if nothing is.
	Stopped string `json:"stopped,omitempty"`
	// Warnings are further conditions that an operator should know about.
	Warnings []string `json:"warnings,omitempty"`
	// PauseRequests are those of the spec.
	PauseRequests []string `json:"pauseRequests,omitempty"`
	DryRun        bool     `json:"dryRun,omitempty"`

	// Nodes are those that status lists.
	Nodes []Target `json:"nodes,omitempty"`
	// Next are the nodes that become unhealthy if nothing changes, the first one first.
	Next []NextNode `json:"next,omitempty"`
}

// Gate is minHealthy or maxUnhealthy in numbers.
type Gate struct {
	Open bool `json:"open"`
	// NoNodes means that the selector selects no node: then the gate counts nothing.
	NoNodes bool `json:"noNodes,omitempty"`
	// NotHealthy is how many nodes are not healthy, and MaxNotHealthy how many may be.
	NotHealthy    int `json:"notHealthy"`
	MaxNotHealthy int `json:"maxNotHealthy"`
}

// Storm is a storm that is not over.
type Storm struct {
	Since *metav1.Time `json:"since,omitempty"`
	// CalmSince is since when it is calm, absent if it is not.
	CalmSince *metav1.Time `json:"calmSince,omitempty"`
	// End is when it ends if it stays calm.
	End *metav1.Time `json:"end,omitempty"`
	// CalmAt is the number of nodes that are not healthy at or below which it is calm, absent
	// without a threshold.
	CalmAt *int `json:"calmAt,omitempty"`
}

// Held is why nothing new begins for a whole NodeHealthCheck.
type Held struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Target is a node as status lists it, or a Machine in the same form.
type Target struct {
	v1alpha1.UnhealthyNode `json:",inline"`
	// Node is the node of a Machine.
	Node string `json:"node,omitempty"`
}

// NewOverview returns the overview of a snapshot at the instant now.
func NewOverview(snapshot *Snapshot, now time.Time) *Overview {
	overview := &Overview{
		Time: metav1.NewTime(now), NodeHealthChecks: []Check{}, Leader: snapshot.Leader, Missing: snapshot.Missing,
		MachineHealthChecks: slices.Clone(snapshot.MachineHealthChecks), RemediationBudgets: slices.Clone(snapshot.Budgets),
		PausedNodes: pausedNodes(snapshot.Nodes),
	}
	for _, nhc := range snapshot.NodeHealthChecks {
		overview.NodeHealthChecks = append(overview.NodeHealthChecks, newCheck(nhc, snapshot, now))
	}
	failing, triggers := overview.failingNodes()
	overview.Common = common(snapshot.Nodes, failing, triggers)
	return overview
}

func newCheck(nhc *v1alpha1.NodeHealthCheck, snapshot *Snapshot, now time.Time) Check {
	status := &nhc.Status
	check := Check{
		Name: nhc.Name, Phase: status.Phase, Reason: status.Reason, Outdated: status.ObservedGeneration < nhc.Generation,
		ObservedNodes: value(status.ObservedNodes), HealthyNodes: value(status.HealthyNodes), UnhealthyNodes: value(status.UnhealthyNodeCount),
		SoonUnhealthyNodes: value(status.SoonUnhealthyNodes), RemediatingNodes: value(status.RemediatingNodes),
		PauseRequests: nhc.Spec.PauseRequests, DryRun: nhc.Spec.Mode == v1alpha1.ModeDryRun,
		Stopped: Stop(snapshot.Budgets), Next: nextNodes(nhc, snapshot, now),
	}
	if status.ObservedNodes != nil && status.HealthyNodes != nil {
		gate := health.EvaluateGate(nhc.Spec.MinHealthy, nhc.Spec.MaxUnhealthy, check.ObservedNodes, check.HealthyNodes)
		input := health.StormInput{Gate: gate}
		check.Gate = &Gate{Open: gate.Open && gate.Observed > 0, NoNodes: gate.Observed == 0, NotHealthy: input.NotHealthy(), MaxNotHealthy: input.Limit()}
	}
	check.Storm = newStorm(nhc)
	if allowed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRemediationAllowed); allowed != nil && allowed.Status == metav1.ConditionFalse && (allowed.Reason != v1alpha1.ReasonStopped || check.Stopped == "") {
		check.Held = &Held{Reason: allowed.Reason, Message: allowed.Message}
	}
	for _, condition := range status.Conditions {
		if warns(&condition) {
			check.Warnings = append(check.Warnings, condition.Type+": "+condition.Message)
		}
	}
	for i := range status.UnhealthyNodes {
		check.Nodes = append(check.Nodes, Target{UnhealthyNode: status.UnhealthyNodes[i]})
	}
	return check
}

// EffectiveGate is the gate if it decides whether anything begins. It is nil in a phase in which nothing
// begins.
func (c *Check) EffectiveGate() *Gate {
	if c.Phase == v1alpha1.PhaseDisabled || c.Phase == v1alpha1.PhasePaused {
		return nil
	}
	return c.Gate
}

// NotHealthy returns the names of the nodes that count against the gate: those that status lists, and those that are
// not healthy and have not been so for long.
func (c *Check) NotHealthy() (names []string) {
	for i := range c.Nodes {
		names = append(names, c.Nodes[i].Name)
	}
	for i := range c.Next {
		if !slices.Contains(names, c.Next[i].Name) {
			names = append(names, c.Next[i].Name)
		}
	}
	return names
}

// warns reports whether a condition says something that the other fields do not.
func warns(condition *metav1.Condition) bool {
	switch condition.Type {
	case v1alpha1.ConditionSelectorOverlap, v1alpha1.ConditionLeftoverRemediations:
		return condition.Status == metav1.ConditionTrue
	case v1alpha1.ConditionPlatformAccess:
		return condition.Status == metav1.ConditionFalse
	default:
		return false
	}
}

func newStorm(nhc *v1alpha1.NodeHealthCheck) *Storm {
	storm, rules := health.StormOf(&nhc.Status), health.StormRulesOf(&nhc.Spec)
	if !storm.Active {
		return nil
	}
	return &Storm{Since: instant(storm.Since), CalmSince: instant(storm.CalmSince), End: instant(storm.End(rules)), CalmAt: rules.Threshold}
}

// heldMachines says why nothing new begins for a whole MachineHealthCheck, nil if nothing prevents it.
func heldMachines(mhc *machinev1beta1.MachineHealthCheck) *Held {
	for _, condition := range mhc.Status.Conditions {
		if condition.Type == machinev1beta1.ConditionRemediationAllowed && condition.Status == corev1.ConditionFalse {
			return &Held{Reason: condition.Reason, Message: condition.Message}
		}
	}
	return nil
}

func newMachineTarget(machine *machinev1beta1.UnhealthyMachine) Target {
	target := Target{Node: machine.Node, UnhealthyNode: v1alpha1.UnhealthyNode{Name: machine.Name, Detected: machine.Detected, Decision: &machine.Decision}}
	if trigger := machine.Trigger; trigger != nil {
		target.Trigger = &v1alpha1.Trigger{Type: trigger.Type, Status: trigger.Status, Reason: trigger.Reason}
	}
	return target
}

// triggerText is the condition that makes a node unhealthy, or what is wrong with a Machine otherwise.
func triggerText(trigger *v1alpha1.Trigger) string {
	switch {
	case trigger == nil:
		return ""
	case trigger.Type == "":
		return trigger.Reason
	default:
		return string(trigger.Type) + "=" + string(trigger.Status)
	}
}

// value returns what a pointer of a status points to, zero if it is absent.
func value(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// instant returns a time for JSON, nil if there is none.
func instant(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}

// Select keeps only what has this name. It changes nothing and returns false if there is nothing. The
// name of a MachineHealthCheck follows its namespace and a slash.
func (o *Overview) Select(name string) bool {
	if !slices.Contains(o.Names(), name) {
		return false
	}
	o.Selected, o.Common = name, nil
	o.NodeHealthChecks = slices.DeleteFunc(o.NodeHealthChecks, func(check Check) bool { return check.Name != name })
	o.MachineHealthChecks = slices.DeleteFunc(o.MachineHealthChecks, func(check *machinev1beta1.MachineHealthCheck) bool { return check.Namespace+"/"+check.Name != name })
	o.RemediationBudgets = slices.DeleteFunc(o.RemediationBudgets, func(budget *nhcv1alpha1.RemediationBudget) bool { return budget.Name != name })
	return true
}

// Names returns the names that Select knows.
func (o *Overview) Names() []string {
	var names []string
	for i := range o.NodeHealthChecks {
		names = append(names, o.NodeHealthChecks[i].Name)
	}
	for _, mhc := range o.MachineHealthChecks {
		names = append(names, mhc.Namespace+"/"+mhc.Name)
	}
	for _, budget := range o.RemediationBudgets {
		names = append(names, budget.Name)
	}
	return names
}
