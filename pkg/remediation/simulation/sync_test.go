// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
)

// doing is the plan that is being carried out, and what it was made from.
type doing struct {
	sight *sight
	plan  *remediation.NodePlan
}

// sync is one sync of a NodeHealthCheck. It returns false if the process died in it.
func (p *process) sync(name string) (alive bool) {
	w := p.world
	outer := w.doing
	defer func() {
		w.doing = outer
		switch r := recover().(type) {
		case nil:
		case crash:
			alive = false
			if outer != nil {
				panic(r) // All of the process dies.
			}
			w.boot(w.random.IntN(3))
		default:
			panic(r)
		}
	}()
	if p.busy[name] {
		return true
	}
	if p.behind(name) {
		p.dirty[name] = true
		return true
	}
	p.busy[name] = true
	defer delete(p.busy, name)
	delete(p.dirty, name)
	delete(p.wake, name)

	nhc, v := p.nhcs.items[name].nhc, p.cached()
	s := p.observe(v, nhc, w.now)
	if p.current() {
		s.moves = w.moves
	}
	s.aged = slices.ContainsFunc(p.informers(), func(i *informer) bool { return i.position < i.listed })
	w.foretell(s)
	p.takePlace(v, s, true)
	plans := make([]remediation.NodePlan, 0, len(s.nodes))
	for _, node := range s.nodes {
		plan := s.plan(&node, s.now)
		w.logPlan(name, &plan)
		w.checkPlan(s, &plan)
		plans = append(plans, plan)
	}
	outcomes := p.act(s, plans)
	p.settlePlace(s, plans, outcomes)
	p.remember(s, plans, outcomes)
	w.checkOutcomes(s, plans, outcomes)
	s.settleStorm(plans, outcomes)
	w.retell(s, plans, outcomes)

	status := p.status(s, plans, outcomes)
	w.checkStormStatus(s, status)
	w.checkDecisions(s, plans, outcomes, status)
	if err := p.writeStatus(s, status); err != nil {
		p.dirty[name] = true
		return true
	}
	p.decisions[name] = decisionsIn(status)
	w.tellDecisions(s, status)
	w.noteUnwell(s)
	w.noteStorm(s)
	w.checkFixedPoint(s, plans, outcomes, status)
	p.wake[name] = health.Earliest(p.wake[name], p.recheck(s, plans))
	if slices.ContainsFunc(outcomes, func(outcome remediation.Outcome) bool { return lostRace(&outcome) }) {
		p.wake[name] = health.Earliest(p.wake[name], s.now.Add(time.Second))
	}
	p.checkWake(s, status)
	return true
}

// logPlan notes what is worth telling.
func (w *world) logPlan(nhc string, plan *remediation.NodePlan) {
	var lines []string
	for _, action := range plan.Actions {
		switch action := action.(type) {
		case remediation.Create:
			lines = append(lines, "create "+action.Object.GetKind()+" "+action.Object.GetName())
		case remediation.Delete:
			lines = append(lines, "delete "+action.CR.Kind+" "+action.CR.Name)
		case remediation.MarkTimedOut:
			verb := "tell to stop "
			if action.EndsStep {
				verb = "end "
			}
			lines = append(lines, verb+action.CR.Kind+" "+action.CR.Name)
		case remediation.WriteLease:
			lines = append(lines, "write lease")
		case remediation.ReleaseLease:
			lines = append(lines, "release lease")
		case remediation.RemoveConfirmation:
			lines = append(lines, "remove confirmation")
		}
	}
	if plan.Refusal() != "" {
		lines = append(lines, "refused: "+string(plan.Refusal()))
	}
	if plan.Exhausted {
		lines = append(lines, "no template left")
	}
	if plan.Delayed {
		lines = append(lines, "delayed")
	}
	state := plan.Node.Verdict.State.String()
	if plan.Node.Constraints.NodeDeleted {
		state = "Deleted"
	}
	text := fmt.Sprintf("%s plans for %s (%s): %s", nhc, plan.Node.Name, state, strings.Join(lines, ", "))
	if len(plan.Actions) > 0 || (len(lines) > 0 && w.planned[nhc+"/"+plan.Node.Name] != text) {
		w.log(plan.Node.Name, "%s", text)
	}
	w.planned[nhc+"/"+plan.Node.Name] = text
}

// act is controller.act, one node after the other in any order.
func (p *process) act(s *sight, plans []remediation.NodePlan) []remediation.Outcome {
	w := p.world
	outcomes := make([]remediation.Outcome, len(plans))
	executor := &execute.Executor{
		Client: dynamicClient{world: w}, Mapping: w.mapping, Kube: kubeClient{world: w}, LeaseNamespace: "leases", Now: func() time.Time { return w.now },
		StillUnhealthy: func(_ context.Context, name string) (unhealthy bool, err error) {
			err = w.request(name, "last look at node "+name, func() error {
				node := w.node(name)
				known := s.objects[name]
				unhealthy = node != nil && known != nil && node.UID == known.UID && selects(s.nhc, node) && node.Labels[v1alpha1.LabelExclude] != "true" &&
					health.Judge(s.nhc.Spec.UnhealthyConditions, node.Status.Conditions, w.now).State == health.Unhealthy
				return nil
			})
			return unhealthy && err == nil, err
		},
		OnWrite: func(resource schema.GroupResource, version string) {
			for _, i := range p.informers() {
				if i.table.resource == resource || (resource == execute.LeaseResource && i.table == w.leases) {
					p.wrote(s.nhc.Name, i.table, version)
				}
			}
		},
	}
	for _, beginning := range []bool{false, true} {
		for _, i := range w.random.Perm(len(plans)) {
			if len(plans[i].Actions) == 0 || plans[i].Begins() != beginning {
				continue
			}
			w.doing = &doing{sight: s, plan: &plans[i]}
			outcomes[i] = executor.Execute(context.Background(), s.policy.Owner, &plans[i])
			w.doing = nil
		}
	}
	return outcomes
}

func (p *process) remember(s *sight, plans []remediation.NodePlan, outcomes []remediation.Outcome) {
	planned := map[retryID]bool{}
	for i := range plans {
		id := retryOf(s.nhc.Name, plans[i].Node)
		planned[id] = true
		for _, cr := range outcomes[i].Deleted {
			p.requested[s.nhc.Name][cr.UID] = true
		}
		switch {
		case outcomes[i].Err != nil:
			if p.retries[id] == nil {
				p.retries[id] = &retry{}
			}
			p.retries[id].failure, p.retries[id].failed = outcomes[i].Err.Error(), outcomes[i].Reason
			p.retries[id].due = p.world.now.Add(min(time.Minute, 100*time.Millisecond<<min(p.retries[id].failures, 16)))
			p.retries[id].failures++
		case len(plans[i].Actions) > 0:
			delete(p.retries, id)
		}
	}
	for id := range p.retries {
		if id.nhc == s.nhc.Name && !planned[id] {
			delete(p.retries, id)
		}
	}
}

// recheck is when time alone may change what a sync does.
func (p *process) recheck(s *sight, plans []remediation.NodePlan) time.Time {
	next := health.Earliest(health.Earliest(s.fleet.Recheck, s.leaving), s.storm.End(health.StormRulesOf(&s.nhc.Spec)))
	for i := range plans {
		next = health.Earliest(next, plans[i].Recheck)
		for _, cr := range plans[i].Node.Own {
			if old := cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge); old.After(s.now) {
				next = health.Earliest(next, old)
			}
		}
	}
	for id, retry := range p.retries {
		if id.nhc == s.nhc.Name && retry.due.After(s.now) {
			next = health.Earliest(next, retry.due)
		}
	}
	return next
}
