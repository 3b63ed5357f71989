// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// status is controller.newStatus, as far as plans depend on it.
func (p *process) status(s *sight, plans []remediation.NodePlan, outcomes []remediation.Outcome) *v1alpha1.NodeHealthCheckStatus {
	status := &v1alpha1.NodeHealthCheckStatus{ObservedNodes: new(int32(s.fleet.Observed)), HealthyNodes: new(int32(s.fleet.Healthy))}
	old := map[string]*v1alpha1.UnhealthyNode{}
	for i := range s.nhc.Status.UnhealthyNodes {
		old[s.nhc.Status.UnhealthyNodes[i].Name] = &s.nhc.Status.UnhealthyNodes[i]
	}
	for i := range plans {
		node := plans[i].Node
		entry := v1alpha1.UnhealthyNode{Name: node.Name, Remediations: p.entries(node, &outcomes[i])}
		unhealthy := node.Verdict.State == health.Unhealthy && !node.Constraints.Unselected
		lingering := node.Verdict.State == health.SoonUnhealthy && !node.Constraints.Unselected && old[node.Name] != nil
		if len(entry.Remediations) == 0 && !unhealthy && !lingering {
			continue
		}
		if node.Verdict.State == health.Healthy && !node.Constraints.NodeDeleted {
			entry.ConditionsHealthyTimestamp = new(metav1.NewTime(s.now.Truncate(time.Second)))
			if known := old[node.Name]; known != nil && known.ConditionsHealthyTimestamp != nil {
				entry.ConditionsHealthyTimestamp = known.ConditionsHealthyTimestamp
			}
			if plans[i].Delayed {
				entry.HealthyDelayed = new(true)
			}
		}
		p.decide(s, &entry, &plans[i], &outcomes[i])
		status.UnhealthyNodes = append(status.UnhealthyNodes, entry)
	}
	slices.SortFunc(status.UnhealthyNodes, func(a, b v1alpha1.UnhealthyNode) int { return cmp.Compare(a.Name, b.Name) })
	s.setStorm(status)
	return status
}

func (p *process) entries(node *remediation.Node, outcome *remediation.Outcome) []v1alpha1.Remediation {
	record := func(cr *object.CR, timedOut *metav1.Time) v1alpha1.Remediation {
		entry := v1alpha1.Remediation{Resource: cr.Reference(), Started: cr.CreationTimestamp, TimedOut: timedOut}
		entry.TemplateName, _ = cr.Template()
		return entry
	}
	has := func(crs []*object.CR, cr *object.CR) bool {
		return slices.ContainsFunc(crs, func(other *object.CR) bool { return other.UID == cr.UID })
	}
	var entries []v1alpha1.Remediation
	for _, cr := range node.Own {
		if has(outcome.Gone, cr) || (node.Constraints.NodeDeleted && (onItsWay(node, cr) || has(outcome.Deleted, cr))) {
			continue
		}
		at := (*metav1.Time)(nil)
		if recorded := recordedTimeout(node, cr); recorded != nil {
			at = recorded
		} else if ended, ok := outcome.TimedOut[cr.UID]; ok {
			at = new(metav1.NewTime(ended.Truncate(time.Second)))
		} else if marked, ok := cr.TimedOutAt(); ok && !cr.Deleting() {
			at = new(metav1.NewTime(marked))
		}
		entries = append(entries, record(cr, at))
	}
	entries = append(entries, node.Unreadable...)
	if outcome.NewCR() != nil {
		entries = append(entries, record(outcome.NewCR(), nil))
	}
	return entries
}

// writeStatus writes what differs, bound to what it was computed from.
func (p *process) writeStatus(s *sight, status *v1alpha1.NodeHealthCheckStatus) error {
	w, nhc := p.world, s.nhc
	if equality.Semantic.DeepEqual(&nhc.Status, status) {
		return nil
	}
	version := ""
	err := w.request("", "status of "+nhc.Name+": "+w.summary(status), func() error {
		live := w.nhc(nhc.Name)
		if live.ResourceVersion != nhc.ResourceVersion {
			return apierrors.NewConflict(w.nhcs.resource, nhc.Name, errors.New("stale"))
		}
		clone := live.DeepCopy()
		clone.Status = *status
		w.putNHC(clone)
		w.tempests[stormKey(clone)] = s.after
		version = clone.ResourceVersion
		return nil
	})
	if err == nil {
		p.wrote(nhc.Name, w.nhcs, version)
	}
	return err
}

func (w *world) summary(status *v1alpha1.NodeHealthCheckStatus) string {
	lines := []string{fmt.Sprintf("%d of %d healthy", *status.HealthyNodes, *status.ObservedNodes)}
	for _, entry := range status.UnhealthyNodes {
		line := entry.Name
		if entry.ConditionsHealthyTimestamp != nil {
			line += " healthy since " + w.clock(entry.ConditionsHealthyTimestamp.Time)
		}
		if entry.HealthyDelayed != nil {
			line += " (delayed)"
		}
		for _, remediation := range entry.Remediations {
			line += fmt.Sprintf(" %s/%s started %s", remediation.Resource.Kind, remediation.Resource.Name, w.clock(remediation.Started.Time))
			if remediation.TimedOut != nil {
				line += " timed out " + w.clock(remediation.TimedOut.Time)
			}
		}
		lines = append(lines, line)
	}
	if storm := health.StormOf(status); storm.Active {
		lines = append(lines, w.describeStorm(tempest{raging: true, begun: storm.Since, calm: storm.CalmSince}))
	}
	return strings.Join(lines, "; ")
}
