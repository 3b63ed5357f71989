// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// NodeHealthCheck returns advice about one that admission accepts.
func NodeHealthCheck(nhc *v1alpha1.NodeHealthCheck, facts *Facts) []Finding {
	var f findings
	selected := selectedNodes(&nhc.Spec.Selector, facts.Nodes)
	if facts.NodesKnown && len(selected) == 0 {
		f.advise("spec.selector", "check the labels with kubectl get nodes --show-labels", "No node has these labels")
	}
	members := len(slices.DeleteFunc(slices.Clone(selected), func(node *corev1.Node) bool { return !remediation.IsControlPlane(node.Labels) }))
	f.mixed("spec.selector", "node", members, len(selected))
	if slices.ContainsFunc(selected, view.Virtual) {
		f.advise("spec.selector", "leave them out with "+view.LeaveOutVirtual, "It selects virtual nodes, which no remediation repairs")
	}
	f.severalRoles("spec.selector", &nhc.Spec.Selector)
	f.leavesOutEtcd(&nhc.Spec.Selector, selected, facts.NodesKnown)
	f.overlaps(nhc, selected, facts)
	f.gate(&nhc.Spec, len(selected))
	f.mostAtOnce(&nhc.Spec, selected, facts)
	f.storm(&nhc.Spec)
	f.conditions(nhc.Spec.UnhealthyConditions, "duration", "A node is remediated", selected)
	f.steps(&nhc.Spec, facts)
	return f
}

// selectedNodes returns the nodes that a selector selects.
func selectedNodes(selector *metav1.LabelSelector, nodes []*corev1.Node) (selected []*corev1.Node) {
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	for _, node := range nodes {
		if matcher.Matches(labels.Set(node.Labels)) {
			selected = append(selected, node)
		}
	}
	return selected
}

// mixed judges whether a selector selects the control plane and others.
func (f *findings) mixed(path, noun string, members, selected int) {
	if members > 0 && members < selected {
		f.advise(path, "write one for the control plane, and one for the workers", "It selects %s of the control plane and %s: one limit for both fits neither",
			view.Counted(members, noun), view.Counted(selected-members, "other "+noun))
	}
}

// severalRoles judges whether a selector asks for several roles of one node. Those of the control plane are one.
func (f *findings) severalRoles(path string, selector *metav1.LabelSelector) {
	roles := map[string]string{}
	add := func(label string) {
		role, isRole := strings.CutPrefix(label, "node-role.kubernetes.io/")
		if slices.Contains([]string{"master", "controlplane"}, role) {
			role = "control-plane"
		}
		if isRole {
			roles[role] = label
		}
	}
	for label := range selector.MatchLabels {
		add(label)
	}
	for _, requirement := range selector.MatchExpressions {
		if slices.Contains([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpExists}, requirement.Operator) {
			add(requirement.Key)
		}
	}
	if len(roles) > 1 {
		f.advise(path, "if nodes with either label are meant, write one object for each label", "All of matchLabels and matchExpressions have to hold: it selects only nodes with both labels, %s",
			strings.Join(slices.Sorted(maps.Values(roles)), " and "))
	}
}

// leavesOutEtcd judges whether a selector that selects workers by the labels that they lack leaves out all members
// of etcd. What selects by a label that nodes have is meant for these nodes.
func (f *findings) leavesOutEtcd(selector *metav1.LabelSelector, selected []*corev1.Node, known bool) {
	member := func(node *corev1.Node) bool { return remediation.IsControlPlane(node.Labels) }
	if len(selector.MatchLabels) > 0 || (known && !slices.ContainsFunc(selected, member)) {
		return
	}
	roles := slices.Clone(rolesOfEtcd)
	if slices.ContainsFunc(selected, func(node *corev1.Node) bool { _, has := node.Labels[roleOfArbiter]; return has }) {
		roles = append(roles, roleOfArbiter)
	}
	missing := slices.Clone(roles)
	for _, requirement := range selector.MatchExpressions {
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpExists:
			return
		case metav1.LabelSelectorOpDoesNotExist:
			missing = slices.DeleteFunc(missing, func(label string) bool { return label == requirement.Key })
		case metav1.LabelSelectorOpNotIn: // Leaves out some values of a label at most.
		}
	}
	if len(missing) > 0 && len(selector.MatchExpressions) > 0 {
		f.advise("spec.selector", "leave out the nodes with the label "+strings.Join(missing, " and the nodes with the label ")+" (operator DoesNotExist)",
			"It may select members of etcd: distributions run them on nodes with the label %s", strings.Join(roles, " or "))
	}
}

// rolesOfEtcd are the labels of the nodes that run etcd.
var rolesOfEtcd = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd"}

// roleOfArbiter is the label of a member of etcd that few clusters have.
const roleOfArbiter = "node-role.kubernetes.io/arbiter"

// overlaps judges whether other NodeHealthChecks select the same nodes (spec 14).
func (f *findings) overlaps(nhc *v1alpha1.NodeHealthCheck, selected []*corev1.Node, facts *Facts) {
	for _, other := range facts.NodeHealthChecks {
		if other.Name == nhc.Name {
			continue
		}
		var shared []string
		for _, node := range selectedNodes(&other.Spec.Selector, selected) {
			shared = append(shared, node.Name)
		}
		if len(shared) > 0 {
			f.advise("spec.selector", "make the selectors disjoint", "NodeHealthCheck %s selects %s of these, too (%s): whichever begins first remediates, with its own limits",
				other.Name, view.Counted(len(shared), "node"), view.Some(shared, 3))
		}
	}
}

// gate judges minHealthy and maxUnhealthy (spec 8). Selected is 0 if it is not known.
func (f *findings) gate(spec *v1alpha1.NodeHealthCheckSpec, selected int) {
	field, value := "spec.minHealthy", spec.MinHealthy
	if value == nil {
		field, value = "spec.maxUnhealthy", spec.MaxUnhealthy
	}
	if value == nil {
		return
	}
	gate := func(observed, healthy int) health.Gate {
		return health.EvaluateGate(spec.MinHealthy, spec.MaxUnhealthy, observed, healthy)
	}
	const allow = "allow at least one node to be unhealthy"
	numbers := poolSizes(value)
	switch {
	case !slices.ContainsFunc(numbers, func(n int) bool { return gate(n, n-1).Open }):
		f.advise(field, allow, "With %s, no remediation ever begins, however many nodes there are", value.String())
	case !slices.ContainsFunc(numbers, func(n int) bool { return n > 1 && !gate(n, 0).Open }):
		f.advise(field, "lower what may be unhealthy, so that a failure of what all nodes need does not reboot all of them", "With %s, all nodes may be remediated at once", value.String())
	case selected == 0:
	case !gate(selected, selected-1).Open:
		f.advise(field, allow, "It selects %s, and %d of them must be healthy: no remediation ever begins", view.Counted(selected, "node"), gate(selected, selected).Required)
	case selected > 1 && gate(selected, 0).Open:
		f.advise(field, "lower what may be unhealthy", "It selects %s, and all of them may be remediated at once", view.Counted(selected, "node"))
	}
}

// mostAtOnce judges whether more than half of the nodes may be remediated at the same time, and no budget spreads that.
func (f *findings) mostAtOnce(spec *v1alpha1.NodeHealthCheckSpec, selected []*corev1.Node, facts *Facts) {
	spreads := func(budget *nhcv1alpha1.RemediationBudget) bool {
		paced := budget.Spec.NodeSelector != nil && (budget.Spec.MaxConcurrent != nil || budget.Spec.MinInterval != nil)
		return paced && (len(selected) == 0 || len(selectedNodes(budget.Spec.NodeSelector, selected)) > 0)
	}
	if slices.ContainsFunc(facts.Budgets, spreads) {
		return
	}
	const do = "if that is too much, add a RemediationBudget with maxConcurrent: 1 for these nodes"
	total, most := len(selected), 0
	if total == 0 && spec.MinHealthy != nil && spec.MinHealthy.Type == intstr.Int && spec.MinHealthy.IntValue() > 0 {
		f.advise("spec.minHealthy", do, "With %s, all but %s may be remediated at once, however many nodes there are", spec.MinHealthy.String(), spec.MinHealthy.String())
	}
	for most < total && health.EvaluateGate(spec.MinHealthy, spec.MaxUnhealthy, total, total-most-1).Open {
		most++
	}
	if 2*most > total && most < total {
		field := "spec.minHealthy"
		if spec.MinHealthy == nil {
			field = "spec.maxUnhealthy"
		}
		f.advise(field, do, "It selects %s, and %d of them may be remediated at once", view.Counted(total, "node"), most)
	}
}

// poolSizes are the numbers of nodes that a limit is tried with.
func poolSizes(limit *intstr.IntOrString) []int {
	numbers := make([]int, 0, largest+1)
	for n := 1; n <= largest; n++ {
		numbers = append(numbers, n)
	}
	// A number that is no percentage stands for itself: one more node shows what it does.
	if value, ok := health.Scale(*limit, 1); ok && value > 1 {
		numbers = append(numbers, value+1)
	}
	return numbers
}

// storm judges whether there is storm recovery (spec 9).
func (f *findings) storm(spec *v1alpha1.NodeHealthCheckSpec) {
	if rules := health.StormRulesOf(spec); !rules.Configured() {
		f.advise("spec.stormCooldownDuration", "set it to 5m, or to as long as your nodes need to boot",
			"There is no storm recovery: when the last nodes still boot after an outage, they are remediated as soon as enough others are healthy")
	}
}

// steps judges templates and timeouts.
func (f *findings) steps(spec *v1alpha1.NodeHealthCheckSpec, facts *Facts) {
	steps := remediation.Steps(spec)
	if spec.RemediationTemplate != nil {
		f.template("spec.remediationTemplate", steps, steps[0], facts)
		return
	}
	for i, escalation := range spec.EscalatingRemediations {
		path := fmt.Sprintf("spec.escalatingRemediations[%d]", i)
		step := steps[slices.IndexFunc(steps, func(step remediation.Step) bool { return step.Order == escalation.Order })]
		f.template(path+".remediationTemplate", steps, step, facts)
		if step.Timeout < usualReboot {
			f.advise(path+".timeout", "give it at least the time of a reboot, and of what the remediator waits for before", "Within %s, hardly any remediation repairs a node", step.Timeout)
		}
		if needs := ownTimeout(facts.Templates[step.Reference]); step.Timeout < needs {
			f.advise(path+".timeout", "use more than "+needs.String(), "The template gives the remediator %s, and the step ends after %s", needs, step.Timeout)
		}
	}
}

// ownTimeout returns the timeout that a template gives its remediator, zero if it gives none: where
// FenceAgentsRemediation and Metal3Remediation have it.
func ownTimeout(template Template) time.Duration {
	if template.Object == nil {
		return 0
	}
	strategy, _ := template.Object.Spec["strategy"].(map[string]any)
	for _, fields := range []map[string]any{template.Object.Spec, strategy} {
		text, _ := fields["timeout"].(string)
		if timeout, err := time.ParseDuration(text); err == nil {
			return timeout
		}
	}
	return 0
}

// template judges a template in the order of the controller (spec 6.1).
func (f *findings) template(path string, steps []remediation.Step, step remediation.Step, facts *Facts) {
	const do = "correct the reference, or create what is missing"
	if problem := remediation.CheckReference(step); problem != nil {
		f.advise(path+".kind", "use the kind of the template", "%s", problem.Message)
		return
	}
	switch known := facts.Templates[step.Reference]; {
	case known.Problem != "" && len(known.Others) > 0:
		f.advise(path, do+": there is "+view.Some(known.Others, 3), "%s", known.Problem)
	case known.Problem != "":
		f.advise(path, do, "%s", known.Problem)
	case known.Object != nil:
		if problem := remediation.CheckTemplate(steps, step, known.Object); problem != nil {
			f.advise(path, "correct the template", "%s", problem.Message)
		}
	}
}
