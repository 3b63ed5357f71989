// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Unsettled returns what must not stay as it is at an instant, unless something changes.
// Nothing of it is a violation yet: the caller knows for how long it has been so.
func (j *Judge) Unsettled(now time.Time) []Violation {
	p := &snapshot{history: j.history, rv: j.last, now: now, checks: j.figures.Checks}
	left := p.unsettled()
	for i := range left {
		left[i].Timeline = j.timelines.of(left[i].Node, left[i].NHC)
	}
	return left
}

// snapshot is the state of everything at a resource version.
type snapshot struct {
	*history
	rv  uint64
	now time.Time
	// checks are how often each rule was checked.
	checks map[string]int
}

// unsettled returns what must not stay as it is.
func (p *snapshot) unsettled() []Violation {
	if p.undecided() || p.conflicting(p.rv, p.now) {
		return nil
	}
	var left []Violation
	for _, name := range slices.Sorted(maps.Keys(p.nhcs)) {
		if nhc := p.nhcs[name].at(p.rv); nhc != nil && nhc.DeletionTimestamp == nil {
			left = append(left, newSettledCheck(p, nhc).violations()...)
		}
	}
	left = append(left, p.leftLeases()...)
	left = append(left, p.unsettledMachines()...)
	return append(left, p.leftConfirmations()...)
}

// leftLeases returns leases without a CR (spec 14.9).
func (p *snapshot) leftLeases() []Violation {
	var left []Violation
	for _, name := range slices.Sorted(maps.Keys(p.leases)) {
		lease := p.leases[name].at(p.rv)
		nhc, held := strings.CutPrefix(holderOf(lease), holderPrefix)
		if !held || p.nhcs[nhc].at(p.rv) == nil {
			continue // It expires.
		}
		node := nodeOfLease(lease)
		p.checks["14.9"]++
		if !p.hasOwn(node, nhc) {
			left = append(left, Violation{Rule: "14.9", Node: node, NHC: nhc, Text: "a lease without CR"})
		}
	}
	return left
}

// leftConfirmations returns confirmations that have served their purpose (spec 16.6).
func (p *snapshot) leftConfirmations() []Violation {
	var left []Violation
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		node := p.nodes[name].at(p.rv)
		if node == nil || len(p.crsAt(name, p.rv)) > 0 {
			continue
		}
		if _, confirmed := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]; !confirmed {
			continue
		}
		for nhcName, versions := range p.nhcs {
			nhc := versions.at(p.rv)
			p.checks["16.6"]++
			if nhc != nil && nhc.Spec.Mode != v1alpha1.ModeDryRun && nhc.Selects(node) && !NotHealthy(nhc.Spec.UnhealthyConditions, node) {
				left = append(left, Violation{Rule: "16.6", Node: name, NHC: nhcName, Text: "the confirmation is left"})
				break
			}
		}
	}
	return left
}

func (p *snapshot) hasOwn(node, nhc string) bool {
	for _, cr := range p.crsAt(node, p.rv) {
		if cr.OwnedBy(nhc) {
			return true
		}
	}
	return false
}

// quorumWithout reports whether most control plane nodes are Ready without this one, or
// it is the only one, and not Ready (spec 12.5).
func (p *snapshot) quorumWithout(name string) bool {
	all, others := 0, 0
	etcd := p.hasEtcdLabels()
	if etcd && !p.nodes[name].at(p.rv).Etcd() {
		return true
	}
	for other, versions := range p.nodes {
		node := versions.at(p.rv)
		if node == nil || (etcd && !node.Etcd()) || (!node.ControlPlane() && other != name) { // A Machine of the control plane may name any Node.
			continue
		}
		all++
		if other != name && node.Ready() {
			others++
		}
	}
	return 2*others > all || (all == 1 && !p.nodes[name].at(p.rv).Ready())
}

// hasEtcdLabels reports whether some node has the label of etcd.
func (p *snapshot) hasEtcdLabels() bool {
	for _, versions := range p.nodes {
		if node := versions.at(p.rv); node != nil && node.Etcd() {
			return true
		}
	}
	return false
}

// slotTaken reports whether another control plane node is under remediation, or was when
// its Node was deleted (spec 12.2).
func (p *snapshot) slotTaken(node string) bool {
	for _, versions := range p.crs {
		cr := versions.at(p.rv)
		if cr == nil || cr.Node == node {
			continue
		}
		other := p.nodes[cr.Node].at(p.rv)
		if cr.ControlPlane || (other != nil && other.ControlPlane()) {
			return true
		}
	}
	return p.activity.activeAt(p.rv, p.now) && p.machineTakesSlotFrom(node)
}

// othersCR reports whether a CR of another owner is for the node or has a name that ours may need, or an own
// CR for another node has the name of this one (spec 11.4).
func (p *snapshot) othersCR(node, nhc string) bool {
	for _, versions := range p.crs {
		cr := versions.at(p.rv)
		switch {
		case cr == nil:
		case cr.OwnedBy(nhc):
			if cr.Name == node && cr.Node != node {
				return true
			}
		case cr.Node == node || cr.Name == node || strings.HasPrefix(cr.Name, node+"-"):
			return true
		}
	}
	return false
}

// leaseTaken reports whether another holder has a valid lease of the node.
func (p *snapshot) leaseTaken(node, nhc string) bool {
	return p.leaseTakenFrom(node, holderPrefix+nhc)
}

// leaseTakenFrom reports whether a holder other than this one has a valid lease of the node.
func (p *snapshot) leaseTakenFrom(node, holder string) bool {
	for key := range p.leasesOf[node] {
		if lease := p.leases[key].at(p.rv); lease != nil && holderOf(lease) != holder && LeaseValid(lease, p.now) {
			return true
		}
	}
	return false
}
