// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
)

// act carries out the plans, and keeps what the next sync must know of the outcomes.
func (c *Controller) act(ctx context.Context, s *snapshot, plans []machinehealth.Plan) []machinehealth.TargetResult {
	results := make([]machinehealth.TargetResult, len(plans))
	for i := range plans {
		results[i].Plan = &plans[i]
	}
	acted := c.acting(s, plans, results).Act(ctx, pointers(plans))
	for i := range acted {
		results[i].Outcome = acted[i].Outcome
	}
	s.state.rememberOutcomes(results, c.Clock.Now())
	reconcile.Retry(ctx, c.Shell, &s.state.attempts, acted, func(i int) string { return results[i].Plan.Target.Machine.Name })
	return results
}

// pointers returns the plans as the rest of the controllers knows them.
func pointers(plans []machinehealth.Plan) []*remediation.NodePlan {
	pointers := make([]*remediation.NodePlan, len(plans))
	for i := range plans {
		pointers[i] = &plans[i].NodePlan
	}
	return pointers
}

// acting returns how the plans of a snapshot are carried out. The results get the plans that are.
func (c *Controller) acting(s *snapshot, plans []machinehealth.Plan, results []machinehealth.TargetResult) *reconcile.Acting {
	return &reconcile.Acting{
		Shell: c.Shell, Check: s.check, ClockUntrusted: s.policy.ClockUntrusted, BudgetRevision: s.budgetRevision, Reserved: s.reserved,
		Confirm: func(ctx context.Context, i int) (execute.Confirmation, error) {
			return c.confirm(ctx, s, results[i].Plan)
		},
		Acquire: func(asking context.Context, i int) (v1alpha1.DecisionReason, func(unknown bool)) {
			return c.nodeHealthChecks.AcquireControlPlane(asking, memberOf(plans[i].Target.Machine))
		},
		Withhold: func(i int, reason v1alpha1.DecisionReason) *remediation.NodePlan {
			withheld := plans[i]
			s.policy.Withhold(&withheld, &remediation.Withholding{Reason: reason}, c.Clock.Now())
			withheld.Recheck = c.Clock.Now().Add(slotRecheck)
			results[i].Plan = &withheld
			return &withheld.NodePlan
		},
		Announce: func(ctx context.Context, i int) error { return c.announce(ctx, s, plans, &plans[i]) },
	}
}

// locate returns where a kind is served, of Machines or of CRs.
func (c *Controller) locate(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	for api, machines := range machineKinds {
		if kind.Group == api && kind.Kind == machines.Kind {
			mapping, err := c.machines.Mapping(machines)
			if mapping != nil {
				return mapping, nil
			}
			return nil, err
		}
	}
	return c.LocateCRs(kind)
}

// confirm reads Machine and Node live and judges them again, right before an action that cannot be
// undone, and so the Node of the cache (spec M8.4).
func (c *Controller) confirm(ctx context.Context, s *snapshot, plan *machinehealth.Plan) (execute.Confirmation, error) {
	planned := plan.Target.Machine
	if plan.Target.Gone {
		there, err := c.exists(ctx, s.policy.Criteria.API, planned)
		return execute.Confirmation{Relapsed: there}, err
	}
	mapping, err := c.locate(planned.GroupVersionKind())
	if err != nil {
		return execute.Confirmation{}, fmt.Errorf("locating Machines: %w", err)
	}
	observed, err := c.readLive(ctx, mapping.Resource, planned)
	if apierrors.IsNotFound(err) {
		return execute.Confirmation{Refusal: v1alpha1.DecidedRecovering, Relapsed: !plan.Creates()}, nil
	}
	if err != nil {
		return execute.Confirmation{}, err
	}
	observed.Unselected = !s.policy.Criteria.Selects(observed.Machine)
	live := s.policy.Criteria.Live(plan.Target, observed, c.Sightings.Of(observed.Node), c.Clock.Now())
	if !plan.Creates() {
		return execute.Confirmation{Relapsed: plan.ConfirmRecovery(live)}, nil
	}
	refusal := plan.Confirm(live)
	if cached := c.NodeCache.Get(observed.Machine.Node); refusal == "" && cached != nil { // The watch may have reported a recovery after the read.
		observed.Node, observed.NodeState = cached, machinehealth.NodeExists
		refusal = plan.Confirm(s.policy.Criteria.Live(plan.Target, observed, c.Sightings.Of(cached), c.Clock.Now()))
	}
	return execute.Confirmation{Refusal: refusal, MachineVersion: live.Machine.ResourceVersion}, nil
}

// readLive reads a Machine and, at the same time, the Node that it named when the plan was made.
func (c *Controller) readLive(ctx context.Context, machines schema.GroupVersionResource, planned *machinehealth.Machine) (*machinehealth.Observed, error) {
	observed := &machinehealth.Observed{}
	var wg sync.WaitGroup
	var nodeErr error
	wg.Go(func() { observed.Node, observed.NodeState, nodeErr = c.liveNode(ctx, planned.Node) })
	live, err := c.Dynamic.Resource(machines).Namespace(planned.Namespace).Get(ctx, planned.Name, metav1.GetOptions{})
	wg.Wait()
	if err != nil {
		return nil, fmt.Errorf("reading Machine: %w", err)
	}
	if observed.Machine = machinehealth.ParseMachine(live); observed.Machine.Node != planned.Node {
		observed.Node, observed.NodeState, nodeErr = c.liveNode(ctx, observed.Machine.Node)
	}
	return observed, nodeErr
}

// exists reports whether a Machine that counts as gone still exists. An API that is not served has
// none.
func (c *Controller) exists(ctx context.Context, api string, gone *machinehealth.Machine) (bool, error) {
	mapping, err := c.machines.Mapping(machineKinds[api])
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("locating Machines: %w", err)
	}
	_, err = c.Dynamic.Resource(mapping.Resource).Namespace(gone.Namespace).Get(ctx, gone.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// liveNode reads a Node live. Without a name there is none.
func (c *Controller) liveNode(ctx context.Context, name string) (*corev1.Node, machinehealth.NodeState, error) {
	if name == "" {
		return nil, machinehealth.NodeUnknown, nil
	}
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, machinehealth.NodeMissing, nil
	}
	if err != nil {
		return nil, machinehealth.NodeUnknown, fmt.Errorf("reading Node: %w", err)
	}
	return node, machinehealth.NodeExists, nil
}

// unsureFor is how long the deletion of a Machine may still show after its answer was lost.
const unsureFor = time.Minute

// rememberOutcomes keeps which deletions were requested, or may have been.
func (s *checkState) rememberOutcomes(results []machinehealth.TargetResult, now time.Time) {
	maps.DeleteFunc(s.unsure, func(_ string, until time.Time) bool { return !now.Before(until) })
	requested := map[types.UID]bool{}
	keep := func(uid types.UID) {
		if s.deletionRequested[uid] {
			requested[uid] = true
		}
	}
	for _, result := range results {
		machine, outcome := result.Plan.Target.Machine, result.Outcome
		keep(machine.UID)
		for _, cr := range result.Plan.Target.Own {
			keep(cr.UID)
		}
		switch deletion := result.Plan.Type == v1beta1.RemediationMachineDeletion; {
		case deletion && outcome.Result == remediation.Requested:
			requested[machine.UID] = true
		case deletion && outcome.Result == remediation.Unknown:
			s.unsure[machine.Name] = now.Add(unsureFor)
		}
		for _, cr := range outcome.Deleted {
			requested[cr.UID] = true
		}
	}
	s.deletionRequested = requested // This sync still has those before.
}
