// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// claimantOf returns a MachineHealthCheck as RemediationBudgets know it.
func claimantOf(key cache.ObjectName) budget.Claimant {
	return budget.Claimant{Kind: v1beta1.Kind, Name: key.String()}
}

// admit withholds the remediation of the candidates that a RemediationBudget refuses (spec M8.5). It
// returns those of the others that begin: they have a reservation until endReservations.
func (c *Controller) admit(s *snapshot, plans []machinehealth.Plan, now time.Time) (reserved []*machinehealth.Plan) {
	var candidates []budget.Candidate
	for i := range plans {
		if plan := &plans[i]; plan.Candidate && plan.Withheld == nil {
			candidates = append(candidates, budget.Candidate{Node: slotName(plan.Target.Machine), Since: s.unhealthySince(plan.Target, now), Begins: plan.Begins()})
		}
	}
	refusals, revision := c.Budgets.Admit(claimantOf(keyOf(s.check)), candidates)
	s.budgetRevision = revision
	for i := range plans {
		plan := &plans[i]
		if !plan.Candidate || plan.Withheld != nil {
			continue
		}
		if refusal := refusals[slotName(plan.Target.Machine)]; refusal != nil {
			s.policy.Withhold(plan, &remediation.Withholding{Reason: v1alpha1.DecidedBudgetExhausted, Message: refusal.Message, Until: refusal.Until}, now)
		} else if plan.Begins() {
			reserved = append(reserved, plan)
		}
	}
	return reserved
}

// noteVerdicts has RemediationBudgets count anew the targets that are judged otherwise than at the last
// sync: no event says so where time alone or a live read has changed that.
func (c *Controller) noteVerdicts(s *snapshot) {
	now := sets.New[string]()
	for i := range s.targets {
		if t := &s.targets[i]; !t.Unselected && notHealthy(t.Verdict.State) {
			now.Insert(slotName(t.Machine))
		}
	}
	for name := range now.SymmetricDifference(s.state.notHealthy) {
		c.Budgets.NodeChanged(name)
	}
	s.state.notHealthy = now
}

// unhealthySince returns when a target became unhealthy, or was first seen to be.
func (s *snapshot) unhealthySince(t *machinehealth.Target, now time.Time) time.Time {
	if !t.Verdict.Deadline.IsZero() {
		return t.Verdict.Deadline
	}
	if entry := s.state.entries[t.Machine.Name]; entry != nil && entry.Detected != nil {
		return entry.Detected.Time
	}
	return now
}

// endReservations says what became of the targets that were admitted.
func (c *Controller) endReservations(s *snapshot, reserved []*machinehealth.Plan, results []machinehealth.Result) {
	if len(reserved) == 0 {
		return
	}
	ends := endsOf(results)
	for _, plan := range reserved {
		name := slotName(plan.Target.Machine)
		c.Budgets.End(claimantOf(keyOf(s.check)), name, ends[name])
	}
}

// endsOf returns what became of the targets that have begun, or were to, by the name that counts. All
// others have not begun. Two Machines may name one Node.
func endsOf(results []machinehealth.Result) map[string]budget.Result {
	ends := make(map[string]budget.Result, len(results))
	for _, result := range results {
		name := slotName(result.Plan.Target.Machine)
		switch {
		case result.Begun():
			ends[name] = budget.Begun
		case ends[name] == budget.Begun:
		case result.Outcome.Result == remediation.Unknown:
			ends[name] = budget.Uncertain
		case result.Outcome.Result != remediation.Deferred && ends[name] == budget.NotBegun:
			ends[name] = budget.Rejected
		}
	}
	return ends
}

// underway are the remediations that have begun and not ended: those of the history, and the
// remediation objects that are left. A Machine, and its Node, may be gone by then.
type underway struct {
	mu      sync.Mutex
	byCheck map[cache.ObjectName]map[string]begun
}

// begun is one of them.
type begun struct {
	// name is that of the Node, or what stands for a Machine without one.
	name    string
	started time.Time
}

// set replaces the remediations of a MachineHealthCheck, by Machine. It returns the names that are
// concerned.
func (u *underway) set(check cache.ObjectName, now map[string]begun) (concerned []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.byCheck[check]
	if maps.Equal(before, now) {
		return nil
	}
	if u.byCheck == nil {
		u.byCheck = map[cache.ObjectName]map[string]begun{}
	}
	for _, machines := range []map[string]begun{before, now} {
		for _, one := range machines {
			concerned = append(concerned, one.name)
		}
	}
	if u.byCheck[check] = now; len(now) == 0 {
		delete(u.byCheck, check)
	}
	return concerned
}

// retain drops the remediations of all other Machines. It returns the names that are concerned.
func (u *underway) retain(check cache.ObjectName, machines sets.Set[string]) (concerned []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.byCheck[check], func(machine string, one begun) bool {
		if machines.Has(machine) {
			return false
		}
		concerned = append(concerned, one.name)
		return true
	})
	return concerned
}

// nameOf returns under which name the remediation of a Machine is underway, empty if it is not.
func (u *underway) nameOf(check cache.ObjectName, machine string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byCheck[check][machine].name
}

// rename has the remediations of a Machine count under the name that it goes by now. It returns the names
// that are concerned.
func (u *underway) rename(machine *machinehealth.Machine) (concerned []string) {
	name := slotName(machine)
	u.mu.Lock()
	defer u.mu.Unlock()
	for check, machines := range u.byCheck {
		one, remediated := machines[machine.Name]
		if !remediated || check.Namespace != machine.Namespace || one.name == name {
			continue
		}
		concerned = append(concerned, one.name, name)
		machines[machine.Name] = begun{name: name, started: one.started}
	}
	return concerned
}

// names returns the names of all remediations.
func (u *underway) names() (names []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, machines := range u.byCheck {
		for _, one := range machines {
			names = append(names, one.name)
		}
	}
	return names
}

// of returns what is known of a name.
func (u *underway) of(name string) (observed budget.Observation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, machines := range u.byCheck {
		for _, one := range machines {
			if one.name == name {
				observed.Merge(budget.Observation{Remediating: true, Started: one.started})
			}
		}
	}
	return observed
}

// setUnderway brings up to date what is underway by a MachineHealthCheck: the open entries of its
// history, and the Machines that have a remediation object.
func (c *Controller) setUnderway(check cache.ObjectName, history []v1beta1.Remediation, machines map[string]*machinehealth.Machine, targets []machinehealth.Target) {
	now := map[string]begun{}
	for i := range history {
		entry := &history[i]
		if entry.Started == nil || entry.Finished != nil || entry.Closed != nil || entry.Machine == "" {
			continue
		}
		node := ""
		if entry.TargetKind == "Node" {
			node = entry.TargetName
		}
		now[entry.Machine] = begun{name: c.nameUnderway(check, entry.Machine, machines, node), started: entry.Started.Time}
	}
	for i := range targets {
		for _, cr := range targets[i].Own {
			if _, known := now[targets[i].Machine.Name]; !known {
				name := c.nameUnderway(check, targets[i].Machine.Name, machines, cr.Annotations[v1alpha1.AnnotationNodeName])
				now[targets[i].Machine.Name] = begun{name: name, started: cr.CreationTimestamp.Time}
			}
		}
	}
	for _, name := range c.underway.set(check, now) {
		c.Budgets.NodeChanged(name)
	}
}

// renameUnderway has RemediationBudgets count the remediations of a Machine under the name that it goes by
// now, also if no MachineHealthCheck selects it any more, or none has been synced yet.
func (c *Controller) renameUnderway(machine *machinehealth.Machine) {
	for _, name := range c.underway.rename(machine) {
		c.Budgets.NodeChanged(name)
	}
}

// nameUnderway returns the name by which the remediation of a Machine counts. Machines are nil before the
// first sync: then it is the Machine that the cache has. If the Machine is gone, it is the name that it had,
// as far as this process knows, or the Node that it was begun for.
func (c *Controller) nameUnderway(check cache.ObjectName, machine string, machines map[string]*machinehealth.Machine, node string) string {
	there := machines[machine]
	if machines == nil {
		there = c.cachedMachine(check.Namespace, machine)
	}
	if there != nil {
		return slotName(there)
	}
	return cmp.Or(c.underway.nameOf(check, machine), node, machineName(check.Namespace, machine))
}

// Observe returns what the MachineHealthChecks know of a node, or of what stands for a Machine
// without one, as RemediationBudgets count it (spec B3).
func (c *Controller) Observe(name string) budget.Observation {
	if !c.Active() {
		return budget.Observation{}
	}
	observed := c.underway.of(name)
	node := c.node(name)
	for _, machine := range c.machinesOf(name) {
		observed.Unhealthy = observed.Unhealthy || c.judgedUnhealthy(machine, node)
	}
	return observed
}

// Remediating returns the names of all that is under remediation.
func (c *Controller) Remediating() []string { return c.underway.names() }

// judgedUnhealthy reports whether a MachineHealthCheck judges a Machine to be unhealthy, or soon.
func (c *Controller) judgedUnhealthy(machine *machinehealth.Machine, node *corev1.Node) bool {
	checks, _ := c.checks.MachineHealthChecks(machine.Namespace).List(labels.Everything()) // A cache in memory has no errors.
	return slices.ContainsFunc(checks, func(check *v1beta1.MachineHealthCheck) bool {
		criteria := c.criteriaOf(check)
		return criteria.Selects(machine) && notHealthy(criteria.Judge(machine, c.cachedNodeState(machine), c.evidenceOf(node), false, c.Clock.Now()).State)
	})
}

// notHealthy reports whether a target counts as not healthy for its state alone (spec B3.1).
func notHealthy(state machinehealth.State) bool {
	return state == machinehealth.SoonUnhealthy || state == machinehealth.Unhealthy
}

// MachineOf returns the Machine of a Node, or the one that a name stands for, as RemediationBudgets
// count it. Of several that name one Node, it is the first by name.
func (c *Controller) MachineOf(name string) budget.Machine {
	machines := c.machinesOf(name)
	if len(machines) == 0 {
		return budget.Machine{}
	}
	machine := slices.MinFunc(machines, func(a, b *machinehealth.Machine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return budget.Machine{Exists: true, Namespace: machine.Namespace, Labels: machine.Labels}
}

// MachineNames returns the names of all Machines as MachineOf knows them.
func (c *Controller) MachineNames() (names []string) {
	for _, kind := range machineKinds {
		if indexer, read := c.machines.LastCache(kind); read {
			names = append(names, indexer.ListIndexFuncValues(machinesByNode)...)
		}
	}
	return names
}

// MachinesReadable returns why Machines cannot be read: those of OpenShift, and those of Cluster API
// where a MachineHealthCheck is about them. Where they are not served, there are none.
func (c *Controller) MachinesReadable() error {
	wanted := c.machines.Wanted(machineOwner)
	for _, kind := range machineKinds {
		if _, watched := wanted[kind]; !watched {
			continue
		}
		switch _, err := c.machines.Cache(kind); {
		case err == nil || isNoMatch(err):
		case watches.Pending(err):
			return err
		default:
			return fmt.Errorf("reading %s: %w", kind.GroupKind(), err)
		}
	}
	return nil
}

// Wake syncs MachineHealthChecks.
func (c *Controller) Wake(names []string) {
	for _, name := range names {
		if key, err := cache.ParseObjectName(name); err == nil {
			c.enqueue(key)
		}
	}
}
