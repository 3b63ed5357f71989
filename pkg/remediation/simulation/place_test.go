// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strconv"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

func retryOf(nhc string, node *remediation.Node) retryID {
	return retryID{nhc: nhc, node: node.Name, state: node.Verdict.State, deleted: node.Constraints.NodeDeleted}
}

// takePlace is controller.takePlace: the first node by name that may begin gets the
// place.
func (p *process) takePlace(v *view, s *sight, reserve bool) {
	for i := range s.nodes {
		node := &s.nodes[i]
		if !node.ControlPlane || node.Verdict.State != health.Unhealthy || len(node.Own) > 0 || node.Constraints.Refusal(true) != "" {
			continue
		}
		holder := &p.place
		if holder.table != nil && !slices.ContainsFunc(p.informers(), func(i *informer) bool { return i.table == holder.table && i.version < holder.version }) {
			*holder = placeHolder{}
		}
		if !holder.until.IsZero() && !s.now.Before(holder.until) {
			*holder = placeHolder{}
		}
		s.slotTaken[node.Name] = (holder.node != "" && holder.node != node.Name) || p.placeTaken(v, node.Name)
		if reserve && !s.slotTaken[node.Name] && holder.node == "" && begins(s.plan(node, s.now)) {
			*holder = placeHolder{nhc: s.nhc.Name, node: node.Name}
		}
	}
}

func (p *process) placeTaken(v *view, node string) bool {
	for _, kind := range sorted(v.remediations) {
		if p.world.unreadable[kind] {
			for _, nhc := range v.nhcs {
				for _, entry := range nhc.nhc.Status.UnhealthyNodes {
					other := v.nodes[entry.Name]
					if entry.Name != node && other != nil && controlPlane(other.node) && slices.ContainsFunc(entry.Remediations, func(r v1alpha1.Remediation) bool { return r.Resource.Kind == kind }) {
						return true
					}
				}
			}
			continue
		}
		for _, i := range v.remediations[kind] {
			other := v.nodes[i.cr.Node()]
			_, labelled := i.cr.Labels[v1alpha1.LabelControlPlane]
			if i.cr.Node() != node && (labelled || (other != nil && controlPlane(other.node))) && (other != nil || !i.cr.Deleting()) {
				return true
			}
		}
	}
	return false
}

// settlePlace is controller.settlePlace.
func (p *process) settlePlace(s *sight, plans []remediation.NodePlan, outcomes []remediation.Outcome) {
	holder := &p.place
	if holder.nhc != s.nhc.Name || holder.node == "" {
		return
	}
	for i := range plans {
		if plans[i].Node.Name != holder.node {
			continue
		}
		if created := outcomes[i].NewCR(); created != nil {
			holder.table = p.world.remediations[created.Kind]
			holder.version, _ = strconv.Atoi(created.ResourceVersion)
			holder.until = time.Time{}
			return
		}
		if outcomes[i].Err != nil && holder.table == nil {
			holder.until = s.now.Add(time.Minute)
			return
		}
	}
	if holder.table == nil && holder.until.IsZero() {
		*holder = placeHolder{}
		p.soil()
	}
}
