// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bug is a small mutation of the product.
type bug struct {
	// name says what the controller does wrong with it.
	name string
	// rule is the rule of the specification that it breaks.
	rule string
	// file is relative to the root of the repository. It has the text old exactly once.
	file, old, new string
	// unit is the package whose tests have to notice it, and integration matches the integration tests
	// that have to. If both are empty, that is up to the simulation and the failure tests.
	unit, integration string
	// run matches the tests of unit that have to notice it, empty for all of them.
	run string
}

// allBugs returns those of all controllers.
func allBugs() []bug { return slices.Concat(bugs, budgetBugs, machineBugs) }

// source returns the file with the bug in it.
func (b *bug) source(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, b.file))
	if err != nil {
		return nil, fmt.Errorf("reading the source of %q: %w", b.name, err)
	}
	if n := strings.Count(string(source), b.old); n != 1 {
		return nil, fmt.Errorf("%s has the text of %q %d times: change the list in bugs.go", b.file, b.name, n)
	}
	return []byte(strings.Replace(string(source), b.old, b.new, 1)), nil
}

const (
	inController = "pkg/controller/nodehealthcheck/"
	inPlan       = "pkg/remediation/"
)

// bugs are those that a change could bring in. Each has happened here or elsewhere, or is
// one line away.
var bugs = []bug{
	// Wake-ups.
	{
		name: "a change of a Node wakes no NodeHealthCheck", rule: "21.1", file: inController + "nodes.go",
		old: "	c.Wake(c.index.NodeChanged(node.Name, matters))\n", new: "	c.index.NodeChanged(node.Name, matters)\n",
	},
	{
		name: "a dry run is not woken when a budget refuses it", rule: "5.6", file: "pkg/budget/admit.go",
		old: "			askers = append(askers, w.asker)\n", new: "", unit: "./pkg/budget",
	},
	{
		name: "the update of a node's machine configuration holds up nothing", rule: "10.2", file: "pkg/evaluation/evaluation.go",
		old: "remediation.UpdateEnds(obj.Annotations, node.Verdict.Deadline, now)", new: "time.Time{}",
	},
	{
		name: "a metric counts other nodes than status", rule: "20.3", file: inController + "metrics_update.go",
		old: "m.healthyNodes.WithLabelValues(name).Set(float64(r.Summary.Healthy))", new: "m.healthyNodes.WithLabelValues(name).Set(float64(r.Summary.Observed))",
	},
	{
		name: "a storm ends when its status cannot be written", rule: "9.5", file: inController + "state.go",
		old: "	if m.unwritten || staleness.Newer(", new: "	if staleness.Newer(", unit: "pkg/controller/nodehealthcheck", run: "TestStormBeyondStatus",
	},
	{
		name: "the gate of a selector without nodes is open", rule: "18.5", file: inPlan + "policy.go",
		old: "noNodes := c.Constraints, c.Gate.Observed == 0", new: "noNodes := c.Constraints, false", unit: "./pkg/remediation", run: "TestAllowance",
	},
	{
		name: "a change of a CR does not wake its owner", rule: "21.1", file: inController + "handlers.go",
		old: "			c.Wake(version.Owners())\n", new: "",
	},
	{
		name: "the end of a foreign CR does not wake the nodes that wait for it", rule: "21.1", file: inController + "controlplane.go",
		old: "	c.refusals.Changed()\n	c.Wake(c.waiters.all())\n", new: "	c.refusals.Changed()\n",
	},
	{
		name: "the end of a lease does not wake the nodes that wait for it", rule: "21.1", file: inController + "handlers.go",
		old: "		c.Wake(c.waiters.all())\n", new: "",
	},
	{
		name: "the end of a control plane remediation does not wake those that wait", rule: "12.4", file: inController + "handlers.go",
		old: "			c.Budgets.NodeChanged(version.Node())\n		}\n	}\n	c.ControlPlaneChanged()\n", new: "			c.Budgets.NodeChanged(version.Node())\n		}\n	}\n",
	},
	{
		name: "a template that changes does not wake its NodeHealthChecks", rule: "6.4", file: inController + "handlers.go", unit: inController, run: "TestTemplateChanged",
		old: "	return watches.Handler(func(old, template *object.Template) { c.Wake(c.referringTo(cmp.Or(template, old))) })\n", new: "	return watches.Handler(func(old, template *object.Template) { _ = c.referringTo(cmp.Or(template, old)) })\n",
	},
	{
		name: "nothing wakes a node that becomes unhealthy by time alone", rule: "21.3", file: "pkg/evaluation/evaluation.go", unit: "pkg/evaluation", run: "TestSummary",
		old: "	r.Recheck = health.Earliest(r.Recheck, r.Summary.Recheck)\n", new: "",
	},
	{
		name: "a plan's next instant is forgotten", rule: "P2", file: inController + "report.go",
		old: "		next = health.Earliest(next, result.Plan.Recheck)\n", new: "",
	},
	{
		name: "an attempt that failed is not repeated", rule: "P12", file: inController + "report.go", unit: "test/simulation", run: "TestFailedCreationIsRepeated",
		old: "	next = health.Earliest(next, r.nextAttempt())\n", new: "	r.nextAttempt()\n",
	},
	// What permits a remediation.
	{
		name: "the gate is open with one healthy node too few", rule: "8.1", file: "pkg/health/gate.go",
		old: "	gate.Open = healthy >= gate.Required\n", new: "	gate.Open = healthy+1 >= gate.Required\n",
	},
	{
		name: "percentages are rounded down", rule: "8.2", file: "pkg/health/gate.go",
		old: "		return (int(parsed)*total + 99) / 100, true\n", new: "		return int(parsed) * total / 100, true\n",
	},
	{
		name: "a node under remediation counts as healthy once its conditions are", rule: "7.6", file: "pkg/evaluation/evaluation.go",
		old: "		r.Summary.Add(node.Verdict, remediated)\n", new: "		r.Summary.Add(node.Verdict, false)\n",
	},
	{
		name: "durations are cut to half", rule: "7.2", file: "pkg/health/health.go",
		old: "since.Add(rule.Duration.Duration)", new: "since.Add(rule.Duration.Duration / 2)",
	},
	{
		name: "a clock that has gone back is believed", rule: "7.2", file: "pkg/health/sighting.go", unit: "pkg/sightings", run: "TestSightings",
		old: "	case s != nil && next.Transition.Before(s.latest()):\n", new: "	case s != nil && next.Transition.Before(time.Time{}):\n",
	},
	{
		name: "a pause is ignored", rule: "10.1", file: inPlan + "constraints.go",
		old: "applies: func(c *Constraints) bool { return c.Paused }", new: "applies: func(*Constraints) bool { return false }",
	},
	{
		name: "the exclusion label is ignored", rule: "15.1", file: inPlan + "constraints.go",
		old: "applies: func(c *Constraints) bool { return c.Excluded }", new: "applies: func(*Constraints) bool { return false }",
	},
	{
		name: "a storm also stops the next steps", rule: "9.6", file: inPlan + "constraints.go",
		old: "firstOnly: true, // Spec 9.6.", new: "",
	},
	{
		name: "a storm never ends", rule: "9.5", file: "pkg/health/storm.go",
		old: "	if !now.Before(s.End(rules)) {\n		return Storm{}\n	}\n", new: "",
	},
	{
		name: "a storm ends without its cooldown", rule: "9.5", file: "pkg/health/storm.go",
		old: "	if rules.Cooldown == nil {\n		return Storm{}\n	}\n	// The calm", new: "	if s.Active {\n		return Storm{}\n	}\n	// The calm",
	},
	{
		name: "two control plane nodes at once", rule: "12.2", file: "pkg/slot/controlplane.go", unit: "pkg/slot", run: "TestLimit",
		old: "return c.Unknown || len(c.others(node)) > 0 }", new: "return c.Unknown || (len(c.others(node)) > 0 && node == \"\") }",
	},
	{
		name: "the Node is not read live before its CR is created", rule: "5.4", file: inController + "preflight.go",
		old: "	if node == nil || node.UID != planned.UID {\n		return v1alpha1.DecidedRecovering\n", new: "	if node == nil || node.UID == planned.UID {\n		return \"\"\n",
	},
	// Leases.
	{
		name: "a lease is not renewed", rule: "14.5", file: inPlan + "plan.go",
		old: "	return RenewLease(p.Node.Lease, p.renewalDuration(), p.now)\n", new: "	return nil\n",
	},
	{
		name: "a lease of another operator is taken", rule: "14.3", file: inPlan + "lease.go",
		old: "	case LeaseValid(old, now):\n", new: "	case LeaseValid(old, now) && old.Name == \"\":\n",
	},
	{
		name: "a lease is not released", rule: "14.9", file: inPlan + "plan.go",
		old: "		if (held || abandoned) && !p.Creates() && !unsure {\n", new: "		if (held || abandoned) && p.Creates() && !unsure {\n",
	},
	// Steps.
	{
		name: "a step ends after half of its time", rule: "13.3", file: inPlan + "remediate.go",
		old: "		return p.Node.begun(cr, step).Add(step.Timeout)\n", new: "		return p.Node.begun(cr, step).Add(step.Timeout / 2)\n",
	},
	{
		name: "a failed step waits for its timeout", rule: "13.3", file: inPlan + "remediate.go",
		old: "	case cr.Succeeded == corev1.ConditionFalse:\n		return p.now\n", new: "",
	},
	{
		name: "a step is followed by another one without being ended", rule: "13.3", file: inPlan + "remediate.go",
		old: "	p.begin(next, MarkTimedOut{CR: cr, At: p.now, EndsStep: true})\n", new: "	p.begin(next)\n",
	},
	{
		name: "an overdue lease does not end a classic remediation", rule: "14.7", file: inPlan + "remediate.go",
		old: "		return end\n	case cr.Succeeded", new: "		return end.Add(time.Hour)\n	case cr.Succeeded",
	},
	{
		name: "a CR that is being deleted counts as gone", rule: "P9", file: inPlan + "remediate.go", unit: "pkg/remediation", run: "TestNextStepWaits",
		old: "	case p.progress.remaining == 0 && len(p.progress.deleting) > 0:\n", new: "	case p.progress.remaining == 0 && len(p.progress.deleting) > 100:\n",
	},
	// Recovery.
	{
		name: "the healthy delay is ignored", rule: "16.4", file: inPlan + "plan.go",
		old: "	case p.HealthyDelay == 0 || p.Node.ConfirmedHealthy:\n", new: "	case p.HealthyDelay >= 0 || p.Node.ConfirmedHealthy:\n",
	},
	{
		name: "the healthy delay begins anew with every sync", rule: "16.4", file: inPlan + "plan.go",
		old: "	if since.IsZero() {\n		since = p.now.Truncate(time.Second)\n	}\n	due =", new: "	since = p.now.Truncate(time.Second)\n	due =",
	},
	{
		name: "a confirmation is removed while another NodeHealthCheck has a CR", rule: "16.6", file: inPlan + "plan.go",
		old: " && !p.Node.OthersRemediate {", new: " {",
	},
	{
		name: "a confirmation is removed while there may be a CR that cannot be read", rule: "16.6", file: inController + "crs.go", unit: "test/simulation", run: "TestConfirmationUnread",
		old: " || c.Remediations.AnyUnread() != nil\n", new: "\n",
	},
	{
		name: "the CRs of a deleted Node stay", rule: "17.2", file: inPlan + "plan.go",
		old: "	p.end(ended)\n}\n", new: "}\n",
	},
	{
		name: "the cache alone says that a node has recovered", rule: "16.7", file: inPlan + "plan.go",
		old: "return !p.Node.deleting(cr) }) {\n		p.Do(Confirm{})\n", new: "return false }) {\n		p.Do(Confirm{})\n",
	},
	{
		name: "a CR is deleted even if another has its name by now", rule: "16.1", file: inPlan + "execute/executor.go",
		old: "*metav1.NewPreconditionDeleteOptions(string(cr.UID))", new: "metav1.DeleteOptions{}",
	},
	{
		name: "a member of etcd on a node of its own is no control plane node", rule: "12.1", file: inPlan + "platform.go", unit: "pkg/remediation", run: "TestEtcdLabels",
		old: "\"node-role.kubernetes.io/arbiter\", roleEtcd,", new: "\"node-role.kubernetes.io/arbiter\",",
	},
	{
		name: "the control plane makes the quorum although others run etcd", rule: "12.5", file: inPlan + "platform.go", unit: "pkg/remediation", run: "TestEtcdLabels",
		old: "(said == \"\" && split)", new: "(said == \"\" && split && false)",
	},
	// Reports.
	{
		name: "events are recorded twice", rule: "19.1", file: inController + "report.go", unit: inController, run: "TestReport",
		old: "	c.events.record(r.nhc, transitions)\n", new: "	c.events.record(r.nhc, transitions)\n	c.events.record(r.nhc, transitions)\n",
	},
	{
		name: "a stop loses the status that waits", rule: "22.6", file: inController + "controller.go", unit: inController,
		old: "c.expireSeries}, c.publishDeferred\n", new: "c.expireSeries}, nil\n",
	},
	{
		name: "a new leader reports what the one before has reported", rule: "19.1", file: inController + "report.go", unit: inController,
		old: "	if !s.state.observed {\n", new: "	if false {\n",
	},
	{
		name: "no event says what was done", rule: "19.1", file: inController + "report.go", unit: inController, run: "TestReport",
		old: "	c.events.record(r.nhc, actions)\n", new: "",
	},
	{
		name: "status leaves out what is only remediated", rule: "18.4", file: "pkg/status/entries.go", unit: "pkg/status", run: "TestNewEntry",
		old: "	if len(entry.Remediations) == 0 && !unhealthy && !lingering {\n", new: "	if !unhealthy && !lingering {\n",
	},
	{
		name: "each write of the status begins a healthy delay anew", rule: "16.4", file: "pkg/status/status.go",
		old: "	status.LastUpdateTime = new(seconds(r.in.Now))\n", new: "	status.LastUpdateTime = new(seconds(r.in.Now))\n	for i := range status.UnhealthyNodes {\n		if entry := &status.UnhealthyNodes[i]; entry.ConditionsHealthyTimestamp != nil {\n			entry.ConditionsHealthyTimestamp = status.LastUpdateTime\n		}\n	}\n",
	},
	{
		name: "each write of the status moves the transition of a condition", rule: "6.3", file: "pkg/status/status.go",
		old: "	status.LastUpdateTime = new(seconds(r.in.Now))\n", new: "	status.LastUpdateTime = new(seconds(r.in.Now))\n	meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRemediationAllowed).LastTransitionTime = *status.LastUpdateTime\n",
	},
	{
		name: "an episode never ends", rule: "23b.1", file: "pkg/history/episode.go",
		old: "	case o.healthy() && e.Started != nil:\n		return v1alpha1.OutcomeRecovered\n", new: "	case o.healthy() && e.Started != nil:\n		return \"\"\n",
	},
	{
		name: "a cache that does not show our last write is trusted", rule: "P9", file: "pkg/reconcile/shell.go", unit: "test/simulation", run: "TestCreatedUnseen",
		old: "	return s.Writes.CaughtUp(key, s.storeOf, s.Clock.Now())\n", new: "	_ = s.storeOf\n	return nil\n",
	},
	{
		name: "a CR that was found is not waited for", rule: "14.9", file: "pkg/remediation/execute/executor.go", unit: "pkg/remediation/execute", run: "TestExecuteCreateAlreadyExists",
		old: "		e.OnWrite(resource, cr.ResourceVersion)\n", new: "",
	},
}
