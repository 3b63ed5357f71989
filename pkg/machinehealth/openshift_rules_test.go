// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// deviation is a way in which this controller differs from OpenShift's.
type deviation string

// The deviations of M21, and of the rules that are named here.
const (
	startupFromCreation deviation = "no lastUpdated: never times out; each status change starts anew (M6.3)"
	liveNodeMissing     deviation = "NodeMissing from a cache (M6.2)"
	remediationCounts   deviation = "CR of a template: target counts as healthy (M6.1)"
	strictSpec          deviation = "entry without timeout acts at once; unknown strategy deletes (M3.4)"
	othersReadable      deviation = "one unparsable duration breaks the list of all MHCs (M3.4)"
	statusInPause       deviation = "paused: status frozen (M9.1)"
	backsOff            deviation = "no back-off (M14)"
	heedsUpgrades       deviation = "ignores upgrades (M9.1)"
	heedsLeases         deviation = "ignores node leases (M10.3)"
	oneControlPlane     deviation = "any number of control plane Machines at once (M13.1)"
	firstDecides        deviation = "several MHCs: the laxest decides (M7.4)"
	heedsExclusion      deviation = "pauses, exclusion and ambiguous Nodes of Machines (M5.4, M9.2)"
	leavesFirstKey      deviation = "a Machine that is handed over is left alone, whatever its MHC wants (M11.2)"
)

var deviations = []deviation{
	startupFromCreation, liveNodeMissing, remediationCounts, strictSpec, othersReadable, statusInPause, backsOff, heedsUpgrades, heedsLeases,
	oneControlPlane, firstDecides, heedsExclusion, leavesFirstKey,
}

// simpleCondition is a condition of a Node, and since when it has its status.
type simpleCondition struct {
	kind, status string
	age          time.Duration
}

// simpleMachine is a Machine in plain values, and what is around it. Ages are those at the moment of
// the decision.
type simpleMachine struct {
	name           string
	failed         bool
	deleting       bool
	owned          bool
	firstKey       bool
	created        time.Duration
	lastUpdated    time.Duration // Negative if there is none.
	named          bool          // It names a Node.
	cached, exists bool          // Whether the cache has that Node, and whether a live read finds it.
	conditions     []simpleCondition
	remediated     bool // An own CR exists.
	rounds         bool // Its owner has had rounds: the Machine must live for the longest delay.
	leased         bool // Somebody else holds the lease of the Node.
	withheld       bool // Another control plane Machine has the slot.
	other          bool // The threshold of another MachineHealthCheck forbids it.
	paused         bool
	excluded       bool
	ambiguous      bool
}

// simpleRule is an entry of unhealthyConditions. Its timeout may be missing, or "x".
type simpleRule struct{ kind, status, timeout string }

// simpleCheck is a MachineHealthCheck.
type simpleCheck struct {
	rules        []simpleRule
	maxUnhealthy string
	startup      time.Duration
	template     bool
	strategy     string // The annotation, empty if there is none.
	paused       bool
	upgrading    bool
}

// findings are what a controller makes of it: counts, whether it remediates, and the remediations that
// begin, as "delete m", "annotate m" or "create m".
type findings struct {
	expected, healthy int
	allowed           bool
	begins            []string
}

// openShift has the rules of OpenShift's controller as they were recorded, without the code of this
// one, and those deviations that are named.
type openShift struct {
	with map[deviation]bool
}

func newOpenShift(with ...deviation) openShift {
	o := openShift{with: map[deviation]bool{}}
	for _, d := range with {
		o.with[d] = true
	}
	return o
}

func (o openShift) find(check *simpleCheck, machines []simpleMachine) findings {
	problem, unreadable := false, false
	var rules []simpleRule
	for _, rule := range check.rules {
		switch {
		case rule.timeout == "x":
			unreadable = true
		case rule.timeout == "" && o.with[strictSpec]:
			problem = true
		default:
			rules = append(rules, rule)
		}
	}
	if !check.template && check.strategy == "other" && o.with[strictSpec] {
		problem = true
	}
	if (unreadable && !o.with[othersReadable]) || (check.paused && !o.with[statusInPause]) {
		return findings{expected: -1}
	}
	f := findings{expected: len(machines)}
	unhealthy := map[string]bool{}
	for i := range machines {
		m := &machines[i]
		healthy, bad := o.judge(check, rules, m)
		if unhealthy[m.name] = bad; healthy {
			f.healthy++
		}
	}
	f.allowed = f.expected-f.healthy <= limitOf(check.maxUnhealthy, f.expected)
	if !f.allowed || problem || unreadable || check.paused || (check.upgrading && o.with[heedsUpgrades]) {
		return f
	}
	for i := range machines {
		if m := &machines[i]; unhealthy[m.name] {
			if begin := o.remediate(check, m); begin != "" && !o.refuses(begin, m) {
				f.begins = append(f.begins, begin+" "+m.name)
			}
		}
	}
	slices.Sort(f.begins)
	return f
}

// limitOf is maxUnhealthy in Machines: percentages are rounded down, negative numbers are 0.
func limitOf(value string, total int) int {
	if percent, found := strings.CutSuffix(value, "%"); found {
		n, _ := strconv.Atoi(percent)
		return n * total / 100
	}
	n, _ := strconv.Atoi(value)
	return max(0, n)
}

// judge returns whether a Machine counts as healthy, and whether it needs a remediation.
func (o openShift) judge(check *simpleCheck, rules []simpleRule, m *simpleMachine) (healthy, needs bool) {
	pending := false
	switch {
	case m.failed:
		needs = true
	case !m.named:
		needs = o.startupOver(check, m)
	case !m.cached && o.with[liveNodeMissing]:
		needs, pending = !m.exists, m.exists
	case !m.cached:
		needs = true
	default:
		for _, rule := range rules {
			for _, condition := range m.conditions {
				timeout, _ := time.ParseDuration(rule.timeout)
				switch {
				case condition.kind != rule.kind || condition.status != rule.status:
				case condition.age >= timeout:
					needs = true
				default:
					pending = true
				}
			}
		}
	}
	healthy = !needs && !pending && !m.deleting && m.named && !m.firstKey && (!m.remediated || !o.with[remediationCounts])
	return healthy, needs && !m.deleting
}

// startupOver reports whether a Machine without a Node has waited for too long.
func (o openShift) startupOver(check *simpleCheck, m *simpleMachine) bool {
	switch {
	case check.startup == 0:
		return false
	case o.with[startupFromCreation]:
		start := m.created
		if m.lastUpdated >= 0 {
			start = min(start, m.lastUpdated)
		}
		return max(start, m.created-6*check.startup) >= check.startup
	default:
		return m.lastUpdated >= check.startup
	}
}

// remediate returns what OpenShift's controller does about a Machine that needs it.
func (o openShift) remediate(check *simpleCheck, m *simpleMachine) string {
	switch {
	case m.remediated:
		return "" // The CR exists.
	case m.firstKey && !m.failed && o.with[leavesFirstKey]:
		return ""
	case check.template:
		return "create"
	case check.strategy == "external-baremetal" && !m.failed:
		if m.firstKey {
			return "" // It is set already.
		}
		return "annotate"
	case m.owned:
		return "delete"
	default:
		return ""
	}
}

// refuses reports whether this controller waits for something that OpenShift's does not know.
func (o openShift) refuses(begin string, m *simpleMachine) bool {
	return (o.with[heedsExclusion] && (m.paused || m.excluded || m.ambiguous)) || (o.with[firstDecides] && m.other) || (o.with[oneControlPlane] && m.withheld) ||
		(o.with[backsOff] && begin == "delete" && m.rounds && m.created < DefaultBackOffCap && (m.failed || !m.named)) ||
		(o.with[heedsLeases] && m.leased && m.named && m.cached)
}
