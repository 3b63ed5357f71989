// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/status"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// exception is something that a process knows and another one need not, and that shows in what is stored.
type exception struct {
	name, rule string
	// takeOut removes it from an object of a resource.
	takeOut func(x *twin, resource string, object map[string]any)
}

// exceptions are all that may differ between a leader and its twin.
var exceptions = []exception{
	{name: "a node that waits asks budgets again only when one that refuses it changes, so their lists are from different times", rule: "B5.1", takeOut: func(_ *twin, resource string, object map[string]any) {
		for _, condition := range entriesOf(object, "conditions") {
			if resource == budgets.Resource && condition["reason"] == string(v1alpha1.DecidedBudgetExhausted) {
				delete(condition, "message")
			}
		}
		eachDecision(object, func(decision map[string]any) {
			if decision["reason"] == string(v1alpha1.DecidedBudgetExhausted) {
				delete(decision, "message")
				delete(decision, "nextCheckTime")
			}
		})
	}},
	{name: "a held lease is renewed at any sync after a minute", rule: "14.5", takeOut: func(_ *twin, resource string, object map[string]any) {
		if resource == leases.Resource {
			delete(fieldsOf(object, "spec"), "renewTime")
		}
	}},
	{name: "only the leader knows when a node failed whose clock is wrong", rule: "7.2", takeOut: func(x *twin, _ string, object map[string]any) {
		for _, entry := range slices.Concat(entriesOf(object, "unhealthyNodes"), entriesOf(object, "unhealthyMachines")) {
			if x.misreported.HasAny(fmt.Sprint(entry["name"]), fmt.Sprint(entry["node"])) {
				delete(entry, "detected")
				delete(entry, "trigger")
			}
		}
	}},
	{name: "what a new leader has not read yet keeps a node waiting, and its decision says so for a moment", rule: "21.2", takeOut: func(_ *twin, resource string, object map[string]any) {
		delete(fieldsOf(object, "status"), "lastUpdateTime")
		for _, condition := range entriesOf(object, "conditions") {
			if resource == budgets.Resource {
				delete(condition, "lastTransitionTime")
			}
		}
		eachDecision(object, func(decision map[string]any) {
			delete(decision, "since")
			if decision["reason"] == string(v1alpha1.DecidedControlPlaneBusy) {
				delete(decision, "message") // It may not name the node.
			}
		})
	}},
}

// fieldsOf returns a part of an object, nil if it has none.
func fieldsOf(object map[string]any, part string) map[string]any {
	fields, _ := object[part].(map[string]any)
	return fields
}

// entriesOf returns the entries of a list in status.
func entriesOf(object map[string]any, list string) []map[string]any {
	items, _ := fieldsOf(object, "status")[list].([]any)
	entries := make([]map[string]any, 0, len(items))
	for _, item := range items {
		entries = append(entries, item.(map[string]any))
	}
	return entries
}

// eachDecision calls a function with each decision in status.
func eachDecision(object map[string]any, do func(decision map[string]any)) {
	for _, list := range []string{"unhealthyNodes", "unhealthyMachines"} {
		for _, entry := range entriesOf(object, list) {
			if decision := fieldsOf(entry, "decision"); decision != nil {
				do(decision)
			}
		}
	}
}

// repeated reports whether a new leader may tell an event again: it is about such a moment, or status does not show it
// (spec 19.3).
func (x *twin) repeated(event *memapi.Change) bool {
	reason, _, _ := unstructured.NestedString(event.Object.Object, "reason")
	return reason == status.ReasonOldRemediationCR || event.Time.Before(x.begun.Add(20*time.Second)) && (strings.HasPrefix(reason, "Budget") || reason == status.ReasonRemediationSkipped)
}

// excepts reports whether a gauge shows what an exception takes out of the status of budgets.
func excepts(gauge string) bool {
	return strings.HasPrefix(gauge, "nhc_budget_waiting_nodes")
}
