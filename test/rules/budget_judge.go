// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// budgetName is how violations and timelines name a budget.
func budgetName(name string) string { return "RemediationBudget " + name }

func (j *Judge) judgeBudget(event Change, before *unstructured.Unstructured, by *Request) {
	var budget *Budget
	if event.Object != nil {
		var err error
		if budget, err = parseBudget(event.Object); err != nil {
			j.unreadable(event, err)
			return
		}
	}
	old := j.budgets[event.Key].at(event.ResourceVersion)
	add(j.budgets, event.Key, event.ResourceVersion, event.Time, budget)
	j.timelines.budget(event, old, budget, by)
	if budget == nil || old == nil || before == nil || by == nil || event.Gap {
		return
	}
	j.record("", budgetName(event.Key), onlyBudgetStatus(before, event.Object), j.notTooSoon(event, by))
	j.record("", budgetName(event.Key), kept("B5.2", old.Status.Conditions, budget.Status.Conditions)...)
}

// onlyBudgetStatus judges a write of the controller to a budget: it may only change its status.
func onlyBudgetStatus(before, after *unstructured.Unstructured) finding {
	for _, p := range changed(before.Object, after.Object, nil) {
		if p[0] != "status" {
			return finding{"B5.2", "the controller has changed " + p.String() + " of the budget"}
		}
	}
	return finding{rule: "B5.2"}
}

// writeInterval is the shortest time between two writes of a status (spec B5.2). One request may take longer than
// the other, by the time of a live read.
const writeInterval = time.Second

// notTooSoon judges that a process writes the status at most once per second (spec B5.2).
func (j *Judge) notTooSoon(event Change, by *Request) finding {
	if j.budgetWrites == nil {
		j.budgetWrites = map[string]*Request{}
	}
	last := j.budgetWrites[event.Key]
	j.budgetWrites[event.Key] = by
	soon := last != nil && last.UserAgent == by.UserAgent && j.toleranceAt(by) == j.config.Tolerance && by.Time.Sub(last.Time) < writeInterval-j.config.Tolerance.LiveRead
	return check("B5.2", soon, "the status is written twice in a second")
}

func (t timelines) budget(event Change, before, after *Budget, by *Request) {
	text := budgetName(event.Key)
	switch {
	case after == nil:
		text += " deleted"
	case before == nil || before.Generation != after.Generation:
		text += fmt.Sprintf(" generation %d: %s", after.Generation, compact(after.Spec))
	}
	if after != nil {
		text += " status: " + compact(after.Status)
	}
	name := budgetName(event.Key)
	t.nhcs[name] = append(t.nhcs[name], line{event.Time, event.ResourceVersion, text + author(by)})
}
