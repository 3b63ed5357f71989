// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// leaseWrite is a write of the lease of a node by the controller.
type leaseWrite struct {
	before, after *coordinationv1.Lease
	// steps are the durations of the steps that the NodeHealthCheck may have had.
	steps []time.Duration
	// nodes are the Nodes that it may have seen.
	nodes []*Node
}

// judgeLeaseWrite judges a write by which a lease is the one of a NodeHealthCheck.
func (j *Judge) judgeLeaseWrite(event Change, before, after *coordinationv1.Lease, by *Request) {
	nhc, held := strings.CutPrefix(holderOf(after), holderPrefix)
	if !held {
		return
	}
	w := j.windowOf(event, by, nhc, nodeOfLease(after))
	write := leaseWrite{before: before, after: after, nodes: j.nodes[w.node].during(w.known, w.rv)}
	for _, version := range j.nhcs[nhc].during(w.known, w.rv) {
		if version != nil {
			for _, s := range stepsOf(version) {
				write.steps = append(write.steps, s.duration())
			}
			if j.ofNoStep(w, version) {
				write.steps = append(write.steps, v1alpha1.ClassicDuration)
			}
		}
	}
	j.record(w.node, nhc, write.findings()...)
}

// ofNoStep reports whether the node may have had an own CR that belongs to no step, so that
// no T is its own.
func (j *Judge) ofNoStep(w window, nhc *NHC) bool {
	for key := range j.crsOf[w.node] {
		if some(j.crs[key].during(w.known, w.rv), func(cr *CR) bool { return cr != nil && cr.OwnedBy(w.nhc) && stepOf(stepsOf(nhc), cr) < 0 }) {
			return true
		}
	}
	return false
}

func (l *leaseWrite) findings() []finding {
	switch {
	case l.before == nil:
		return []finding{l.content("14.1"), check("14.1", transitionsOf(l.after) != 0, "a new lease has %d transitions", transitionsOf(l.after))}
	case holderOf(l.before) != holderOf(l.after):
		return []finding{
			l.content("14.4"),
			check("14.4", transitionsOf(l.after) != transitionsOf(l.before)+1, "a lease is taken over with %d transitions after %d", transitionsOf(l.after), transitionsOf(l.before)),
		}
	case !complete(l.before): // It is completed, or begins anew.
		return []finding{check("14.5", !complete(l.after), "a lease is renewed and stays incomplete")}
	case !l.before.Spec.AcquireTime.Equal(l.after.Spec.AcquireTime), l.beginsAgain():
		return []finding{l.content("14.2")}
	default:
		return []finding{l.renewal()}
	}
}

// beginsAgain reports whether a lease begins anew in the same second. Either it was completed, and so
// acquired later than renewed. Or its step did not begin, and it now has another duration or belongs to
// a new Node of that name.
func (l *leaseWrite) beginsAgain() bool {
	before, after := &l.before.Spec, &l.after.Spec
	again := before.RenewTime.Before(before.AcquireTime) ||
		(complete(l.after) && seconds(l.before) != seconds(l.after)) ||
		!slices.EqualFunc(l.before.OwnerReferences, l.after.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID })
	return again && after.AcquireTime.Equal(after.RenewTime)
}

// complete reports whether a lease has all its times.
func complete(lease *coordinationv1.Lease) bool {
	return lease.Spec.AcquireTime != nil && lease.Spec.RenewTime != nil && lease.Spec.LeaseDurationSeconds != nil
}

// duration is T of a step (spec 1.4).
func (s step) duration() time.Duration {
	if s.timeout == 0 {
		return v1alpha1.ClassicDuration
	}
	return s.timeout
}

// lasts reports whether a lease has the length that some step requires.
func (l *leaseWrite) lasts() bool {
	seconds := l.after.Spec.LeaseDurationSeconds
	return seconds != nil && slices.ContainsFunc(l.steps, func(t time.Duration) bool {
		// A part of a second counts as a whole one.
		return time.Duration(*seconds)*time.Second-(t+v1alpha1.LeaseBuffer) < time.Second && time.Duration(*seconds)*time.Second >= t+v1alpha1.LeaseBuffer
	})
}

// content judges a lease that begins (spec 14.1, 14.2, 14.4).
func (l *leaseWrite) content(rule string) finding {
	spec := &l.after.Spec
	owned := len(l.after.OwnerReferences) == 1 && some(l.nodes, func(node *Node) bool {
		owner := l.after.OwnerReferences[0]
		return node != nil && owner.APIVersion == "v1" && owner.Kind == "Node" && owner.Name == node.Name && owner.UID == node.UID && owner.Controller == nil
	})
	switch {
	case spec.AcquireTime == nil || spec.RenewTime == nil || !spec.AcquireTime.Equal(spec.RenewTime):
		return finding{rule, "a lease begins with another acquireTime than renewTime"}
	case !l.lasts():
		return check(rule, len(l.steps) > 0, "a lease begins with a duration of %v, and the steps take %v", seconds(l.after), l.steps)
	default:
		return check(rule, !owned, "a lease is not owned by its Node: %v", l.after.OwnerReferences)
	}
}

// renewal judges a write of the lease by its holder (spec 14.5, 14.6).
func (l *leaseWrite) renewal() finding {
	end, known := leaseEnd(l.before)
	newEnd, stillKnown := leaseEnd(l.after)
	due := !known || slices.ContainsFunc(l.steps, func(t time.Duration) bool {
		return stillKnown && end.Before(l.after.Spec.RenewTime.Add(t+time.Second)) // Its times are cut to whole seconds.
	})
	switch {
	case !stillKnown:
		return finding{"14.5", "a lease is renewed without a time or a duration"}
	case newEnd.Before(end):
		return finding{"14.5", "the end of a lease moves from " + end.Format(time.TimeOnly) + " to " + newEnd.Format(time.TimeOnly)}
	case transitionsOf(l.after) != transitionsOf(l.before):
		return finding{"14.5", "a lease is renewed with another number of transitions"}
	case !l.lasts():
		return check("14.5", len(l.steps) > 0, "a lease is renewed for %v, and the steps take %v", seconds(l.after), l.steps)
	default:
		return check("14.5", !due && len(l.steps) > 0, "a lease that lasts until %s is renewed before its time", end.Format(time.TimeOnly))
	}
}

func transitionsOf(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

func seconds(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// judgeLeaseRelease judges the deletion of a lease by the controller (spec 14.9, 14.7).
func (j *Judge) judgeLeaseRelease(event Change, lease *coordinationv1.Lease, by *Request) {
	if _, held := checkOfHolder(holderOf(lease)); held {
		j.judgeCheckLeaseRelease(event, lease, by)
		return
	}
	nhc, held := strings.CutPrefix(holderOf(lease), holderPrefix)
	w := j.windowOf(event, by, nhc, nodeOfLease(lease))
	if !held {
		j.record(w.node, "", check("14.9", holderOf(lease) != "", "the lease of %q is deleted", holderOf(lease)))
		return
	}
	overdue := lease.Spec.AcquireTime != nil && !w.at.Before(lease.Spec.AcquireTime.Add(v1alpha1.ClassicLeaseOverdue))
	gone := some(j.nodes[w.node].during(w.known, w.rv), func(node *Node) bool { return node == nil })
	needed := ""
	for key := range j.crsOf[w.node] {
		versions := j.crs[key].during(w.known, w.rv)
		if all(versions, func(cr *CR) bool { return cr != nil && cr.Node == w.node && cr.OwnedBy(nhc) }) {
			needed = versions[0].String()
		}
	}
	j.record(w.node, nhc, check("14.9", needed != "" && !gone && !overdue, "the lease is deleted while %s exists", needed))
}

// lastsForStep reports whether the lease lasts for the step that begins (spec 13.3, 14.1).
// What a step has taken to begin may be missing at its end.
func (j *Judge) lastsForStep(w window, s step) finding {
	const taken = longestSync + v1alpha1.LeaseBuffer
	held := false
	for _, lease := range j.leasesDuring(w.node, w.known, w.rv) {
		if holderOf(lease) != holderPrefix+w.nhc {
			continue
		}
		held = true
		if end, known := leaseEnd(lease); known && !end.Before(w.at.Add(s.duration()-taken)) {
			return finding{rule: "14.6"}
		}
	}
	return check("14.6", held, "a step begins whose lease does not last for it")
}
