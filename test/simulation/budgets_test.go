// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// budgets are the RemediationBudgets of the cluster.
var budgets = rules.RemediationBudgets

// zoneKey is the label by which budgets group nodes. Some nodes do not have it.
const zoneKey = "zone"

// hasBudgets reports whether users of the cluster of a seed have RemediationBudgets.
func hasBudgets(seed uint64) bool { return seed%2 == 0 }

// budgetNames are those of all budgets that there may be.
var budgetNames = []string{"amber", "brown", "coral", "dark"}

// populateBudgets creates the first budgets.
func (c *cluster) populateBudgets() {
	for _, name := range budgetNames[:c.random.IntN(len(budgetNames))] {
		c.createBudget(name)
	}
}

func (c *cluster) budget(name string) *nhcv1alpha1.RemediationBudget {
	object := c.server.Get(budgets, memapi.Key{Name: name})
	if object == nil {
		return nil
	}
	return as[nhcv1alpha1.RemediationBudget](object)
}

// createBudget creates a budget with a spec of chance.
func (c *cluster) createBudget(name string) {
	budget := &nhcv1alpha1.RemediationBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: nhcv1alpha1.SchemeGroupVersion.String(), Kind: nhcv1alpha1.BudgetKind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	c.randomScope(&budget.Spec)
	c.randomLimits(&budget.Spec)
	if c.chance(20) {
		c.randomSchedules(&budget.Spec)
	}
	budget.Spec.Reason = oneOf(c, "", "ask "+name)
	selector := budget.Spec.NodeSelector
	if budget.Spec.MachineSelector != nil {
		budget.Spec.NodeSelector = nil
	}
	c.mayCreate(budgets, from(budget))
	c.changeBudget(name, func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.NodeSelector = selector })
}

// randomScope decides which nodes or Machines count, and in which groups.
func (c *cluster) randomScope(spec *nhcv1alpha1.RemediationBudgetSpec) {
	spec.NodeSelector, spec.MachineSelector = nil, nil
	if c.chance(c.aboutMachines()) {
		c.randomMachines(spec)
		return
	}
	spec.NodeSelector = oneOf(c, &metav1.LabelSelector{}, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: zoneKey, Operator: metav1.LabelSelectorOpExists}}})
	spec.TopologyKey = oneOf(c, "", zoneKey)
}

// aboutMachines is the chance that a budget is about Machines. In a cluster without, it cannot be evaluated.
func (c *cluster) aboutMachines() int {
	if c.machines == nil {
		return 3
	}
	return 50
}

// randomMachines decides which Machines count, and in which groups. Their pool may be another one than that
// of their Node.
func (c *cluster) randomMachines(spec *nhcv1alpha1.RemediationBudgetSpec) {
	spec.MachineSelector = &nhcv1alpha1.BudgetMachineSelector{
		Namespace: oneOf(c, machineNamespace, machineNamespace, machineNamespace, machineNamespace, machineNamespace, "elsewhere"),
		Selector: oneOf(c, metav1.LabelSelector{}, metav1.LabelSelector{}, metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"master"}}}}),
	}
	spec.TopologyKey = oneOf(c, "", "pool", "role")
	if c.chance(5) {
		spec.NodeSelector = &metav1.LabelSelector{} // From before it was validated.
	}
}

// randomLimits decides what the budget bounds.
func (c *cluster) randomLimits(spec *nhcv1alpha1.RemediationBudgetSpec) {
	limit := func(options ...string) *intstr.IntOrString { return new(intstr.Parse(oneOf(c, options...))) }
	spec.MaxUnhealthy, spec.MaxConcurrent, spec.MinInterval, spec.Cooldown = nil, nil, nil, nil
	n := c.random.IntN(8) // Each limit alone, or several together.
	if n < 3 || n == 7 {
		spec.MaxConcurrent = limit("0", "1", "1", "1", "2", "50%", "0%")
	}
	if n == 0 || n == 3 || n == 4 {
		spec.MaxUnhealthy = limit("0", "1", "2", "3", "30%", "60%", "100%")
		if c.chance(50) {
			spec.Cooldown = &metav1.Duration{Duration: oneOf(c, 20*time.Second, 2*time.Minute)}
		}
	}
	if n == 1 || n > 4 {
		spec.MinInterval = &metav1.Duration{Duration: oneOf(c, 10*time.Second, time.Minute, 7*time.Minute)}
	}
}

// randomSchedules decides when the budget applies. Sometimes the schedule is invalid.
func (c *cluster) randomSchedules(spec *nhcv1alpha1.RemediationBudgetSpec) {
	schedule := func(cron, zone string, duration time.Duration) nhcv1alpha1.BudgetSchedule {
		return nhcv1alpha1.BudgetSchedule{Cron: cron, TimeZone: zone, Duration: metav1.Duration{Duration: duration}}
	}
	spec.ActiveDuring = []nhcv1alpha1.BudgetSchedule{oneOf(c,
		schedule("*/5 * * * *", "", 2*time.Minute), schedule("0 * * * *", "Europe/Berlin", 20*time.Minute), schedule("*/20 * * * *", "Asia/Kathmandu", 30*time.Minute),
		schedule("7 * * * *", "Mars/Olympus", time.Minute))}
	if c.chance(30) {
		spec.ActiveDuring = append(spec.ActiveDuring, schedule("30 * * * *", "", 90*time.Second))
	}
}

// changeBudget changes a spec. What admission denies is from before it was validated.
func (c *cluster) changeBudget(name string, change func(*nhcv1alpha1.RemediationBudgetSpec)) {
	changed := c.server.ModifyUnchecked("user", budgets, memapi.Key{Name: name}, func(object *unstructured.Unstructured) {
		budget := as[nhcv1alpha1.RemediationBudget](object)
		change(&budget.Spec)
		object.Object["spec"] = from(budget).Object["spec"]
	})
	if changed {
		c.describe(budgets, memapi.Key{Name: name})
	}
}

// budgetEvent is something that users do to budgets.
func (c *cluster) budgetEvent() {
	name := oneOf(c, budgetNames...)
	if c.budget(name) == nil {
		c.createBudget(name)
		return
	}
	n := c.random.IntN(20)
	if n < 6 {
		c.log("RemediationBudget %s is deleted", name)
		c.server.Delete("user", budgets, memapi.Key{Name: name})
		return
	}
	c.changeBudget(name, func(spec *nhcv1alpha1.RemediationBudgetSpec) {
		switch {
		case n < 8:
			spec.MaxConcurrent = new(intstr.FromInt32(0))
		case n < 12:
			c.randomLimits(spec)
		case n < 14:
			c.randomScope(spec)
		case n < 16:
			c.randomSchedules(spec)
		case n < 19:
			spec.ActiveDuring = nil
		default:
			spec.MinInterval = &metav1.Duration{Duration: -time.Second} // From before it was validated.
		}
	})
}

// calmBudgets has most of the budgets refuse nothing for ever.
func (c *cluster) calmBudgets() {
	for _, object := range c.server.List(budgets) {
		if name := object.GetName(); c.chance(70) {
			c.changeBudget(name, func(spec *nhcv1alpha1.RemediationBudgetSpec) {
				spec.MaxUnhealthy, spec.Cooldown, spec.MaxConcurrent, spec.MinInterval = nil, nil, new(intstr.FromInt32(1)), &metav1.Duration{Duration: oneOf(c, 10*time.Second, 7*time.Minute)}
				if c.chance(70) {
					spec.ActiveDuring = nil
				}
			})
		}
	}
}

// failInTurn makes all nodes fail, one after the other, so that those that wait for a budget then have been
// unhealthy for different times.
func (c *cluster) failInTurn() {
	c.log("=== all nodes fail in turn")
	names := c.nodeNames()
	c.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		c.setReady(name, corev1.ConditionUnknown)
		c.sleep(oneOf(c, 5*time.Second, 20*time.Second, time.Minute))
	}
}

// recoverInTurn has budgets admit one remediation at a time, and nodes under remediation recover. Waiting
// nodes follow one by one, in their order.
func (c *cluster) recoverInTurn() {
	c.log("=== what is under remediation recovers")
	for _, object := range c.server.List(budgets) {
		c.changeBudget(object.GetName(), func(spec *nhcv1alpha1.RemediationBudgetSpec) {
			spec.MaxUnhealthy, spec.Cooldown, spec.MaxConcurrent, spec.MinInterval, spec.ActiveDuring = nil, nil, new(intstr.FromInt32(1)), nil, nil
		})
	}
	for range 8 {
		c.sleep(oneOf(c, 5*time.Second, 40*time.Second))
		for _, cr := range c.crs() {
			if c.node(cr.Node) != nil {
				c.heal(cr.Node)
			}
		}
		c.sleep(oneOf(c, 5*time.Second, 40*time.Second))
		c.release()
	}
}

// endSchedules has budgets apply always, so that nothing changes any more by time alone.
func (c *cluster) endSchedules() {
	for _, object := range c.server.List(budgets) {
		c.changeBudget(object.GetName(), func(spec *nhcv1alpha1.RemediationBudgetSpec) { spec.ActiveDuring = nil })
	}
}

// budgetCoverage are the events that have to happen in clusters with budgets.
var budgetCoverage = []string{
	"event BudgetExhausted", "event BudgetAvailable", "event InvalidBudget", "condition Valid=False", "condition Exhausted=True",
	"budget limits nothing", "budget allows none", "budget allows some", "budget of several groups",
	"budget about Machines limits nothing", "budget about Machines allows none", "budget about Machines allows some",
	"budget about Machines of several groups", "budget about Machines is exhausted", "budget about Machines is invalid",
	"budget about Machines has counts, a NodeHealthCheck waits", "budget about Machines has counts, a MachineHealthCheck waits",
}

// noteBudget counts what a budget says.
func (c *cluster) noteBudget(change *memapi.Change) {
	budget := as[nhcv1alpha1.RemediationBudget](change.Object)
	status, what := &budget.Status, "budget "
	for _, condition := range status.Conditions {
		c.seen["condition "+condition.Type+"="+string(condition.Status)]++
	}
	if budget.Spec.MachineSelector != nil {
		what = "budget about Machines "
		if meta.IsStatusConditionTrue(status.Conditions, nhcv1alpha1.ConditionBudgetExhausted) {
			c.seen[what+"is exhausted"]++
		}
		if meta.IsStatusConditionFalse(status.Conditions, nhcv1alpha1.ConditionBudgetValid) {
			c.seen[what+"is invalid"]++
		}
	}
	switch allowed := status.RemediationsAllowed; {
	case allowed == nil:
		c.seen[what+"limits nothing"]++
	case *allowed == 0:
		c.seen[what+"allows none"]++
	default:
		c.seen[what+"allows some"]++
	}
	if len(status.Groups) > 1 {
		c.seen[what+"of several groups"]++
	}
}

// noteWaiting counts the nodes that wait for the numbers of a budget about Machines.
func (c *cluster) noteWaiting(who string, decision *v1alpha1.Decision) {
	if decision.Reason == v1alpha1.DecidedBudgetExhausted && strings.Contains(decision.Message, " Machines are ") {
		c.seen["budget about Machines has counts, a "+who+" waits"]++
	}
}
