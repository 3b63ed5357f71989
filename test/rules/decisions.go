// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Decision is what a process logs before it acts on a node: by which version of a health check that was decided.
type Decision struct {
	Time time.Time
	// Client is the beginning of the user agent of the process.
	Client string
	// Check is the name of a NodeHealthCheck, or the namespace and name of a MachineHealthCheck, and Version its
	// resourceVersion.
	Check   string
	Version uint64
	// Node is the name of the Node, or what stands for a Machine without one.
	Node string
}

// SetDecisions tells what the processes have logged until now, in any order. Without a decision, a judge allows all
// versions that a process may have seen.
func (j *Judge) SetDecisions(decisions []Decision) {
	slices.SortFunc(decisions, func(a, b Decision) int { return a.Time.Compare(b.Time) })
	j.decisions = map[string][]Decision{}
	for _, decision := range decisions {
		j.decisions[decision.Node] = append(j.decisions[decision.Node], decision)
	}
}

// decisionOf returns the last decision of a NodeHealthCheck about a node before a request, nil if none is known.
func (j *Judge) decisionOf(by *Request, nhc, node string) *Decision {
	return j.lastDecision(by, node, func(check string) bool { return check == nhc })
}

// machineDecisionOf returns the last decision of a MachineHealthCheck about a Machine before a request, nil if none is
// known.
func (j *Judge) machineDecisionOf(by *Request, machine *Machine) *Decision {
	return j.lastDecision(by, cmp.Or(machine.Node, "Machine "+machine.Key()), func(check string) bool { return strings.HasPrefix(check, machine.Namespace+"/") })
}

func (j *Judge) lastDecision(by *Request, node string, matches func(check string) bool) *Decision {
	for _, decision := range slices.Backward(j.decisions[node]) {
		if matches(decision.Check) && strings.HasPrefix(by.UserAgent, decision.Client) && !decision.Time.After(by.Time) {
			j.figures.Decided++
			return &decision
		}
	}
	return nil
}

// decidedBy returns the version of a health check that a decision names. Without a decision, it returns all that may have
// been used in a window.
func decidedBy[T any](versions track[T], decision *Decision, w window) []*T {
	if decision == nil {
		return versions.during(w.known, w.rv)
	}
	return []*T{versions.at(decision.Version)}
}
