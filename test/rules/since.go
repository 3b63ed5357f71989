// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// span is between which two instants a process takes a condition to have begun, depending on what it has seen
// of the Node (spec 7.2).
type span struct{ earliest, latest time.Time }

// observerLag is how long before the judge a process may see a version of a Node.
const observerLag = time.Second

// followConditions notes since when the conditions of a version may have had their status, given the version
// before it of the same Node, if there was one. A process sees it so long after the judge at most.
func (n *Node) followConditions(before *Node, seen time.Time, lag time.Duration) {
	n.begun = map[corev1.NodeConditionType]span{}
	for _, condition := range n.Conditions {
		if condition.LastTransitionTime.IsZero() {
			continue
		}
		if before == nil || before.UID != n.UID {
			n.begun[condition.Type] = firstSeen(&condition, seen, lag)
			continue
		}
		i := slices.IndexFunc(before.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition.Type })
		if i < 0 {
			n.begun[condition.Type] = firstSeen(&condition, seen, lag)
			continue
		}
		n.begun[condition.Type] = nextSeen(&condition, &before.Conditions[i], before.begun[condition.Type], seen, lag)
	}
}

// firstSeen is the span by a process that knows nothing of the condition: a time ahead of it does not count.
func firstSeen(condition *corev1.NodeCondition, seen time.Time, lag time.Duration) span {
	at := condition.LastTransitionTime.Time
	if at.After(seen) {
		return span{seen.Add(-observerLag), earlier(seen.Add(lag), at)}
	}
	return span{at, at}
}

// nextSeen is the span after a version in which the condition was otherwise. A process may have seen that
// version, or may not: it may be new, or may have listed Nodes anew.
func nextSeen(condition, before *corev1.NodeCondition, begun span, seen time.Time, lag time.Duration) span {
	next := firstSeen(condition, seen, lag)
	same := condition.Status == before.Status && !before.LastTransitionTime.IsZero()
	if same && condition.LastTransitionTime.Equal(&before.LastTransitionTime) {
		return begun
	}
	former := begun.latest.Truncate(time.Second)
	for _, given := range []time.Time{before.LastTransitionTime.Time, before.LastHeartbeatTime.Time} {
		if given.After(former) {
			former = given
		}
	}
	if condition.LastTransitionTime.Time.Before(former) {
		next.latest = seen.Add(lag) // The reporter's clock has gone back.
	}
	if same && begun.earliest.Before(next.earliest) {
		next.earliest = begun.earliest // The time has moved, and the status has not.
	}
	return next
}

// lasts returns when a condition has lasted for a duration, for the first and for the last process that finds it
// so.
func (n *Node) lasts(condition *corev1.NodeCondition, duration time.Duration) span {
	if condition.LastTransitionTime.IsZero() {
		return span{never, never} // It is not known for how long it has lasted.
	}
	begun, followed := n.begun[condition.Type]
	if !followed {
		begun = span{condition.LastTransitionTime.Time, condition.LastTransitionTime.Time}
	}
	return span{bounded(begun.earliest, n.Created).Add(duration), bounded(begun.latest, n.Created).Add(duration)}
}

// bounded returns the later one of two instants: nothing lasts for longer than the Node.
func bounded(begun, created time.Time) time.Time {
	if begun.Before(created) {
		return created
	}
	return begun
}

// first returns the span of the one of two that ends first, for each observer.
func (s span) first(other span) span {
	if other.earliest.Before(s.earliest) {
		s.earliest = other.earliest
	}
	if other.latest.Before(s.latest) {
		s.latest = other.latest
	}
	return s
}

// undecided reports whether processes that have seen different things may differ about whether a node is
// unhealthy by now. That ends once the condition has lasted for its duration by all of them.
func (p *snapshot) undecided() bool {
	for _, versions := range p.nodes {
		node := versions.at(p.rv)
		if node == nil {
			continue
		}
		for _, track := range p.nhcs {
			if nhc := track.at(p.rv); nhc != nil && nhc.Selects(node) && p.differ(nhc.Spec.UnhealthyConditions, node) {
				return true
			}
		}
		for _, track := range p.mhcs {
			if mhc := track.at(p.rv); mhc != nil && p.differ(mhc.conditions, node) {
				return true
			}
		}
	}
	return false
}

// differ reports whether some process finds the node unhealthy by now and another one does not.
func (p *snapshot) differ(rules []v1alpha1.UnhealthyCondition, node *Node) bool {
	return mayBeUnhealthy(rules, node, p.now) && !Unhealthy(rules, node, p.now)
}

// seenAnew notes that a process has started. For it, a time that is ahead counts from its own start, or is over
// (spec 7.2). A process whose view differs from that of others may begin later.
func (n *Node) seenAnew(start time.Time, lag time.Duration) {
	for _, condition := range n.Conditions {
		begun, followed := n.begun[condition.Type]
		at := condition.LastTransitionTime.Time
		if followed && at.After(begun.latest) && start.After(begun.earliest) {
			if lag == 0 {
				at = earlier(start, at)
			}
			begun.latest = bounded(begun.latest, at)
			n.begun[condition.Type] = begun
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
