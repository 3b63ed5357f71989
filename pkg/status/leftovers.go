// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// maxLeftoversNamed is how many leftovers the condition names.
const maxLeftoversNamed = 5

// leftovers returns the own CRs that are being deleted although their Node is gone, in the
// order of the nodes' names. They count for nothing else (spec 17.4).
func (r *Report) leftovers() []*object.CR {
	var all []*object.CR
	for _, result := range r.in.Results {
		node := result.Plan.Node
		for _, cr := range node.Own {
			if node.Constraints.NodeDeleted && cr.Deleting() {
				all = append(all, cr)
			}
		}
	}
	return all
}

// setLeftoverRemediations names the leftovers. Finalizers of their remediators keep them.
func setLeftoverRemediations(conditions *[]metav1.Condition, nhc *v1alpha1.NodeHealthCheck, crs []*object.CR, now time.Time) {
	if len(crs) == 0 {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionLeftoverRemediations)
		return
	}
	var names []string
	for _, cr := range crs[:min(len(crs), maxLeftoversNamed)] {
		names = append(names, cr.Kind+" "+strings.TrimPrefix(cr.Namespace+"/"+cr.Name, "/"))
	}
	list := strings.Join(names, ", ")
	if more := len(crs) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               v1alpha1.ConditionLeftoverRemediations,
		Status:             metav1.ConditionTrue,
		Reason:             v1alpha1.ReasonAwaitingFinalizers,
		Message:            fmt.Sprintf("Remediation objects whose Nodes are gone are still being deleted (%d in all): %s", len(crs), list),
		ObservedGeneration: nhc.Generation,
		LastTransitionTime: seconds(now),
	})
}
