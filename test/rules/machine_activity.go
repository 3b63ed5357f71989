// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// otherLeader is the leader lease of another controller of MachineHealthChecks, and otherOff the
// feature gate that turns that one off (spec M4.1).
const (
	otherLeader = "cluster-api-provider-healthcheck-leader"
	otherOff    = "MachineAPIOperatorDisableMachineHealthCheckController"
)

// activity tells when the controller looks after MachineHealthChecks.
type activity struct {
	// gates are the versions of the feature gates, and leaders those of the other lease, by key.
	gates   track[Gates]
	leaders map[string]track[coordinationv1.Lease]
	// gatesServed means that the platform has feature gates.
	gatesServed bool
	// starts are when processes have started: each has to find out first.
	starts []time.Time
}

// Gates is what the feature gates say: whether the other controller is off.
type Gates struct{ off bool }

func parseGates(object *unstructured.Unstructured) *Gates {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "featureGates")
	gates := &Gates{off: len(list) > 0}
	for _, item := range list {
		version, _ := item.(map[string]any)
		enabled, _, _ := unstructured.NestedSlice(version, "enabled")
		found := false
		for _, item := range enabled {
			gate, _ := item.(map[string]any)
			found = found || gate["name"] == otherOff
		}
		gates.off = gates.off && found
	}
	return gates
}

// activationTime is how long it may take until the controller notices another one (spec M4.2).
const activationTime = 5 * time.Second

// activeAt reports whether the controller has to be active at an instant.
func (a *activity) activeAt(rv uint64, now time.Time) bool {
	if gates := a.gates.at(rv); a.gatesServed && (gates == nil || !gates.off) {
		return false
	}
	for _, versions := range a.leaders {
		if lease := versions.at(rv); lease != nil && LeaseValid(lease, now) {
			return false
		}
	}
	return true
}

// mayBeActive reports whether the controller can have been active when it made a request: at some
// time since shortly before.
func (a *activity) mayBeActive(w window) bool {
	since := w.known.Add(-activationTime)
	gatesOff := !a.gatesServed || some(a.gates.during(since, w.rv), func(gates *Gates) bool { return gates != nil && gates.off })
	for _, versions := range a.leaders {
		free := func(lease *coordinationv1.Lease) bool { return !LeaseValid(lease, w.at) || !LeaseValid(lease, since) }
		if !some(versions.during(since, w.rv), free) {
			return false
		}
	}
	return gatesOff
}

// validWithin reports whether a lease was valid at some time of an interval.
func validWithin(lease *coordinationv1.Lease, from, to time.Time) bool {
	end, known := leaseEnd(lease)
	return known && !end.Before(from) && !lease.Spec.RenewTime.After(to.Add(holderAhead))
}

// Started tells that a process of the controller has started.
func (j *Judge) Started(now time.Time) {
	j.activity.starts = append(j.activity.starts, now)
	for _, versions := range j.nodes {
		for _, version := range versions {
			if version.object != nil {
				version.object.seenAnew(now, j.config.NodeLag)
			}
		}
	}
}

// surelyActive reports whether the controller has been active all the time, and for long enough to
// know of it.
func (a *activity) surelyActive(w window) bool {
	since := w.known.Add(-activationTime)
	if slices.ContainsFunc(a.starts, since.Before) {
		return false
	}
	if a.gatesServed && !all(a.gates.during(since, w.rv), func(gates *Gates) bool { return gates != nil && gates.off }) {
		return false
	}
	for _, versions := range a.leaders {
		if some(versions.during(since, w.rv), func(lease *coordinationv1.Lease) bool { return validWithin(lease, since, w.at) }) {
			return false
		}
	}
	return true
}

// conflicting reports whether MachineHealthChecks keep the NodeHealthChecks from working, because
// another controller looks after them (spec 6.9).
func (h *history) conflicting(rv uint64, now time.Time) bool {
	if h.activity.activeAt(rv, now) {
		return false
	}
	checks, act := 0, false
	for _, versions := range h.mhcs {
		if mhc := versions.at(rv); mhc != nil {
			checks++
			act = act || !mhc.forTermination()
		}
	}
	return checks > 1 || (checks == 1 && act)
}

// claimed reports whether a Node is left to a MachineHealthCheck (spec M15.1), or to a remediation of
// its Machine that no lease may stand for (spec M15.2).
func (h *history) claimed(node string, rv uint64, now time.Time) bool {
	active := h.activity.activeAt(rv, now)
	for _, versions := range h.machines {
		machine := versions.at(rv)
		if machine == nil || machine.Node != node {
			continue
		}
		if machine.Has(v1beta1.AnnotationExternalRemediation) || machine.deletedBefore(h.nodes[node].at(rv)) {
			return true
		}
		for _, versions := range h.mhcs {
			if mhc := versions.at(rv); active && mhc != nil && mhc.Selects(machine) && !mhc.forTermination() {
				return true
			}
		}
	}
	return false
}
