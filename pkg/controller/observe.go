// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// world is what one sync observed, and what it makes of it.
type world struct {
	findings
	surroundings
	// clockUntrusted means that nothing may begin by the clock.
	clockUntrusted bool
	// remediated tells whether a node has an own CR, and withCRs are those that have.
	remediated func(node string) bool
	withCRs    []string
	// gone are own CRs, as they were seen last, that no cache shows any more.
	gone []*remediation.CR
	// lost are the CRs whose deletion was requested and that cannot be read any more.
	lost  []types.UID
	fleet health.Fleet
	gate  health.Gate
	// storm is the present one. Nodes that get their CR in this sync may begin one.
	storm health.Storm
	// specProblem is the rule of admission that the stored spec breaks, if any.
	specProblem string
	// nodes are those that are not healthy or have CRs, by name.
	nodes []remediation.Node
	// objects are the Node objects behind nodes, and behind the entries of the last
	// status, by name; deleted ones are missing.
	objects map[string]*corev1.Node
	// script is what the plans were made by.
	script *remediation.Script
	// overlaps are the numbers of nodes shared with other NodeHealthChecks, by their names.
	overlaps map[string]int
	// leaving is the earliest deadline of a node that is no longer selected.
	leaving time.Time
}

// recheck returns the next instant at which time alone changes a verdict or a plan,
// or makes a CR old.
func (w *world) recheck(plans []remediation.NodePlan, now time.Time) time.Time {
	next := health.Earliest(health.Earliest(w.fleet.Recheck, w.leaving), w.storm.End(health.StormRulesOf(&w.script.NHC.Spec)))
	for i := range plans {
		next = health.Earliest(next, plans[i].Recheck)
		for _, cr := range plans[i].Node.Own {
			if old := cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge); old.After(now) {
				next = health.Earliest(next, old)
			}
		}
	}
	return next
}

// observe looks at the caches. The error is watches.ErrPending if something that
// the decision depends on has not been read yet.
func (c *Controller) observe(nhc *v1alpha1.NodeHealthCheck, memory *memory, now time.Time) (*world, error) {
	around, err := c.lookAround()
	if err != nil {
		return nil, err
	}
	around = around.recalled(nhc, memory)
	found, err := c.findTemplates(nhc, around)
	if err != nil {
		return nil, err
	}
	crs, err := c.findCRs(nhc, memory)
	if err != nil {
		return nil, err
	}
	crs.machines = c.machinesOf
	w := &world{findings: found, surroundings: around, objects: map[string]*corev1.Node{}, specProblem: remediation.SpecProblem(&nhc.Spec)}
	w.clockUntrusted = c.clockUntrusted()
	w.overlaps = c.index.Overlaps(nhc.Name)
	w.remediated, w.withCRs, w.lost = crs.remediated, crs.nodes(), crs.lost
	w.gone = c.lastStates.gone(nhc.Name, crs.has)
	c.count(nhc, w, now)

	restraints := w.restraints(nhc)
	w.nodes = slices.Grow(w.nodes, len(w.fleet.Patients))
	for _, patient := range w.fleet.Patients {
		w.add(patient.Node, patient.Verdict, restraints, crs)
	}
	others, err := c.furtherNodes(nhc, crs, memory)
	if err != nil {
		return nil, err
	}
	for _, cr := range w.gone {
		others.Insert(cr.Node())
	}
	if err := c.addNamed(nhc, w, others, crs, restraints, now); err != nil {
		return nil, err
	}
	if err := c.findForeign(nhc, w); err != nil {
		return nil, err
	}
	if err := c.complete(nhc, w, memory, now); err != nil {
		return nil, err
	}
	slices.SortFunc(w.nodes, func(a, b remediation.Node) int { return cmp.Compare(a.Name, b.Name) })
	return w, nil
}

// count judges the selected nodes, and by their numbers gate and storm. Those that the
// index knows to be healthy are not looked at.
func (c *Controller) count(nhc *v1alpha1.NodeHealthCheck, w *world, now time.Time) {
	if summary, known := c.index.Summary(versionOf(nhc), w.withCRs); known {
		w.fleet = health.Evaluate(w.judge(nhc, now), c.nodesNamed(summary.Candidates), w.remediated)
		w.fleet = w.fleet.WithHealthy(summary.Healthy, summary.HealthyRemediated)
	} else {
		w.fleet = health.Evaluate(w.judge(nhc, now), c.selectedNodes(nhc), w.remediated)
	}
	w.gate = health.EvaluateGate(nhc.Spec.MinHealthy, nhc.Spec.MaxUnhealthy, w.fleet.Observed, w.fleet.Healthy)
	w.storm = health.StormOf(&nhc.Status).Next(health.StormRulesOf(&nhc.Spec), w.weather(0), now)
}

// judge returns the judgement on a node by the rules of a NodeHealthCheck. Where
// MachineHealthChecks replace nodes that terminate, these are left to them.
func (w *world) judge(nhc *v1alpha1.NodeHealthCheck, now time.Time) func(*corev1.Node) health.Verdict {
	return func(node *corev1.Node) health.Verdict {
		if w.machineHealthChecks && remediation.Terminating(node.Status.Conditions) {
			return health.Verdict{}
		}
		return health.Judge(nhc.Spec.UnhealthyConditions, node.Status.Conditions, now)
	}
}

// restraints returns the circumstances that hold for all nodes alike.
func (w *world) restraints(nhc *v1alpha1.NodeHealthCheck) remediation.Circumstances {
	return remediation.Circumstances{
		InvalidSpec:       w.specProblem != "",
		Terminating:       nhc.DeletionTimestamp != nil,
		Conflict:          w.conflict,
		Upgrading:         w.upgrading(),
		TemplatesUnusable: w.surroundings.unknown || w.findings.unusable(nhc),
		ClockUntrusted:    w.clockUntrusted,
		Paused:            len(nhc.Spec.PauseRequests) > 0,
		GateClosed:        !w.gate.Open,
		Storm:             w.storm.Active,
	}
}

// clockUntrusted reports whether nothing may begin by the clock.
func (c *Controller) clockUntrusted() bool { return c.clockTrusted != nil && !c.clockTrusted() }

// add adds a node that exists.
func (w *world) add(node *corev1.Node, verdict health.Verdict, restraints remediation.Circumstances, crs *ownCRs) {
	restraints.Excluded = node.Labels[v1alpha1.LabelExclude] == "true"
	w.objects[node.Name] = node
	w.nodes = append(w.nodes, remediation.Node{
		Name:             node.Name,
		UID:              node.UID,
		Created:          node.CreationTimestamp.Time,
		ControlPlane:     isControlPlane(node),
		Verdict:          verdict,
		Circumstances:    restraints,
		ConfirmedHealthy: hasKey(node.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy),
		Machines:         crs.machines(node),
		Own:              crs.read[node.Name],
		Unreadable:       crs.unreadable[node.Name],
		Incomplete:       crs.incomplete,
	})
}

// furtherNodes returns the nodes to be looked at besides the patients: those with
// CRs, be they healthy, no longer selected or gone; those whose lease is held and may
// have to be released; those that were unhealthy last; and those that somebody has
// confirmed to be healthy.
func (c *Controller) furtherNodes(nhc *v1alpha1.NodeHealthCheck, crs *ownCRs, memory *memory) (sets.Set[string], error) {
	names := sets.New(crs.nodes()...)
	names.Insert(memory.ledger.Nodes(c.nodeExists)...)
	names = names.Union(memory.releasing)
	held, err := c.leases(nhc.Name).ByIndex(leasesByHolder, remediation.LeaseHolder(nhc.Name))
	if err != nil {
		return nil, fmt.Errorf("listing leases: %w", err)
	}
	for _, object := range held {
		if name, ok := remediation.NodeOfLease(object.(*coordinationv1.Lease)); ok {
			names.Insert(name)
		}
	}
	for i := range nhc.Status.UnhealthyNodes {
		names.Insert(nhc.Status.UnhealthyNodes[i].Name)
	}
	confirmed, err := c.nodeStore.ByIndex(nodesConfirmedHealthy, confirmedHealthy)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	selector := selectorOf(nhc)
	for _, object := range confirmed {
		if node := object.(*corev1.Node); selector.Matches(labelSet(node)) {
			names.Insert(node.Name)
		}
	}
	return names, nil
}

// addNamed adds nodes by name, unless they were added as patients.
func (c *Controller) addNamed(nhc *v1alpha1.NodeHealthCheck, w *world, names sets.Set[string], crs *ownCRs, restraints remediation.Circumstances, now time.Time) error {
	selector := selectorOf(nhc)
	for name := range names {
		if _, added := w.objects[name]; added {
			continue
		}
		node, err := c.nodes.Get(name)
		if apierrors.IsNotFound(err) {
			gone := restraints
			gone.NodeDeleted = true
			w.nodes = append(w.nodes, remediation.Node{Name: name, Circumstances: gone, Own: crs.read[name], Unreadable: crs.unreadable[name], Incomplete: crs.incomplete})
			continue
		}
		if err != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		verdict := w.judge(nhc, now)(node)
		if len(nhc.Spec.UnhealthyConditions) == 0 && crs.remediated(name) {
			// There is nothing to judge it by, and to call it healthy would delete its CRs
			// (spec 4.2).
			verdict = health.Verdict{State: health.SoonUnhealthy}
		}
		leaving := restraints
		leaving.Unselected = !selector.Matches(labelSet(node))
		if leaving.Unselected && verdict.State == health.SoonUnhealthy && crs.remediated(name) {
			w.leaving = health.Earliest(w.leaving, verdict.Deadline)
		}
		w.add(node, verdict, leaving, crs)
	}
	return nil
}

// complete adds to the nodes what status, the leases, and the memory know of them.
func (c *Controller) complete(nhc *v1alpha1.NodeHealthCheck, w *world, memory *memory, now time.Time) error {
	recorded := make(map[string]*v1alpha1.UnhealthyNode, len(nhc.Status.UnhealthyNodes))
	for i := range nhc.Status.UnhealthyNodes {
		recorded[nhc.Status.UnhealthyNodes[i].Name] = &nhc.Status.UnhealthyNodes[i]
	}
	machineUnread := map[string]time.Time{}
	for i := range w.nodes {
		node := &w.nodes[i]
		retry := c.retries.of(nhc.Name, node)
		node.RetryAt, node.LastFailure, node.LastFailed = retry.due, retry.failure, retry.failed
		node.DeletionRequested = memory.deletionRequested
		if node.Machines.Unread() {
			since, known := memory.machineUnread[node.Name]
			if !known {
				since = now
			}
			machineUnread[node.Name] = since
			node.MachineDeadline = since.Add(v1alpha1.MachineReadTimeout)
		}
		node.ReleasingLease = memory.releasing.Has(node.Name)
		lease, exists, err := c.leases(nhc.Name).GetByKey(c.leaseNamespace + "/" + remediation.LeaseName(node.Name))
		if err != nil {
			return fmt.Errorf("reading lease: %w", err)
		}
		if exists {
			node.Lease = lease.(*coordinationv1.Lease)
		}
		if entry := recorded[node.Name]; entry != nil {
			node.Recorded = entry.Remediations
			if entry.ConditionsHealthyTimestamp != nil {
				node.HealthySince = entry.ConditionsHealthyTimestamp.Time
			}
		}
		seen := memory.healthy[node.Name]
		if node.HealthySince.IsZero() {
			node.HealthySince = seen.since
		}
		if object := w.objects[node.Name]; object != nil && !node.HealthySince.IsZero() {
			node.HealthySince = health.HealthySince(node.HealthySince, nhc.Spec.UnhealthyConditions, seen.conditions, object.Status.Conditions, now)
		}
		if node.ConfirmedHealthy && len(node.Own) == 0 {
			node.OthersRemediate = c.othersRemediate(node.Name)
		}
	}
	memory.machineUnread = machineUnread
	return nil
}

// grounds returns what explains the circumstances of all nodes.
func (w *world) grounds(nhc *v1alpha1.NodeHealthCheck) remediation.Grounds {
	grounds := remediation.Grounds{
		Circumstances: w.restraints(nhc), Gate: w.gate, Storm: w.storm, StormEnd: w.storm.End(health.StormRulesOf(&nhc.Spec)),
		SpecProblem: w.specProblem, Unread: w.unread,
	}
	if w.findings.problem != nil {
		grounds.TemplateProblem = w.findings.problem.Message
	}
	return grounds
}

func (w *world) newScript(nhc *v1alpha1.NodeHealthCheck) *remediation.Script {
	return &remediation.Script{NHC: nhc, Steps: w.steps, Templates: w.templates, Grounds: w.grounds(nhc)}
}

// plan decides about every node.
func (w *world) plan(nhc *v1alpha1.NodeHealthCheck, now time.Time) []remediation.NodePlan {
	w.script = w.newScript(nhc)
	plans := make([]remediation.NodePlan, 0, len(w.nodes))
	for _, node := range w.nodes {
		plans = append(plans, w.script.Plan(node, now))
	}
	return plans
}

// settle brings the storm up to date with what was created: to reach the limit is
// enough to begin one (spec 9.2).
func (w *world) settle(nhc *v1alpha1.NodeHealthCheck, plans []remediation.NodePlan, outcomes []remediation.Outcome, now time.Time) {
	w.storm = w.storm.Next(health.StormRulesOf(&nhc.Spec), w.weather(firstRemediations(plans, outcomes)), now)
	w.script.Grounds = w.grounds(nhc)
}
