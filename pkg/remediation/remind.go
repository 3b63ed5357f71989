// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// remind marks CRs again that are still being deleted a while after their Node has returned
// (spec 13.8). Some remediators only wake up when their CR changes, and keep it because the
// Node was gone when they last looked. A mark is older than its Node only once per return.
func (p *planner) remind() {
	node := p.Node
	if node.Constraints.NodeDeleted || node.Constraints.Conflict || node.Created.IsZero() {
		return
	}
	for _, cr := range node.Own {
		if !cr.Deleting() || cr.Succeeded == corev1.ConditionTrue || !p.returned(cr) {
			continue
		}
		due := node.Created.Add(v1alpha1.ReminderDelay)
		if deleted := cr.DeletionTimestamp.Add(v1alpha1.ReminderDelay); deleted.After(due) {
			due = deleted
		}
		if p.now.Before(due) {
			p.RecheckAt(due)
			continue
		}
		p.Do(MarkTimedOut{CR: cr, At: p.now, Anew: true})
	}
}

// returned reports whether the Node has been created since its CR was marked. A CR whose
// mark was denied when the Node was deleted has no mark. The CR of an unhealthy Node gets
// one anyway.
func (p *planner) returned(cr *object.CR) bool {
	since := cr.DeletionTimestamp.Time
	if cr.TimedOut() {
		since, _ = cr.TimedOutAt()
	} else if p.Node.Verdict.State == health.Unhealthy {
		return false
	}
	return !since.After(p.Node.Created) // Both in whole seconds: it may be the same one.
}
