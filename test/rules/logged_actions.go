// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// LoggedAction is what a process logs before it acts on a node: by which version of a health check the action was
// planned.
type LoggedAction struct {
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

// SetLoggedActions tells what the processes have logged until now, in any order. Where nothing is logged, the judge
// allows all versions that a process may have seen.
func (j *Judge) SetLoggedActions(actions []LoggedAction) {
	j.logged = map[string][]LoggedAction{}
	for _, action := range slices.SortedFunc(slices.Values(actions), func(a, b LoggedAction) int { return a.Time.Compare(b.Time) }) {
		j.logged[action.Node] = append(j.logged[action.Node], action)
	}
}

// loggedAction returns the last action of a NodeHealthCheck on a node before a request, nil if none is known.
func (j *Judge) loggedAction(by *Request, nhc, node string) *LoggedAction {
	return j.lastLogged(by, node, func(check string) bool { return check == nhc })
}

// loggedMachineAction returns the last action of a MachineHealthCheck on a Machine before a request, nil if none is known.
func (j *Judge) loggedMachineAction(by *Request, machine *Machine) *LoggedAction {
	return j.lastLogged(by, cmp.Or(machine.Node, "Machine "+machine.Key()), func(check string) bool { return strings.HasPrefix(check, machine.Namespace+"/") })
}

func (j *Judge) lastLogged(by *Request, node string, matches func(check string) bool) *LoggedAction {
	for _, action := range slices.Backward(j.logged[node]) {
		if matches(action.Check) && strings.HasPrefix(by.UserAgent, action.Client) && !action.Time.After(by.Time) {
			j.figures.Versioned++
			return &action
		}
	}
	return nil
}

// used returns the version of a health check that an action was planned by. Where that is not logged, it returns all
// versions that may have been used in a window.
func used[T any](versions track[T], logged *LoggedAction, w window) []*T {
	if logged == nil {
		return versions.during(w.known, w.rv)
	}
	return []*T{versions.at(logged.Version)}
}
