// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation shows what NodeHealthChecks would do, in simulated time. It runs the deciding packages of the
// controller on a model of nodes, remediation objects and leases. It is pure: it knows no client and no clock.
//
// The model is simpler than a cluster. Templates exist, each write succeeds and is seen at once, and
// a remediation object is gone as soon as it is deleted.
package simulation

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Input is the input of a simulation. It is not changed.
type Input struct {
	// Checks have the last status of the controller, if there is one. Its remediations and its
	// storm go on.
	Checks  []*v1alpha1.NodeHealthCheck
	Budgets []*nhcv1alpha1.RemediationBudget
	Nodes   []*corev1.Node
	// Recorded are the changes of a recording, in order of time. They say how Nodes change by themselves.
	Recorded []Version
	// Start is when the simulation begins, and Duration how long it takes at most.
	Start    time.Time
	Duration time.Duration
	// Fail are the nodes that become Ready=Unknown, and Recover those that become healthy. Names that are
	// not among the Nodes are ignored.
	Fail, Recover []Change
	// RepairAfter is how long a remediation takes to make its node healthy, zero if it never does.
	RepairAfter time.Duration
	// Interrupted reports whether to stop between two instants, nil if never. The result is incomplete
	// then.
	Interrupted func() bool
}

// Change happens to a node, at a time after the start.
type Change struct {
	Node  string
	After time.Duration
}

// What happens, as a line names it.
type What string

// The kinds of lines.
const (
	Fails        What = "fails"
	Recovers     What = "recovers"
	Unhealthy    What = "is unhealthy"
	Waits        What = "waits"
	Begins       What = "remediation begins"
	NextStep     What = "next step begins"
	TimesOut     What = "step times out"
	Exhausted    What = "no step is left"
	Ends         What = "remediation ends"
	StormBegins  What = "storm begins"
	StormCalm    What = "storm is calm"
	StormEnds    What = "storm ends"
	StillRunning What = "remediation runs"
	Created      What = "is created"
	Deleted      What = "is deleted"
)

// Line is one event, of nodes or of a NodeHealthCheck.
type Line struct {
	// After is how long after the start it happens.
	After metav1.Duration `json:"after"`
	// Check is the NodeHealthCheck that does it, empty for what happens to a node by itself.
	Check string `json:"check,omitempty"`
	// Nodes are those to which the same happens at the same time.
	Nodes []string `json:"nodes,omitempty"`
	What  What     `json:"what"`
	Why   string   `json:"why,omitempty"`
}

// same reports whether two lines only differ in their nodes.
func (l *Line) same(other *Line) bool {
	return l.After == other.After && l.Check == other.Check && l.What == other.What && l.Why == other.Why
}

// Result is the result of a simulation.
type Result struct {
	Start metav1.Time `json:"start"`
	// Duration is how much time was simulated.
	Duration metav1.Duration `json:"duration"`
	// Checks and Budgets are the names of those that took part, Nodes the number of nodes that the
	// Checks select.
	Checks  []string `json:"checks"`
	Budgets []string `json:"budgets,omitempty"`
	Nodes   int      `json:"nodes"`
	// Timeline is in order of time.
	Timeline []Line  `json:"timeline"`
	Summary  Summary `json:"summary"`
	// Notes say what the simulation leaves out.
	Notes []string `json:"notes,omitempty"`
	// Missing is not empty if a part of the cluster could not be read.
	Missing []view.Missing `json:"missing,omitempty"`
}

// Summary has the numbers of a simulation.
type Summary struct {
	// Unhealthy is the number of nodes that were unhealthy at any time, and Remediated that of
	// those with a remediation.
	Unhealthy  int `json:"unhealthy"`
	Remediated int `json:"remediated"`
	// Remediations is the number of remediations that have begun: a node may have several.
	Remediations int `json:"remediations"`
	// MostAtATime is the largest number of nodes under remediation at the same time.
	MostAtATime int `json:"mostAtATime"`
	// TimedOut is the number of steps that timed out.
	TimedOut int `json:"timedOut"`
	// LongestWait is absent if no node has waited.
	LongestWait *Wait `json:"longestWait,omitempty"`
	// StillRemediated, StillWaiting and StillExhausted are the nodes that are under remediation at the
	// end, that wait for one, and for which no step is left.
	StillRemediated []string `json:"stillRemediated,omitempty"`
	StillWaiting    []string `json:"stillWaiting,omitempty"`
	StillExhausted  []string `json:"stillExhausted,omitempty"`
}

// Wait is how long a node was unhealthy before its remediation began, it recovered, or the simulation
// ended.
type Wait struct {
	Node string          `json:"node"`
	For  metav1.Duration `json:"for"`
}

// ParseChanges reads a text as --fail has it: NODE[,NODE...][@TIME]. It returns the part
// that is no time, empty if there is none.
func ParseChanges(text string) (changes []Change, wrong string) {
	names, at, timed := strings.Cut(text, "@")
	var after time.Duration
	if timed {
		parsed, err := time.ParseDuration(at)
		if err != nil || parsed < 0 {
			return nil, at
		}
		after = parsed
	}
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); name != "" {
			changes = append(changes, Change{Node: name, After: after})
		}
	}
	return changes, ""
}
