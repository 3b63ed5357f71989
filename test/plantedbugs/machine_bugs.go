// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

const (
	inMachines          = "pkg/machinehealth/"
	inMachineController = "pkg/controller/machinehealthcheck/"
)

// machineBugs are those of MachineHealthChecks. Each that the simulation does not have to notice names the
// tests that do.
var machineBugs = []bug{
	{
		name: "a sync goes on when another controller leads", rule: "M4.2", file: inMachineController + "active.go", unit: "test/simulation", run: "TestNothingIsWrittenAfterwards",
		old: "		a.end()\n", new: "",
	},
	{
		name: "Nodes that are missing are remembered for ever", rule: "M6.2", file: inMachineController + "handlers.go", unit: "test/simulation", run: "TestMissingNodesAreForgotten",
		old: "		c.forgetMissing(one.Node)\n", new: "		_ = one\n",
	},
	{
		name: "Machines of Cluster API are forgotten with the last MachineHealthCheck", rule: "M3.5", file: inMachineController + "machines.go", unit: "test/simulation", run: "TestLeaseOfAGoneCheck",
		old: "	}) || c.clusterAPIRemediating() {\n", new: "	}) {\n",
	},
	{
		name: "a new process knows no leases of Machines of Cluster API", rule: "M3.5", file: inMachineController + "active.go", unit: "test/simulation", run: "TestLeaseOfAGoneCheck",
		old: "		c.wantMachines() // Leases may be for Machines that no MachineHealthCheck is about any more.\n", new: "",
	},
	{
		name: "one unhealthy Machine too many is allowed", rule: "M7.1", file: inMachines + "threshold.go", unit: inMachines,
		old: "return s.Unhealthy() <= s.Limit }", new: "return s.Unhealthy() <= s.Limit+1 }",
	},
	{
		name: "percentages of Machines are rounded up", rule: "M7.2", file: inMachines + "criteria.go", unit: inMachines,
		old: "		return int(n) * total / 100, true\n", new: "		return (int(n)*total + 99) / 100, true\n",
	},
	{
		name: "the back-off is ignored", rule: "M14.2", file: inMachines + "plan.go", unit: inMachines,
		old: "	if !p.now.Before(due) {\n		return false\n", new: "	if !due.IsZero() {\n		return false\n",
	},
	{
		name: "a round of the back-off is not counted", rule: "M14.3", file: inMachines + "backoff.go", unit: inMachines,
		old: "Rounds{Count: min(t.Rounds.Count, math.MaxInt32-1) + 1, Last: now}", new: "Rounds{Count: min(max(1, t.Rounds.Count), math.MaxInt32), Last: now}",
	},
	{
		name: "a paused MachineHealthCheck remediates", rule: "M9.1", file: inMachines + "plan.go", unit: inMachines,
		old: "		{p.Criteria.Paused, v1alpha1.DecidedPaused},\n", new: "",
	},
	{
		name: "two Machines that name one Node are remediated", rule: "M5.4", file: inMachines + "plan.go", unit: inMachines,
		old: "		{t.Obstacles.AmbiguousNode != \"\", v1beta1.DecidedAmbiguousNode},\n", new: "",
	},
	{
		name: "a Machine that nothing would replace is deleted", rule: "M10.1", file: inMachines + "criteria.go", unit: inMachines,
		old: "	case deletes && machine.Owner() == nil:\n", new: "	case deletes && machine.UID == \"\":\n",
	},
	{
		name: "the update of a Node holds its Machine for ever", rule: "M9.1", file: inPlan + "platform.go", unit: inPlan,
		old: "	if !Reconfiguring(annotations) || !now.Before(end) {\n", new: "	if !Reconfiguring(annotations) {\n",
	},
	{
		name: "a Node that the cache lacks is missing", rule: "M6.2", file: inMachines + "judge.go", unit: inMachines,
		old: "	case machine.Node != \"\" && node == NodeMissing:\n", new: "	case machine.Node != \"\" && node != NodeExists:\n",
	},
	{
		name: "a Machine is deleted without a last look", rule: "M8.4", file: inMachines + "plan.go", unit: inMachines,
		old: "p.Do(remediation.Confirm{}, remediation.DeleteMachine{", new: "p.Do(remediation.DeleteMachine{",
	},
	{
		name: "a remediation is there twice in the history", rule: "M16.2", file: inMachines + "history.go", unit: inMachines,
		old: "unhealthy(result) && !open[name] {\n", new: "unhealthy(result) && name != \"\" {\n",
	},
	{
		name: "the second key goes before the first", rule: "M11.2", file: inMachines + "plan.go", unit: inMachines,
		old: " && !t.externallyRemediated() {\n		p.Do(remediation.EndExternal", new: " {\n		p.Do(remediation.EndExternal",
	},
	{
		name: "the first key is removed", rule: "M11.2", file: "pkg/remediation/execute/machine.go", unit: "pkg/remediation/execute/",
		old: "map[string]any{v1beta1.AnnotationRemediationStrategy: nil}", new: "map[string]any{v1beta1.AnnotationRemediationStrategy: nil, v1beta1.AnnotationExternalRemediation: nil}",
	},
	{
		name: "a Machine is deleted even if another has its name by now", rule: "M10.2", file: "pkg/remediation/execute/machine.go", unit: "pkg/remediation/execute/",
		old: "&metav1.Preconditions{UID: &machine.UID, ResourceVersion: &outcome.machineVersion}", new: "&metav1.Preconditions{ResourceVersion: &outcome.machineVersion}",
	},
	{
		name: "two control plane Machines at once", rule: "M13.1", file: inMachineController + "controlplane.go",
		old: "		found = append(found, slotHolder{memberOf(machine), machine.SlotName(), cause})\n", new: "		if cause == \"\" {\n			found = append(found, slotHolder{memberOf(machine), machine.SlotName(), cause})\n		}\n",
	},
	{
		name: "two Machines that name one Node are one for the slot", rule: "M13.1", file: "pkg/slot/member.go", unit: "pkg/controller/machinehealthcheck", run: "TestSlotTakenByOthers",
		old: "		return m.Machine == other.Machine\n", new: "		return m.Machine == other.Machine || m.Node == other.Node\n",
	},
	{
		name: "a Node that the cache still has is taken to exist", rule: "M13.1", file: inMachineController + "controlplane_live.go", unit: "test/simulation", run: "TestSlotTakenUnseen",
		old: "	return state == machinehealth.NodeMissing, err\n", new: "	return false && state == machinehealth.NodeMissing, err\n",
	},
	{
		name: "leases are released while remediation objects cannot be read", rule: "M10.3", file: inMachineController + "leases.go", unit: "test/simulation", run: "TestOwnRemediationsUnread",
		old: "		case incomplete || c.protects(lease):", new: "		case c.protects(lease):",
	},
	{
		name: "a Node wakes only the MachineHealthChecks that select its Machine", rule: "M12.5", file: inMachineController + "handlers.go", unit: "test/simulation", run: "TestUnselectedRecovers",
		old: "			c.Enqueue(c.checksOf(cr)...) // They need not select it any more.\n		}\n	}\n}", new: "			_ = cr\n		}\n	}\n}",
	},
	{
		name: "Machines that have not been read claim no Node", rule: "M15.1", file: inMachineController + "claims.go", unit: "test/simulation", run: "TestMachinesUnread",
		old: "		return c.unreadClaim()\n", new: "		return \"\"\n",
	},
	{
		name: "each of several MachineHealthChecks remediates", rule: "M7.4", file: inMachines + "criteria.go", unit: "test/simulation", run: "TestFirstByNameWorks",
		old: "	return c.name < other.name\n", new: "	return false\n",
	},
	{
		name: "a Machine that is being deleted leaves status once it is not selected", rule: "M10.3", file: inMachineController + "snapshot.go", unit: "test/simulation", run: "TestDeletionOfUnselected",
		old: " && !c.holdsFor(s.policy.Owner.LeaseHolder(), machine) {\n", new: " {\n",
	},
	{
		name: "Clusters that cannot be read are not paused", rule: "M7.5", file: inMachineController + "machines.go", integration: "^TestMachinesUnavailable$",
		old: "		kinds = append(kinds, clusterKind, clusterAPIHealthCheckKind)\n", new: "		kinds = append(kinds, clusterAPIHealthCheckKind)\n",
	},
	{
		name: "a new process does not know remediation objects of a former kind", rule: "6.8", file: "pkg/remediation/kinds/search.go", unit: "test/simulation", run: "TestFormerKindIsFound",
		old: "		k.Find(found)\n", new: "",
	},
	{
		name: "the kinds of a MachineHealthCheck that was created again are not watched", rule: "M3.5", file: inMachineController + "gone.go", unit: "test/simulation", run: "TestRecreatedAtItsEnd",
		old: "	c.wantKinds(key)\n	if len", new: "	c.templates.Want(key.String(), nil)\n	if len",
	},
	{
		name: "a remediation object without a reference to a MachineHealthCheck that is gone is forgotten", rule: "M7.4", file: inMachineController + "remediations.go", unit: "test/simulation", run: "TestRemediationOfAGoneCheck",
		old: "return len(crs) > 0 && slices", new: "return false && slices",
	},
	{
		name: "a Machine that names another Node by now is remediated", rule: "M10.3", file: inMachines + "confirm.go", unit: "pkg/machinehealth", run: "TestConfirm",
		old: "	case machine.Node != planned.Machine.Node, live.NodeUID", new: "	case live.NodeUID",
	},
	{
		name: "a remediation whose reference garbage collection has removed ends with its MachineHealthCheck", rule: "M7.4", file: inMachineController + "others.go", unit: "test/simulation", run: "TestRemediationOfAGoneCheck",
		old: "		for _, other := range c.checksOf(cr) {\n", new: "		for _, other := range ownersOf(cr) {\n",
	},
	{
		name: "an external remediation ends with its MachineHealthCheck", rule: "M15.2", file: inMachines + "claim.go", unit: "test/simulation", run: "TestNodeReturnsAfterItsCheckIsGone",
		old: "	case machine.Has(v1beta1.AnnotationExternalRemediation):\n		return name", new: "	case false:\n		return name",
	},
	{
		name: "a remediation counts for the Node that its Machine named before", rule: "B5.2", file: inMachineController + "deletions.go", unit: "test/simulation", run: "TestRemediatedMachineNamesAnotherNode",
		old: "		if machine != nil {\n			name = machine.SlotName()\n", new: "		if machine == nil {\n			name = cmp.Or(name)\n",
	},
}
