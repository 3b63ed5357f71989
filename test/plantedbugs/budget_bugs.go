// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

const (
	inBudgets          = "pkg/budget/"
	inBudgetController = "pkg/controller/remediationbudget/"
)

// budgetBugs are those of RemediationBudgets. Each that the simulation does not have to notice names the
// tests that do.
var budgetBugs = []bug{
	{
		name: "a budget admits one remediation too many at the same time", rule: "B3.2", file: inBudgets + "refusal.go", unit: inBudgets,
		old: "limited && others >= limit {", new: "limited && others > limit {",
	},
	{
		name: "the node that asks does not count as not healthy", rule: "B3.3", file: inBudgets + "refusal.go", unit: inBudgets,
		old: "limited && unhealthy > limit {\n		found", new: "limited && unhealthy > limit+1 {\n		found",
	},
	{
		name: "a remediation counts only when a cache shows its CR", rule: "B3.2", file: inBudgets + "admit.go", unit: inBudgets,
		old: "		} else if w.Begins && !w.Continues {\n			a.keep(w)\n", new: "		} else if w.Begins && !w.Continues {\n",
	},
	{
		name: "a CR that is being deleted does not count for budgets", rule: "B3.2", file: inController + "budgets.go",
		old: "			for _, owner := range cr.Owners() {\n", new: "			for _, owner := range cr.Owners() {\n				if cr.DeletionTimestamp != nil {\n					continue\n				}\n",
	},
	{
		name: "a restart forgets when a remediation began", rule: "B3.4", file: inBudgetController + "budgets.go", unit: "test/simulation", run: "TestRestartForgetsNoBeginning",
		old: "	c.counts.SetBudget(c.parse(b), budget.PastOf(b, c.Clock.Now()))\n", new: "	c.counts.SetBudget(c.parse(b), nil)\n",
	},
	{
		name: "status says that a cooldown has begun just now", rule: "B3.6", file: inBudgets + "status.go", unit: inBudgets,
		old: "	reported.WithinSince = g.withinSince()\n", new: "	if reported.WithinSince = g.withinSince(); reported.WithinSince != nil {\n		reported.WithinSince = new(metav1.NewTime(now.Truncate(time.Second)))\n	}\n",
	},
	{
		name: "a budget that cannot be evaluated admits everything", rule: "B2.2", file: inBudgets + "refusal.go", unit: inBudgets,
		old: "		found.invalid = true\n		return found, true\n", new: "		found.invalid = true\n		return found, false\n",
	},
	{
		name: "those that wait are not woken when a budget permits more", rule: "B4.2", file: inBudgetController + "evaluate.go",
		old: "	c.wake(woken)\n", new: "	_ = woken\n",
	},
	{
		name: "a window of a budget stays open for too long", rule: "B2", file: inBudgets + "window.go", unit: inBudgets,
		old: "	return opened.Add(w.duration)\n", new: "	return opened.Add(w.duration + time.Minute)\n",
	},
	{
		name: "a node that is labelled anew stays in its group", rule: "B5.2", file: inBudgets + "counts.go", unit: inBudgets,
		old: "	if !known || !node.countsAs(&before) {\n", new: "	if !known {\n",
	},
	{
		name: "a budget also holds up the next steps", rule: "B1.2", file: inBudgets + "refusal.go", unit: inBudgets,
		old: "	if w.Continues {\n", new: "	if w.Continues && w.Node == \"\" {\n",
	},
	{
		name: "a node that something else refuses keeps its turn", rule: "B4.3", file: inBudgets + "reservation.go", unit: inBudgets,
		old: "	return yields && now.Before(since.Add(yieldFor))\n", new: "	return yields && now.Before(since)\n",
	},
	{
		name: "the node that became unhealthy last comes first", rule: "B4.1", file: inBudgets + "admit.go", unit: inBudgets,
		old: "w.Since.Compare(other.Since)", new: "other.Since.Compare(w.Since)",
	},
	// Budgets about Machines.
	{
		name: "a Machine without a Node does not count", rule: "B3.5", file: inBudgets + "counts.go", unit: inBudgets,
		old: "		exists = n.Machine.Exists\n", new: "		exists = n.Machine.Exists && n.Exists\n",
	},
	{
		name: "a Machine is in the group of its Node", rule: "B3.5", file: inBudgets + "budget.go", unit: inBudgets,
		old: "	return set[b.topologyKey], true\n", new: "	return node.Labels[b.topologyKey], true\n",
	},
	{
		name: "the labels of a Node are those of its Machine", rule: "B3.5", file: inBudgets + "budget.go", unit: inBudgets,
		old: "		set, exists = node.Machine.Labels, node", new: "		exists = node",
	},
	{
		name: "Machines of all namespaces count", rule: "B3.5", file: inBudgets + "budget.go", unit: inBudgets,
		old: "node.Machine.Namespace == b.machineNamespace\n", new: "node.Machine.Namespace != \"\"\n",
	},
	{
		name: "a Machine that is gone does not count until it is replaced", rule: "B3.2", file: inBudgets + "counts.go", unit: inBudgets,
		old: "			node.Machine.Namespace, node.Machine.Labels = known.Machine.Namespace, known.Machine.Labels\n", new: "			node.Machine.Namespace, node.Machine.Labels = \"\", known.Machine.Labels\n",
	},
	{
		name: "a Machine that is labelled anew stays in its group", rule: "B3.5", file: inBudgets + "counts.go", unit: inBudgets,
		old: "m.Namespace == other.Namespace && maps.Equal(m.Labels, other.Labels)\n", new: "m.Namespace == other.Namespace\n",
	},
	{
		name: "a Machine that has not joined in time is not noticed by budgets", rule: "B3.5", file: inMachineController + "budgets.go", unit: "test/simulation", run: "TestNeverJoined",
		old: "		c.Budgets.NodeChanged(name)\n	}\n	s.state.notHealthy = now\n", new: "		_ = name\n	}\n	s.state.notHealthy = now\n",
	},
	{
		name: "a Machine that changes is not counted anew", rule: "B3.5", file: inMachineController + "handlers.go", unit: "test/simulation", run: "TestNeverJoined",
		old: "		c.Budgets.NodeChanged(one.SlotName())\n", new: "		_ = one.SlotName()\n",
	},
	{
		name: "a Node is remediated before the MachineHealthChecks are read", rule: "B3.2", file: inBudgetController + "budgets.go", unit: "test/simulation", run: "TestMachineHealthChecksUnread",
		old: "		if !checks.HasSynced() {\n", new: "		if checks == nil {\n",
	},
	{
		name: "MachineHealthChecks ask no budget", rule: "M8.5", file: inMachineController + "sync.go", unit: "test/simulation", run: "TestNeverJoined",
		old: "c.AskBudgets(check, pointers(plans), func", new: "c.AskBudgets(check, pointers(nil), func",
	},
}
