// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// ourConditions are the types of conditions in status. Others are removed.
var ourConditions = []string{
	v1alpha1.ConditionDisabled, v1alpha1.ConditionRemediationAllowed, v1alpha1.ConditionSelectorOverlap,
	v1alpha1.ConditionStormActive, v1alpha1.ConditionStormCooldownActive,
	v1alpha1.ConditionLeftoverRemediations, v1alpha1.ConditionPlatformAccess, v1alpha1.ConditionStalled,
}

// conditions are those of a status in the making. They keep the time of their last transition.
type conditions struct {
	list       []metav1.Condition
	generation int64
	now        time.Time
}

// newConditions returns the conditions.
func (r *Report) newConditions() []metav1.Condition {
	c := &conditions{generation: r.in.Check.Generation, now: r.in.Now}
	for _, conditionType := range ourConditions {
		if old := meta.FindStatusCondition(r.in.Check.Status.Conditions, conditionType); old != nil {
			c.list = append(c.list, *old)
		}
	}
	c.setDisabled(r.in.TemplateProblem, r.in.TemplatesUnknown)
	allowed, reason, message := r.in.Policy.Context.Allowance()
	c.set(v1alpha1.ConditionRemediationAllowed, allowed, reason, message)
	c.setSelectorOverlap(r.in.Overlaps)
	c.setStorm(&r.in.Check.Spec, r.in.Policy.Context.Storm)
	c.setLeftoverRemediations(r.leftovers())
	c.setPlatformAccess(r.in.PlatformProblem)
	c.setStalled(&r.in.Policy.Context)
	return c.list
}

// set sets a condition that is true or false.
func (c *conditions) set(conditionType string, is bool, reason, message string) {
	c.setSince(conditionType, is, reason, message, c.now)
}

// setSince sets a condition, which has been so since an instant if it was not before.
func (c *conditions) setSince(conditionType string, is bool, reason, message string, since time.Time) {
	condition := metav1.Condition{
		Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: shorten(message),
		ObservedGeneration: c.generation, LastTransitionTime: seconds(since),
	}
	if is {
		condition.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&c.list, condition)
}

// remove removes a condition.
func (c *conditions) remove(conditionType string) { meta.RemoveStatusCondition(&c.list, conditionType) }

// setDisabled names the problem with the templates. The condition stays as it was until
// the templates are known.
func (c *conditions) setDisabled(problem *remediation.Problem, unknown bool) {
	switch {
	case problem != nil:
		c.set(v1alpha1.ConditionDisabled, true, problem.Reason, problem.Message)
	case !unknown:
		c.set(v1alpha1.ConditionDisabled, false, v1alpha1.ReasonEnabled, v1alpha1.MessageEnabled)
	}
}

// maxNamed is how many health checks or remediation objects a message names.
const maxNamed = 10

// setSelectorOverlap names the other NodeHealthChecks that select some of the same nodes, with the number of these.
func (c *conditions) setSelectorOverlap(shared map[string]int) {
	if len(shared) == 0 {
		c.set(v1alpha1.ConditionSelectorOverlap, false, v1alpha1.ReasonNoOverlap, "No other NodeHealthCheck selects any of the nodes")
		return
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		names = append(names, fmt.Sprintf("%q (%d)", name, shared[name]))
	}
	c.set(v1alpha1.ConditionSelectorOverlap, true, v1alpha1.ReasonOverlap,
		"Nodes are selected by other NodeHealthChecks too: "+object.First(maxNamed, names)+". The one that obtains the lease of a node first remediates it")
}

// setLeftoverRemediations names the leftovers. Finalizers of their remediators keep them.
func (c *conditions) setLeftoverRemediations(crs []*object.CR) {
	if len(crs) == 0 {
		c.remove(v1alpha1.ConditionLeftoverRemediations)
		return
	}
	var names []string
	for _, cr := range crs {
		names = append(names, cr.Kind+" "+strings.TrimPrefix(cr.Namespace+"/"+cr.Name, "/"))
	}
	c.set(v1alpha1.ConditionLeftoverRemediations, true, v1alpha1.ReasonAwaitingFinalizers,
		fmt.Sprintf("Remediation objects whose Nodes are gone are still being deleted (%d in all): %s", len(crs), object.First(maxNamed, names)))
}

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

// setPlatformAccess names the part of the platform that cannot be read (spec 10.2).
func (c *conditions) setPlatformAccess(problem *remediation.Problem) {
	if problem == nil {
		c.remove(v1alpha1.ConditionPlatformAccess)
		return
	}
	c.set(v1alpha1.ConditionPlatformAccess, false, problem.Reason,
		problem.Message+". Until then, the controller treats an upgrade that it knew of as still running, and does not notice a new one.")
}

// setStalled tells tools that know no other condition that nothing begins until you correct something (spec
// 18.7). It comes after setDisabled.
func (c *conditions) setStalled(context *remediation.Context) {
	disabled := meta.FindStatusCondition(c.list, v1alpha1.ConditionDisabled)
	switch {
	case disabled != nil && disabled.Status == metav1.ConditionTrue:
		c.set(v1alpha1.ConditionStalled, true, disabled.Reason, disabled.Message)
	case context.SpecProblem != "":
		c.set(v1alpha1.ConditionStalled, true, string(v1alpha1.DecidedInvalidSpec), context.SpecProblem)
	case context.Gate.Observed == 0:
		c.set(v1alpha1.ConditionStalled, true, v1alpha1.ReasonNoNodes, v1alpha1.MessageNoNodes)
	default:
		c.remove(v1alpha1.ConditionStalled)
	}
}
