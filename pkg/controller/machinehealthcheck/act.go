// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/batch"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
)

// act carries out one batch of plans that begin nothing, then one batch of the others (spec 8.4). It returns the
// outcomes in the same order. The failure of one target does not affect the others.
func (c *Controller) act(ctx context.Context, s *snapshot, plans []machinehealth.Plan) []machinehealth.TargetResult {
	results, turns := make([]machinehealth.TargetResult, len(plans)), make([]batch.Turn, len(plans))
	for i := range plans {
		results[i].Plan, turns[i] = &plans[i], turnOf(&plans[i])
	}
	outcomes := batch.Act(ctx, c.Clock, turns, func(asking context.Context, i int) (outcome remediation.Outcome) {
		if turns[i] != batch.ControlPlane {
			return c.carryOut(ctx, s, &plans[i])
		}
		results[i].Plan, outcome = c.carryOutControlPlane(ctx, asking, s, plans, &plans[i])
		return outcome
	})
	for i := range outcomes {
		results[i].Outcome = outcomes[i]
	}
	c.rememberOutcomes(ctx, s, results)
	return results
}

// turnOf returns when a plan is carried out.
func turnOf(plan *machinehealth.Plan) batch.Turn {
	switch {
	case len(plan.Actions) == 0:
		return batch.Never
	case takesSlot(plan):
		return batch.ControlPlane
	case plan.Begins():
		return batch.Beginning
	default:
		return batch.Ending
	}
}

// carryOutControlPlane carries out the plan of a control plane Machine. Until the outcome is known, no other
// control plane node or Machine begins. Without the slot it carries out the rest of the plan. It returns the
// plan that was carried out.
func (c *Controller) carryOutControlPlane(ctx, asking context.Context, s *snapshot, plans []machinehealth.Plan, plan *machinehealth.Plan) (*machinehealth.Plan, remediation.Outcome) {
	reason, release := c.nodeHealthChecks.AcquireControlPlane(asking, memberOf(plan.Target.Machine))
	if reason != "" {
		withheld := *plan
		s.policy.Withhold(&withheld, &remediation.Withholding{Reason: reason}, c.Clock.Now())
		withheld.Recheck = c.Clock.Now().Add(slotRecheck)
		return &withheld, c.carryOut(ctx, s, &withheld)
	}
	var outcome remediation.Outcome
	if err := c.announce(ctx, s, plans, plan); err != nil {
		outcome = remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedUpdateFailed, Err: fmt.Errorf("announcing the deletion of a Machine: %w", err)}
	} else {
		outcome = c.carryOut(ctx, s, plan)
	}
	release(outcome.Result == remediation.Unknown)
	return plan, outcome
}

// carryOut carries out a plan, unless the spec has changed since it was made.
func (c *Controller) carryOut(ctx context.Context, s *snapshot, plan *machinehealth.Plan) remediation.Outcome {
	if len(plan.Actions) == 0 {
		return remediation.Outcome{}
	}
	if c.outdated(s) {
		return remediation.Outcome{Result: remediation.Deferred}
	}
	target := plan.Target
	executor := &execute.Executor{
		Client:  c.Dynamic,
		Mapping: c.locate,
		Confirm: func(ctx context.Context, _ *remediation.Node) (execute.Confirmation, error) {
			return c.confirm(ctx, s, plan)
		},
		Kube: c.Kube, LeaseNamespace: c.LeaseNamespace, Now: c.Clock.Now,
		OnWrite: func(resource schema.GroupResource, version string) {
			c.Writes.Wrote(keyOf(s.check).String(), resource, version, c.Clock.Now())
		},
	}
	// CRs name the Node, or have the name of the Machine.
	node := &remediation.Node{Name: cmp.Or(target.Machine.Node, target.Machine.Name), Own: target.Own}
	return executor.Execute(ctx, s.policy.Owner, &remediation.NodePlan{Node: node, Actions: plan.Actions})
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
	mapping, err := c.remediations.MappingIn(kind.GroupKind(), kind.Version)
	if mapping != nil {
		return mapping, nil
	}
	return nil, err
}

// outdated reports whether the MachineHealthCheck or a RemediationBudget has changed since the
// snapshot, for example by a pause, or whether the controller is no longer active.
func (c *Controller) outdated(s *snapshot) bool {
	check, err := c.checks.MachineHealthChecks(s.check.Namespace).Get(s.check.Name)
	return err != nil || !c.Active() || check.UID != s.check.UID || check.Generation != s.check.Generation || !maps.Equal(check.Annotations, s.check.Annotations) ||
		(check.DeletionTimestamp != nil) != (s.check.DeletionTimestamp != nil) || c.ClockUntrusted() != s.policy.ClockUntrusted ||
		c.Budgets.Revision() != s.budgetRevision
}

// confirm reads Machine and Node live and judges them again, right before an action that cannot be
// undone (spec M8.4).
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
		return execute.Confirmation{Refusal: v1alpha1.DecidedRecovering, Relapsed: !plan.Begins()}, nil
	}
	if err != nil {
		return execute.Confirmation{}, err
	}
	observed.Unselected = !s.policy.Criteria.Selects(observed.Machine)
	live := s.policy.Criteria.Live(plan.Target, observed, c.Sightings.Of(observed.Node), c.Clock.Now())
	if !plan.Begins() {
		return execute.Confirmation{Relapsed: plan.ConfirmRecovery(live)}, nil
	}
	return execute.Confirmation{Refusal: plan.Confirm(live), MachineVersion: live.Machine.ResourceVersion}, nil
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

// rememberOutcomes keeps what the next sync must know of the outcomes.
func (c *Controller) rememberOutcomes(ctx context.Context, s *snapshot, results []machinehealth.TargetResult) {
	now, failed := c.Clock.Now(), 0
	var first error
	for _, result := range results {
		machine, outcome := result.Plan.Target.Machine, result.Outcome
		if result.Plan.Type == v1beta1.RemediationMachineDeletion && outcome.Result != "" {
			s.state.unsure.Delete(machine.Name)
			if outcome.Result == remediation.Requested {
				s.state.deletionRequested[machine.UID] = true
			}
			if outcome.Result == remediation.Unknown {
				s.state.unsure.Insert(machine.Name)
			}
		}
		for _, cr := range outcome.Deleted {
			s.state.deletionRequested[cr.UID] = true
		}
		switch {
		case outcome.Err != nil:
			s.state.attempts.Failed(machine.Name, outcome, now)
			if failed++; failed == 1 {
				first = outcome.Err
			}
		case outcome.Result == remediation.Recovered: // Until the cache shows it, the same would be done again.
			s.state.attempts.Failed(machine.Name, outcome, now)
		case len(result.Plan.Actions) > 0 && outcome.Result != remediation.Deferred:
			s.state.attempts.Succeeded(machine.Name)
		}
	}
	if failed > 0 { // Thousands may fail for one cause.
		klog.FromContext(ctx).Error(first, "Acting on Machines failed, retrying", "machines", failed)
	}
}
