// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// view is what a sync looks at: the caches, or the world itself.
type view struct {
	nodes, leases, nhcs map[string]*item
	remediations        map[string]map[string]*item
}

func (p *process) cached() *view {
	v := &view{nodes: p.nodes.items, leases: p.leases.items, nhcs: p.nhcs.items, remediations: map[string]map[string]*item{}}
	for kind, i := range p.remediations {
		v.remediations[kind] = i.items
	}
	return v
}

func (w *world) truth() *view {
	v := &view{nodes: w.nodes.live, leases: w.leases.live, nhcs: w.nhcs.live, remediations: map[string]map[string]*item{}}
	for kind, t := range w.remediations {
		v.remediations[kind] = t.live
	}
	return v
}

// sight is what one sync observed.
type sight struct {
	nhc    *v1alpha1.NodeHealthCheck
	now    time.Time
	policy *remediation.Policy
	gate   health.Gate
	fleet  health.Summary
	nodes  []remediation.Node
	// objects are the Nodes behind nodes.
	objects map[string]*corev1.Node
	leaving time.Time
	// slotTaken are the control plane nodes that may not begin.
	slotTaken map[string]bool
	// storm is the present one, and climate what it has to be judged by.
	storm   health.Storm
	climate climate
	// before and after are the storms that there have to be, before and after CRs were
	// created, and firsts is the number of nodes that have got their first one.
	before, after tempest
	firsts        int
	// moves are those of the world when the caches were up to date; -1 if they were not.
	moves int
	// version is that of the world at that time.
	version int
	// aged means that some cache is older than the process.
	aged bool
}

func selects(nhc *v1alpha1.NodeHealthCheck, node *corev1.Node) bool {
	selector, err := metav1.LabelSelectorAsSelector(&nhc.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// policyOf is what a NodeHealthCheck wants done.
func policyOf(nhc *v1alpha1.NodeHealthCheck) *remediation.Policy {
	policy := &remediation.Policy{Owner: object.OwnerOf(nhc), Steps: remediation.Steps(&nhc.Spec)}
	if delay := nhc.Spec.HealthyDelay; delay != nil {
		policy.HealthyDelay = delay.Duration
	}
	return policy
}

// plan decides about a node, as the limits do after the planner.
func (s *sight) plan(node *remediation.Node, now time.Time) remediation.NodePlan {
	plan := remediation.NewPlans(s.policy, []remediation.Node{*node}, now)[0]
	if plan.Candidate && s.slotTaken[node.Name] {
		s.policy.Withhold(&plan, v1alpha1.DecidedControlPlaneBusy, now)
	}
	return plan
}

// observe builds the nodes from a view as Controller.snapshot does.
func (p *process) observe(v *view, nhc *v1alpha1.NodeHealthCheck, now time.Time) *sight {
	w := p.world
	s := &sight{nhc: nhc, now: now, objects: map[string]*corev1.Node{}, moves: -1, version: w.version, policy: policyOf(nhc), slotTaken: map[string]bool{}}
	restraints := remediation.Constraints{
		InvalidSpec: remediation.SpecProblem(&nhc.Spec) != "",
		Terminating: nhc.DeletionTimestamp != nil,
		Paused:      len(nhc.Spec.PauseRequests) > 0,
	}
	kinds := map[string]bool{}
	for _, step := range s.policy.Steps {
		template := w.templates[step.Reference.Name]
		kind, _ := step.RemediationKind()
		kinds[kind.Kind] = true
		if w.brokenTemplates[step.Reference.Name] {
			template = nil
		}
		if template == nil || w.unreadable[kind.Kind] {
			restraints.TemplatesUnusable = true
		}
		s.policy.Templates = append(s.policy.Templates, template)
	}

	own, unreadable := map[string][]*object.CR{}, map[string][]v1alpha1.Remediation{}
	for i := range nhc.Status.UnhealthyNodes {
		entry := &nhc.Status.UnhealthyNodes[i]
		for _, recorded := range entry.Remediations {
			kinds[recorded.Resource.Kind] = true
			if w.unreadable[recorded.Resource.Kind] {
				unreadable[entry.Name] = append(unreadable[entry.Name], recorded)
			}
		}
	}
	requested := map[types.UID]bool{}
	for _, kind := range sorted(kinds) {
		if w.unreadable[kind] {
			continue
		}
		for _, key := range sorted(v.remediations[kind]) {
			if cr := v.remediations[kind][key].cr; cr.OwnedBy(ownerNamed(nhc.Name)) {
				own[cr.Node()] = append(own[cr.Node()], cr)
				if p.requested[nhc.Name][cr.UID] {
					requested[cr.UID] = true
				}
			}
		}
	}
	p.requested[nhc.Name] = requested
	for _, crs := range own {
		remediation.Sort(s.policy.Steps, crs)
	}
	remediated := func(node string) bool { return len(own[node]) > 0 || len(unreadable[node]) > 0 }
	judge := func(node *corev1.Node) health.Verdict {
		return health.Judge(nhc.Spec.UnhealthyConditions, node.Status.Conditions, now)
	}

	var selected []*corev1.Node
	names := map[string]bool{}
	for _, name := range sorted(v.nodes) {
		node := v.nodes[name].node
		if !selects(nhc, node) {
			continue
		}
		selected = append(selected, node)
		names[name] = judge(node).State != health.Healthy || hasConfirmation(node)
	}
	s.fleet = health.NewSummary(len(selected))
	for _, node := range selected {
		s.fleet.Add(judge(node), remediated(node.Name))
	}
	s.gate = health.EvaluateGate(nhc.Spec.MinHealthy, nhc.Spec.MaxUnhealthy, s.fleet.Observed, s.fleet.Healthy)
	restraints.GateClosed = !s.gate.Open
	s.storm = health.StormOf(&nhc.Status).Next(health.StormRulesOf(&nhc.Spec), s.weather(0), now)
	restraints.Storm = s.storm.Active
	s.policy.Context = s.grounds()

	for _, name := range sorted(v.leases) {
		if lease := v.leases[name].lease; leaseHolder(lease) == ownerNamed(nhc.Name).LeaseHolder() {
			if node, ok := object.NodeOfLease(lease); ok {
				names[node] = true
			}
		}
	}
	recorded := map[string]*v1alpha1.UnhealthyNode{}
	for i := range nhc.Status.UnhealthyNodes {
		recorded[nhc.Status.UnhealthyNodes[i].Name] = &nhc.Status.UnhealthyNodes[i]
		names[nhc.Status.UnhealthyNodes[i].Name] = true
	}
	for name := range own {
		names[name] = true
	}
	for _, name := range sorted(names) {
		if !names[name] {
			continue
		}
		node := remediation.Node{Name: name, Constraints: restraints, Own: own[name], Unreadable: unreadable[name], DeletionRequested: requested}
		if i := v.nodes[name]; i != nil {
			s.objects[name] = i.node
			node.UID, node.Verdict = i.node.UID, judge(i.node)
			node.ControlPlane = controlPlane(i.node)
			node.ConfirmedHealthy = hasConfirmation(i.node)
			node.Constraints.Excluded = i.node.Labels[v1alpha1.LabelExclude] == "true"
			node.Constraints.Unselected = !selects(nhc, i.node)
			if node.Constraints.Unselected && node.Verdict.State == health.SoonUnhealthy && remediated(name) {
				s.leaving = health.Earliest(s.leaving, node.Verdict.Deadline)
			}
		} else {
			node.Constraints.NodeDeleted = true
		}
		if !restraints.TemplatesUnusable && node.Verdict.State == health.Unhealthy {
			node.Foreign = foreignCRs(v, s.policy, nhc.Name, name)
		}
		if retry := p.retries[retryOf(nhc.Name, &node)]; retry != nil {
			node.RetryAt, node.LastFailure, node.LastFailed = retry.due, retry.failure, retry.failed
		}
		if i := v.leases[object.LeaseName(name)]; i != nil {
			node.Lease = i.lease
		}
		if entry := recorded[name]; entry != nil {
			node.Recorded = entry.Remediations
			if entry.ConditionsHealthyTimestamp != nil {
				node.HealthySince = entry.ConditionsHealthyTimestamp.Time
				if object := s.objects[name]; object != nil {
					node.HealthySince = health.HealthySince(node.HealthySince, nhc.Spec.UnhealthyConditions, nil, object.Status.Conditions, now)
				}
			}
		}
		node.OthersRemediate = len(node.Own) == 0 && anyCR(v, name)
		s.nodes = append(s.nodes, node)
	}
	s.climate = climateOf(v, s)
	return s
}

func foreignCRs(v *view, policy *remediation.Policy, nhc, node string) []*object.CR {
	var foreign []*object.CR
	for i, step := range policy.Steps {
		kind, _ := step.RemediationKind()
		for _, key := range sorted(v.remediations[kind.Kind]) {
			cr := v.remediations[kind.Kind][key].cr
			needed := cr.Namespace == policy.Templates[i].Namespace && cr.Name == object.Name(node, policy.Templates[i])
			if (needed || cr.Node() == node) && (!cr.OwnedBy(ownerNamed(nhc)) || cr.Node() != node) {
				foreign = append(foreign, cr)
			}
		}
	}
	return foreign
}

// anyCR reports whether some NodeHealthCheck has a CR for the node, of a kind that is
// watched.
func anyCR(v *view, node string) bool {
	watched := map[string]bool{}
	for _, i := range v.nhcs {
		for _, step := range remediation.Steps(&i.nhc.Spec) {
			watched[strings.TrimSuffix(step.Reference.Kind, "Template")] = true
		}
		for _, entry := range i.nhc.Status.UnhealthyNodes {
			for _, recorded := range entry.Remediations {
				watched[recorded.Resource.Kind] = true
			}
		}
	}
	for kind := range watched {
		for _, i := range v.remediations[kind] {
			if i.cr.Node() == node && len(i.cr.Owners()) > 0 {
				return true
			}
		}
	}
	return false
}

func controlPlane(node *corev1.Node) bool {
	_, yes := node.Labels["node-role.kubernetes.io/control-plane"]
	return yes
}
