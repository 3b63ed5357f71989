// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// RemediationBudgets are judged where they are served.
var RemediationBudgets = nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural)

// obeyTime is how long after it was written a budget binds every beginning (spec B4.2).
const obeyTime = 2 * time.Second

// Budget is a RemediationBudget. The judge knows of budgets only what is certain without a model of them: which of
// those that are about Nodes, and that always apply, are surely exceeded.
type Budget struct {
	*nhcv1alpha1.RemediationBudget
	// selector is that of Nodes, nil if the budget is not about Nodes or cannot be evaluated.
	selector labels.Selector
}

func newBudget(object *nhcv1alpha1.RemediationBudget) *Budget {
	b, spec := &Budget{RemediationBudget: object}, &object.Spec
	invalid := (spec.MinInterval != nil && spec.MinInterval.Duration <= 0) || (spec.Cooldown != nil && (spec.Cooldown.Duration <= 0 || spec.MaxUnhealthy == nil))
	if selector, err := metav1.LabelSelectorAsSelector(spec.NodeSelector); err == nil && spec.NodeSelector != nil && spec.MachineSelector == nil && !invalid {
		b.selector = selector
	}
	return b
}

func parseBudget(object *unstructured.Unstructured) (*Budget, error) {
	budget := &nhcv1alpha1.RemediationBudget{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, budget); err != nil {
		return nil, err
	}
	return newBudget(budget), nil
}

// binds reports whether the budget limits a node at any time, in the group of another one.
func (b *Budget) binds(node, like *Node) bool {
	return b.selector != nil && len(b.Spec.ActiveDuring) == 0 && b.selector.Matches(node.Labels) &&
		(b.Spec.TopologyKey == "" || node.Labels[b.Spec.TopologyKey] == like.Labels[b.Spec.TopologyKey])
}

// budgetsAllow judges that no budget about Nodes is exceeded for certain by a first CR (spec B3.2, B3.3).
func (j *Judge) budgetsAllow(w window) (findings []finding) {
	since := w.at.Add(-obeyTime)
	if w.known.Before(since) {
		since = w.known
	}
	for name, track := range j.budgets {
		for _, limit := range []struct {
			rule, text string
			exceeded   func(*Budget) bool
		}{
			{"B3.2", "others are under remediation", func(b *Budget) bool {
				limit := b.Spec.MaxConcurrent
				if limit == nil {
					return false
				}
				others, observed := j.countFor(b, w, func(name string, _ []*Node) bool { return j.surelyRemediated(name, w) })
				return others >= share(*limit, observed)
			}},
			{"B3.3", "others are not healthy", func(b *Budget) bool {
				limit := b.Spec.MaxUnhealthy
				if limit == nil {
					return false
				}
				others, observed := j.countFor(b, w, func(_ string, versions []*Node) bool {
					return all(versions, func(node *Node) bool { return !node.Ready() })
				})
				return others+1 > share(*limit, observed)
			}},
		} {
			exceeded := all(track.during(since, w.rv), func(b *Budget) bool { return b != nil && j.surelyBinds(b, w) && limit.exceeded(b) })
			findings = append(findings, check(limit.rule, exceeded, "a remediation begins that budget %s refuses: as many %s as it allows", name, limit.text))
		}
	}
	return findings
}

// surelyBinds reports whether a budget limits a node, in one group, by every version that may have been seen.
func (j *Judge) surelyBinds(b *Budget, w window) bool {
	versions := j.nodes[w.node].during(w.known, w.rv)
	return all(versions, func(node *Node) bool { return node != nil && versions[0] != nil && b.binds(node, versions[0]) })
}

// countFor counts the other nodes of the group of a node for which something is certain, and all nodes that the budget
// may observe.
func (j *Judge) countFor(b *Budget, w window, is func(string, []*Node) bool) (surely, observed int) {
	self := j.nodes[w.node].during(w.known, w.rv)[0]
	for name, track := range j.nodes {
		versions := track.during(w.known, w.rv)
		if some(versions, isThere) || len(j.crsOf[name]) > 0 {
			observed++
		}
		if name != w.node && all(versions, func(node *Node) bool { return node != nil && b.binds(node, self) }) && is(name, versions) {
			surely++
		}
	}
	return surely, observed
}

func isThere[T any](object *T) bool { return object != nil }

// surelyRemediated reports whether the controller has created a CR for a node that was there all the time.
func (j *Judge) surelyRemediated(name string, w window) bool {
	for key := range j.crsOf[name] {
		if all(j.crs[key].during(w.known, w.rv), func(cr *CR) bool {
			return cr != nil && cr.Node == name && len(cr.Owners) > 0 && cr.ByController
		}) {
			return true
		}
	}
	return false
}

// budgetMayRefuse reports whether some budget may refuse a node or a Machine. Certain is only that a budget that limits
// nothing but what is under remediation refuses none while nothing is (spec B1.3).
func (p *snapshot) budgetMayRefuse(name string) bool {
	for _, versions := range p.budgets {
		if b := versions.at(p.rv); b != nil && p.mayBind(b, name) && (p.followed || !b.onlyConcurrent() || p.anyCR()) {
			return true
		}
	}
	return false
}

// budgetMayStop reports whether some budget that permits nothing may hold the next step of a node (spec B1.2).
func (p *snapshot) budgetMayStop(name string) bool {
	for _, versions := range p.budgets {
		if b := versions.at(p.rv); b != nil && p.mayBind(b, name) && b.Spec.MaxConcurrent != nil && share(*b.Spec.MaxConcurrent, 1) == 0 {
			return true
		}
	}
	return false
}

// mayBind reports whether a budget may limit a node or a Machine.
func (p *snapshot) mayBind(b *Budget, name string) bool {
	node := p.nodes[name].at(p.rv)
	return node == nil || b.selector == nil || b.selector.Matches(node.Labels)
}

func (b *Budget) onlyConcurrent() bool {
	spec := &b.Spec
	return b.selector != nil && spec.MaxUnhealthy == nil && spec.MinInterval == nil && len(spec.ActiveDuring) == 0 &&
		spec.MaxConcurrent != nil && share(*spec.MaxConcurrent, 1) > 0
}

func (p *snapshot) anyCR() bool {
	for _, versions := range p.crs {
		if versions.at(p.rv) != nil {
			return true
		}
	}
	return false
}

// waitsForBudget reports whether status says that what a violation is about waits for a budget.
func (d *Deadlines) waitsForBudget(v Violation, now time.Time) bool {
	p := d.snapshotAt(now)
	if nhc := p.nhcs[v.NHC].at(p.rv); nhc != nil {
		return slices.ContainsFunc(nhc.Status.UnhealthyNodes, func(entry v1alpha1.UnhealthyNode) bool {
			return entry.Name == v.Node && entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedBudgetExhausted
		})
	}
	mhc := p.mhcs[strings.TrimPrefix(v.NHC, mhcName(""))].at(p.rv)
	return mhc != nil && slices.ContainsFunc(mhc.Status.UnhealthyMachines, func(entry v1beta1.UnhealthyMachine) bool {
		return machineName(key(mhc.Namespace, entry.Name)) == v.Node && entry.Decision.Reason == v1alpha1.DecidedBudgetExhausted
	})
}
