// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// check is a NodeHealthCheck, with the memory of the controller between syncs.
type check struct {
	*world
	// nhc has the status of the last sync.
	nhc         *v1alpha1.NodeHealthCheck
	selector    labels.Selector
	templates   evaluation.Templates
	specProblem string
	// selected is the number of nodes that the selector matches.
	selected int
	known    status.Known
	// requested are the CRs whose deletion was requested, and gone those that are gone since.
	requested map[types.UID]bool
	gone      []*object.CR
	// suspects are the nodes that may not be healthy. followed are the nodes of the last sync.
	suspects sets.Set[string]
	followed []string
	// seen is what was recorded of nodes.
	seen map[string]seen
	// recheck is when time alone changes something, zero if it does not.
	recheck time.Time
}

func newCheck(w *world, nhc *v1alpha1.NodeHealthCheck) *check {
	c := &check{
		world: w, nhc: nhc.DeepCopy(), selector: labels.Nothing(), templates: templatesOf(&nhc.Spec), specProblem: remediation.SpecProblem(&nhc.Spec),
		known:     status.Known{Ledger: history.Recall(&nhc.Status), Entries: slices.SortedFunc(slices.Values(nhc.Status.UnhealthyNodes), status.ByName), Reported: status.RecallReported(&nhc.Status)},
		requested: map[types.UID]bool{}, suspects: sets.New[string](), seen: map[string]seen{},
	}
	c.nhc.Spec.RemediationHistoryLimit = new(int32(0)) // Nothing reads the list, which takes time.
	c.followed = slices.Collect(c.known.Ledger.Nodes())
	for i := range c.known.Entries {
		c.followed = append(c.followed, c.known.Entries[i].Name)
	}
	if selector, err := metav1.LabelSelectorAsSelector(&nhc.Spec.Selector); err == nil { // Or else admission refuses it.
		c.selector = selector
	}
	for _, node := range w.nodes {
		if c.selects(node) {
			c.selected++
		}
	}
	return c
}

// templatesOf returns stand-ins for the templates: they exist and can be used.
func templatesOf(spec *v1alpha1.NodeHealthCheckSpec) evaluation.Templates {
	steps := remediation.Steps(spec)
	templates := evaluation.Templates{Steps: steps, Templates: make([]*object.Template, len(steps))}
	for i, step := range steps {
		reference := &step.Reference
		template := &object.Template{
			TypeMeta:   metav1.TypeMeta{APIVersion: reference.APIVersion, Kind: reference.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: reference.Namespace, Name: reference.Name},
			Spec:       map[string]any{},
		}
		if slices.ContainsFunc(steps, func(other remediation.Step) bool {
			return other.Reference != *reference && other.TemplateKind().GroupKind() == step.TemplateKind().GroupKind()
		}) {
			template.Annotations = map[string]string{v1alpha1.AnnotationMultipleTemplates: ""}
		}
		templates.Templates[i] = template
		if problem := remediation.CheckReference(step); problem != nil && templates.Problem == nil {
			templates.Problem = problem
		}
	}
	return templates
}

func (c *check) asker() budget.Asker {
	return budget.Asker{Kind: v1alpha1.Kind, Name: c.nhc.Name}
}

func (c *check) selects(node *corev1.Node) bool { return c.selector.Matches(labels.Set(node.Labels)) }

// needsLook reports whether a node may not be healthy.
func (c *check) needsLook(node *corev1.Node) bool {
	return !health.SurelyHealthy(c.nhc.Spec.UnhealthyConditions, node.Status.Conditions) && c.selects(node)
}

// sync simulates one sync of the controller. It reports whether anything was written.
func (c *check) sync(now time.Time) (acted bool) {
	in := c.observe()
	evaluated := evaluation.Evaluate(in, now)
	plans := remediation.NewPlans(&evaluated.Policy, in.Nodes, now)
	c.planned += len(plans)
	var controlPlane slot.ControlPlane
	if slices.ContainsFunc(in.Nodes, func(node remediation.Node) bool { return node.ControlPlane && len(node.Own) == 0 }) {
		controlPlane = c.controlPlane()
	}
	controlPlane.Limit(&evaluated.Policy, plans, now)
	pointers := remediation.Pointers(plans)
	refusals := c.counts.Admit(c.asker(), evaluation.Requests(pointers), now)
	reserved := evaluation.WithholdRefused(pointers, refusals, func(i int, withheld *remediation.Withholding) {
		evaluated.Policy.Withhold(&plans[i], withheld, now)
	})
	results := c.act(&evaluated.Policy, plans, now)
	ends := evaluation.Usages(results)
	for _, node := range reserved {
		c.counts.End(c.asker(), node, ends[node], now)
	}
	c.report(evaluated, results, now)
	return slices.ContainsFunc(plans, func(plan remediation.NodePlan) bool { return len(plan.Actions) > 0 })
}

// candidates returns the sorted names of the nodes that may not be healthy, or have a remediation.
// The others need no action.
func (c *check) candidates() []string {
	names := c.suspects.Clone().Insert(c.followed...)
	for name := range c.crs {
		names.Insert(name)
	}
	for name := range c.leases {
		names.Insert(name)
	}
	return sets.List(names)
}

// observe returns the observation of the controller.
func (c *check) observe() *evaluation.Input {
	in := &evaluation.Input{NHC: c.nhc, Storm: health.StormOf(&c.nhc.Status), Observed: c.selected, Templates: c.templates, SpecProblem: c.specProblem}
	entries := status.Finder{Entries: c.known.Entries}
	owner := object.OwnerOf(c.nhc)
	candidates := c.candidates()
	in.Nodes, in.Objects = make([]remediation.Node, 0, len(candidates)), make([]*corev1.Node, 0, len(candidates))
	for _, name := range candidates {
		node, entry := c.nodes[name], entries.Entry(name)
		lease := c.leases[name]
		held := remediation.LeaseHolder(lease) == owner.LeaseHolder()
		needed := len(c.crs[name]) > 0 || entry != nil || held || c.known.Ledger.Episode(name) != nil || node != nil && c.needsLook(node)
		if !needed {
			continue
		}
		known := evaluation.NewNode(name, node, node != nil && c.selects(node), "")
		known.Lease, known.DeletionRequested = lease, c.requested
		for _, cr := range c.crs[name] {
			if cr.OwnedBy(owner) {
				known.Own = append(known.Own, cr)
			} else {
				known.Foreign = append(known.Foreign, cr)
			}
		}
		remediation.Sort(c.templates.Steps, known.Own)
		known.OthersRemediate = len(known.Foreign) > 0
		if entry != nil {
			known.Recorded = entry.Remediations
			if healthy := entry.ConditionsHealthyTimestamp; healthy != nil {
				known.HealthySince = healthy.Time
			}
		}
		in.Nodes, in.Objects = append(in.Nodes, known), append(in.Objects, node)
	}
	return in
}

// report computes the status, and the memory for the next sync.
func (c *check) report(evaluated *evaluation.Evaluated, results []remediation.NodeResult, now time.Time) {
	evaluated.SettleStorm(&c.nhc.Spec, results, now)
	listed := make([]*v1alpha1.UnhealthyNode, len(results))
	entries := status.Finder{Entries: c.known.Entries}
	for i, result := range results {
		listed[i] = entries.Entry(result.Plan.Node.Name)
	}
	report := status.New(&status.Input{
		Check: c.nhc, Policy: &evaluated.Policy, Summary: evaluated.Summary, Results: results, Listed: listed, Gone: c.gone,
		TemplateProblem: c.templates.Problem, Now: now, Before: c.known,
	})
	c.record(evaluated, report, results, now)
	c.recheck = health.Earliest(evaluated.Recheck, evaluated.Policy.Context.StormEnd)
	left := map[types.UID]bool{}
	c.gone, c.followed = nil, nil
	for _, result := range results {
		c.followed = append(c.followed, result.Plan.Node.Name)
		c.recheck = health.Earliest(c.recheck, result.Plan.Recheck)
		for _, cr := range result.Outcome.Deleted {
			left[cr.UID] = true
			c.gone = append(c.gone, cr)
		}
	}
	c.requested = left
	c.known = status.Known{Ledger: report.Ledger, Entries: report.Entries, Reported: report.Reported()}
	c.nhc.Status = *report.Status
}
