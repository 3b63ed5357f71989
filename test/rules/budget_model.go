// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// RemediationBudgets are judged where they are served.
var RemediationBudgets = nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural)

// Budget is a RemediationBudget, and what its spec says.
type Budget struct {
	*nhcv1alpha1.RemediationBudget
	// selector is for the labels of Nodes, or for those of the Machines in machineNamespace if that is set.
	selector         labels.Selector
	machineNamespace string
	topologyKey      string
	minInterval      time.Duration
	cooldown         time.Duration
	windows          []openTimes
	// invalid is set if the spec cannot be evaluated. Then it refuses all nodes that it selects
	// (spec B2.2), or every node if its selector cannot be evaluated either.
	invalid bool
}

// NewBudget returns a RemediationBudget that is ready to be asked. Machines means that Machines can be
// counted.
func NewBudget(object *nhcv1alpha1.RemediationBudget, machines bool) *Budget {
	selector, about, namespace := object.Spec.NodeSelector, object.Spec.MachineSelector, ""
	if about != nil && !machines { // Nothing of it can be evaluated (spec B3.5).
		return &Budget{RemediationBudget: object, selector: labels.Everything(), invalid: true}
	}
	b := &Budget{RemediationBudget: object, selector: labels.Everything(), topologyKey: object.Spec.TopologyKey}
	b.invalid = (selector == nil) == (about == nil)
	if about != nil {
		selector, namespace = &about.Selector, about.Namespace
	}
	if parsed, err := metav1.LabelSelectorAsSelector(selector); b.invalid || err != nil {
		b.invalid = true
	} else {
		b.selector, b.machineNamespace = parsed, namespace
	}
	if interval := object.Spec.MinInterval; interval != nil {
		b.minInterval, b.invalid = interval.Duration, b.invalid || interval.Duration <= 0
	}
	if cooldown := object.Spec.Cooldown; cooldown != nil {
		b.cooldown, b.invalid = cooldown.Duration, b.invalid || cooldown.Duration <= 0 || object.Spec.MaxUnhealthy == nil
	}
	for _, schedule := range object.Spec.ActiveDuring {
		window, valid := newOpenTimes(&schedule)
		b.invalid = b.invalid || !valid
		b.windows = append(b.windows, window)
	}
	return b
}

func parseBudget(object *unstructured.Unstructured, machines bool) (*Budget, error) {
	budget := &nhcv1alpha1.RemediationBudget{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, budget); err != nil {
		return nil, err
	}
	return NewBudget(budget, machines), nil
}

// group returns the group of a Node, or a Machine, with these labels, and false if the budget does not
// select it.
func (b *Budget) group(set labels.Set) (string, bool) {
	if b.topologyKey == "" {
		return "", b.selector.Matches(set)
	}
	return set[b.topologyKey], b.selector.Matches(set)
}

// sameScope reports whether two versions count the same nodes in the same groups.
func (b *Budget) sameScope(other *Budget) bool {
	return b.UID == other.UID && b.selector.String() == other.selector.String() && b.machineNamespace == other.machineNamespace &&
		b.topologyKey == other.topologyKey
}

// lastStarted returns when the last remediation of a group began by the status, zero if it does not
// say so.
func (b *Budget) lastStarted(group string) time.Time {
	for i := range b.Status.Groups {
		if g := &b.Status.Groups[i]; g.Name == group && g.LastStarted != nil {
			return g.LastStarted.Time
		}
	}
	return time.Time{}
}

// granule divides the times at which windows open and close in these tests.
const granule = 30 * time.Second

// applies reports whether a budget applied at all times of an interval, and whether at any.
func (b *Budget) applies(from, to time.Time) certainty {
	if b.invalid || len(b.windows) == 0 {
		return certain(true)
	}
	c := certainty{surely: true}
	at := func(now time.Time) {
		open := false
		for i := range b.windows {
			open = open || b.windows[i].openAt(now)
		}
		c.surely, c.maybe = c.surely && open, c.maybe || open
	}
	at(from)
	at(to)
	for edge := from.Truncate(granule).Add(granule); !edge.After(to); edge = edge.Add(granule) {
		at(edge.Add(-1))
		at(edge)
	}
	return c
}

// openTimes is a schedule: open for a while from each minute that matches (spec B2).
type openTimes struct {
	minute, hour func(int) bool
	location     *time.Location
	duration     time.Duration
}

// newOpenTimes reads a schedule, and reports whether it can be evaluated. The forms of cron that
// these tests use are numbers, * and steps for minute and hour, and * for the rest.
func newOpenTimes(schedule *nhcv1alpha1.BudgetSchedule) (openTimes, bool) {
	location, err := time.LoadLocation(schedule.TimeZone)
	fields := strings.Fields(schedule.Cron)
	if err != nil || len(fields) != 5 {
		return openTimes{}, false
	}
	return openTimes{minute: cronField(fields[0]), hour: cronField(fields[1]), location: location, duration: schedule.Duration.Duration}, schedule.Duration.Duration > 0
}

func cronField(field string) func(int) bool {
	step := 1
	value, stepped := strings.CutPrefix(field, "*/")
	switch n, err := strconv.Atoi(value); {
	case field == "*":
	case stepped && err == nil:
		step = n
	case err == nil:
		return func(value int) bool { return value == n }
	default:
		return func(int) bool { return false }
	}
	return func(value int) bool { return value%step == 0 }
}

// openAt reports whether a window is open.
func (o *openTimes) openAt(now time.Time) bool {
	if o.location == nil {
		return false
	}
	for moment := now.Truncate(time.Minute); moment.After(now.Add(-o.duration)); moment = moment.Add(-time.Minute) {
		if local := moment.In(o.location); o.minute(local.Minute()) && o.hour(local.Hour()) {
			return true
		}
	}
	return false
}

// certainty says whether something holds, as far as that is known.
type certainty struct{ surely, maybe bool }

func certain(holds bool) certainty { return certainty{holds, holds} }

// or combines two facts by or.
func (c certainty) or(other certainty) certainty {
	return certainty{c.surely || other.surely, c.maybe || other.maybe}
}

// and combines two facts by and.
func (c certainty) and(other certainty) certainty {
	return certainty{c.surely && other.surely, c.maybe && other.maybe}
}

// bounds is a number that is not known exactly.
type bounds struct{ min, max int }

func (b *bounds) add(c certainty) {
	if c.surely {
		b.min++
	}
	if c.maybe {
		b.max++
	}
}

// has reports whether the number can be n.
func (b bounds) has(n int) bool { return b.min <= n && n <= b.max }
