// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// world is what one sync observed, and what it makes of it.
type world struct {
	findings
	surroundings
	fleet health.Fleet
	gate  health.Gate
	// specProblem is the rule of admission that the stored spec breaks, if any.
	specProblem string
	// nodes are those that are not healthy or have CRs, by name.
	nodes []remediation.Node
	// objects are the Node objects behind nodes, and behind the entries of the last
	// status, by name; deleted ones are missing.
	objects map[string]*corev1.Node
	// leaving is the earliest deadline of a node that is no longer selected.
	leaving time.Time
}

// recheck returns the next instant at which time alone changes a verdict or a plan,
// or makes a CR old.
func (w *world) recheck(plans []remediation.NodePlan, now time.Time) time.Time {
	next := health.Earliest(w.fleet.Recheck, w.leaving)
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
	found, err := c.findTemplates(nhc, around)
	if err != nil {
		return nil, err
	}
	crs, err := c.findCRs(nhc, memory)
	if err != nil {
		return nil, err
	}
	crs.machines = c.machinesOf
	selected, err := c.nodes.List(selectorOf(nhc))
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	w := &world{findings: found, surroundings: around, objects: map[string]*corev1.Node{}, specProblem: remediation.SpecProblem(&nhc.Spec)}
	w.fleet = health.Evaluate(w.judge(nhc, now), selected, crs.remediated)
	w.gate = health.EvaluateGate(nhc.Spec.MinHealthy, nhc.Spec.MaxUnhealthy, w.fleet.Observed, w.fleet.Healthy)

	restraints := w.restraints(nhc)
	for _, patient := range w.fleet.Patients {
		w.add(patient.Node, patient.Verdict, restraints, crs)
	}
	others, err := c.furtherNodes(nhc, selected, crs)
	if err != nil {
		return nil, err
	}
	if err := c.addNamed(nhc, w, others, crs, restraints, now); err != nil {
		return nil, err
	}
	if err := c.findForeign(nhc, w); err != nil {
		return nil, err
	}
	if err := c.complete(nhc, w, memory); err != nil {
		return nil, err
	}
	slices.SortFunc(w.nodes, func(a, b remediation.Node) int { return cmp.Compare(a.Name, b.Name) })
	return w, nil
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
		TemplatesUnusable: w.findings.problem != nil || w.findings.unknown,
		Paused:            len(nhc.Spec.PauseRequests) > 0,
		GateClosed:        !w.gate.Open,
	}
}

// add adds a node that exists.
func (w *world) add(node *corev1.Node, verdict health.Verdict, restraints remediation.Circumstances, crs *ownCRs) {
	restraints.Excluded = node.Labels[v1alpha1.LabelExclude] == "true"
	w.objects[node.Name] = node
	w.nodes = append(w.nodes, remediation.Node{
		Name:             node.Name,
		UID:              node.UID,
		ControlPlane:     isControlPlane(node),
		Verdict:          verdict,
		Circumstances:    restraints,
		ConfirmedHealthy: hasKey(node.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy),
		Machines:         crs.machines(node),
		Own:              crs.read[node.Name],
		Unreadable:       crs.unreadable[node.Name],
	})
}

// furtherNodes returns the nodes to be looked at besides the patients: those with
// CRs, be they healthy, no longer selected or gone; those whose lease is held and may
// have to be released; and those that somebody has confirmed to be healthy.
func (c *Controller) furtherNodes(nhc *v1alpha1.NodeHealthCheck, selected []*corev1.Node, crs *ownCRs) (sets.Set[string], error) {
	names := sets.New(crs.nodes()...)
	held, err := c.leaseStore.ByIndex(leasesByHolder, remediation.LeaseHolder(nhc.Name))
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
	for _, node := range selected {
		if hasKey(node.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy) {
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
			w.nodes = append(w.nodes, remediation.Node{Name: name, Circumstances: gone, Own: crs.read[name], Unreadable: crs.unreadable[name]})
			continue
		}
		if err != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		verdict := w.judge(nhc, now)(node)
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
func (c *Controller) complete(nhc *v1alpha1.NodeHealthCheck, w *world, memory *memory) error {
	recorded := make(map[string]*v1alpha1.UnhealthyNode, len(nhc.Status.UnhealthyNodes))
	for i := range nhc.Status.UnhealthyNodes {
		recorded[nhc.Status.UnhealthyNodes[i].Name] = &nhc.Status.UnhealthyNodes[i]
	}
	for i := range w.nodes {
		node := &w.nodes[i]
		node.RetryAt = c.retries.at(nhc.Name, node)
		node.DeletionRequested = memory.deletionRequested
		lease, exists, err := c.leaseStore.GetByKey(c.leaseNamespace + "/" + remediation.LeaseName(node.Name))
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
		if node.ConfirmedHealthy && len(node.Own) == 0 {
			node.OthersRemediate = len(c.remediatingNode(node.Name)) > 0
		}
	}
	return nil
}

// findings are what is known of the templates.
type findings struct {
	// problem is why they cannot be used, if that is known.
	problem *remediation.Problem
	// unknown means that something could not be read for now: no answer is not an
	// answer, so the condition stays as it is and nothing is started.
	unknown bool
	// steps are those of the NodeHealthCheck, in ascending order, and templates what
	// was found of them: nil where nothing was.
	steps     []remediation.Step
	templates []*remediation.Template
}

// findTemplates checks every referenced template in ascending order. The first
// problem counts.
func (c *Controller) findTemplates(nhc *v1alpha1.NodeHealthCheck, around surroundings) (findings, error) {
	steps := remediation.Steps(&nhc.Spec)
	found := findings{problem: around.problem, unknown: around.unknown, steps: steps, templates: make([]*remediation.Template, len(steps))}
	switch {
	case around.conflict:
		found.problem = remediation.Conflict()
	case found.problem == nil:
		found.problem = remediation.Unsupported(&nhc.Spec)
	}
	for i, step := range steps {
		template, problem, err := c.findTemplate(steps, step)
		if problem == nil && err == nil && around.openShiftMachines {
			problem = remediation.CheckMetal3(step)
		}
		switch {
		case err != nil && onlyPending(err):
			return findings{}, err
		case err != nil:
			found.unknown = true
		case problem != nil && found.problem == nil:
			found.problem = problem
		}
		found.templates[i] = template
	}
	return found, nil
}

// onlyPending tells whether an answer is about to come. An ErrPending with a cause
// means that attempts have failed: then nobody waits.
func onlyPending(err error) bool { return err == watches.ErrPending } //nolint:errorlint // the bare one is meant

func (c *Controller) findTemplate(steps []remediation.Step, step remediation.Step) (*remediation.Template, *remediation.Problem, error) {
	if problem := remediation.CheckReference(step); problem != nil {
		return nil, problem, nil
	}
	mapping, err := c.templates.Mapping(step.TemplateKind())
	if err != nil {
		return problemOf(step, err)
	}
	namespaced := mapping.Scope.Name() == metaNamespaced
	if problem := remediation.CheckScope(step, namespaced); problem != nil {
		return nil, problem, nil
	}
	name := types.NamespacedName{Name: step.Reference.Name}
	if namespaced {
		name.Namespace = step.Reference.Namespace
	}
	object, err := c.templates.Get(step.TemplateKind(), name)
	if err != nil {
		return problemOf(step, err)
	}
	template := object.(*remediation.Template)
	if problem := remediation.CheckTemplate(steps, step, template); problem != nil {
		return template, problem, nil
	}
	kind, _ := step.RemediationKind()
	crMapping, err := c.remediations.Mapping(kind)
	if err != nil {
		return problemOf(step, err)
	}
	if problem := remediation.CheckRemediationScope(step, namespaced, crMapping.Scope.Name() == metaNamespaced); problem != nil {
		return nil, problem, nil
	}
	if _, err := c.remediations.Cache(kind); err != nil {
		return problemOf(step, err)
	}
	return template, nil, nil
}

// problemOf tells the errors that are answers from those that are not.
func problemOf(step remediation.Step, err error) (*remediation.Template, *remediation.Problem, error) {
	if forbidden, ok := errors.AsType[*watches.ForbiddenError](err); ok {
		return nil, remediation.Forbidden(forbidden.Verb, forbidden.Resource), nil
	}
	if isNoMatch(err) || apierrors.IsNotFound(err) {
		return nil, remediation.NotFound(step.Reference, err.Error()), nil
	}
	return nil, nil, err
}

// ownCRs are the CRs of a NodeHealthCheck by node.
type ownCRs struct {
	read       map[string][]*remediation.CR
	unreadable map[string][]v1alpha1.Remediation
	machines   func(*corev1.Node) remediation.Machines
}

// remediated tells whether the node has an own CR left.
func (o *ownCRs) remediated(node string) bool {
	return len(o.read[node]) > 0 || len(o.unreadable[node]) > 0
}

func (o *ownCRs) nodes() []string {
	var names []string
	for name := range o.read {
		names = append(names, name)
	}
	for name := range o.unreadable {
		if len(o.read[name]) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// findCRs finds the own CRs of a NodeHealthCheck, in the order of the steps, among the kinds of
// its templates and those that its status points to. What status names and cannot
// be read counts as existing (spec 6.8).
func (c *Controller) findCRs(nhc *v1alpha1.NodeHealthCheck, memory *memory) (*ownCRs, error) {
	crs := &ownCRs{read: map[string][]*remediation.CR{}, unreadable: map[string][]v1alpha1.Remediation{}}
	_, kinds := wantedKinds(nhc)
	requested := map[types.UID]bool{}
	for kind := range kinds {
		indexer, err := c.remediations.Cache(kind)
		switch {
		case err != nil && onlyPending(err):
			return nil, err
		case err != nil:
			crs.addRecorded(nhc, func(cr *v1alpha1.Remediation) bool { return cr.Resource.GroupVersionKind() == kind })
		default:
			if err := crs.addCached(indexer, nhc.Name, memory, requested); err != nil {
				return nil, err
			}
		}
	}
	memory.deletionRequested = requested
	steps := remediation.Steps(&nhc.Spec)
	for _, own := range crs.read {
		remediation.Sort(steps, own)
	}
	return crs, nil
}

// addCached adds what a cache has, and carries over which of these are already
// being deleted, though the cache does not know it yet.
func (o *ownCRs) addCached(indexer cache.Indexer, nhc string, memory *memory, requested map[types.UID]bool) error {
	cached, err := listCRs(indexer, byOwner, nhc)
	if err != nil {
		return fmt.Errorf("listing CRs: %w", err)
	}
	for _, cr := range cached {
		o.read[cr.Node()] = append(o.read[cr.Node()], cr)
		if memory.deletionRequested[cr.UID] {
			requested[cr.UID] = true
		}
	}
	return nil
}

// addRecorded adds what status names.
func (o *ownCRs) addRecorded(nhc *v1alpha1.NodeHealthCheck, match func(*v1alpha1.Remediation) bool) {
	for i := range nhc.Status.UnhealthyNodes {
		node := &nhc.Status.UnhealthyNodes[i]
		for j := range node.Remediations {
			if match(&node.Remediations[j]) {
				o.unreadable[node.Name] = append(o.unreadable[node.Name], node.Remediations[j])
			}
		}
	}
}

// findForeign finds the CRs of others that may stand in the way of a CR.
func (c *Controller) findForeign(nhc *v1alpha1.NodeHealthCheck, w *world) error {
	if w.findings.problem != nil || w.findings.unknown {
		return nil
	}
	for i, step := range w.steps {
		kind, _ := step.RemediationKind()
		indexer, err := c.remediations.Cache(kind)
		if err != nil {
			return err
		}
		for j := range w.nodes {
			node := &w.nodes[j]
			if node.Verdict.State != health.Unhealthy || node.Circumstances.NodeDeleted {
				continue
			}
			foreign, err := foreignCRs(indexer, nhc.Name, node.Name, w.templates[i])
			if err != nil {
				return err
			}
			node.Foreign = append(node.Foreign, foreign...)
		}
	}
	return nil
}

// foreignCRs returns the CRs of one kind that others have for the node, or that have
// the name that is needed.
func foreignCRs(indexer cache.Indexer, nhc, node string, template *remediation.Template) ([]*remediation.CR, error) {
	candidates, err := listCRs(indexer, byNode, node)
	if err != nil {
		return nil, fmt.Errorf("listing CRs: %w", err)
	}
	namesake, exists, err := indexer.GetByKey(cache.NewObjectName(template.Namespace, remediation.Name(node, template)).String())
	if err != nil {
		return nil, fmt.Errorf("reading CR: %w", err)
	}
	if exists {
		candidates = append(candidates, namesake.(*remediation.CR))
	}
	var foreign []*remediation.CR
	for _, cr := range candidates {
		if !cr.OwnedBy(nhc) || cr.Node() != node {
			foreign = append(foreign, cr)
		}
	}
	return foreign, nil
}

// plan decides about every node.
func (w *world) plan(nhc *v1alpha1.NodeHealthCheck, now time.Time) []remediation.NodePlan {
	script := &remediation.Script{NHC: nhc, Steps: w.steps, Templates: w.templates}
	plans := make([]remediation.NodePlan, 0, len(w.nodes))
	for _, node := range w.nodes {
		plans = append(plans, script.Plan(node, now))
	}
	return plans
}
