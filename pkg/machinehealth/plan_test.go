// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// refusals are the checks in the order of M8.2, with that of the clock where 5.4 has it. apply
// has one refuse a Machine that is to be deleted, or a CR for it.
var refusals = []struct {
	reason v1alpha1.DecisionReason
	apply  func(*Policy, *Target)
	// strategies are those that the check is for, all if there is none.
	strategies []Strategy
}{
	{reason: v1alpha1.DecidedInvalidSpec, apply: func(p *Policy, _ *Target) { p.Criteria.Problem = "timeout must be a duration: x" }},
	{reason: v1alpha1.DecidedTerminating, apply: func(p *Policy, _ *Target) { p.Terminating = true }},
	{reason: v1alpha1.DecidedClockUntrusted, apply: func(p *Policy, _ *Target) { p.ClockUntrusted = true }},
	{reason: v1alpha1.DecidedClusterUpgrading, apply: func(p *Policy, _ *Target) { p.Upgrading = true }},
	{reason: v1alpha1.DecidedClusterUpgrading, apply: func(_ *Policy, t *Target) { updating(t) }},
	{reason: v1alpha1.DecidedPaused, apply: func(p *Policy, _ *Target) { p.Criteria.Paused = true }},
	{reason: v1alpha1.DecidedGateClosed, apply: func(p *Policy, _ *Target) { p.Summary.Limit = 0 }},
	{reason: v1beta1.DecidedMachinePaused, apply: func(_ *Policy, t *Target) { t.Obstacles.MachinePaused = true }},
	{reason: v1beta1.DecidedClusterPaused, apply: func(_ *Policy, t *Target) { t.Obstacles.ClusterPaused = true }},
	{reason: v1alpha1.DecidedExcluded, apply: func(_ *Policy, t *Target) { t.Obstacles.Excluded = true }},
	{reason: v1beta1.DecidedAmbiguousNode, apply: func(_ *Policy, t *Target) { t.Obstacles.AmbiguousNode = "machines/n" }},
	{reason: v1beta1.DecidedOtherHealthCheck, apply: func(_ *Policy, t *Target) { t.Obstacles.OtherCheck = "machines/others" }},
	{reason: v1beta1.DecidedNoController, apply: func(_ *Policy, t *Target) { noOwner(t.Machine) }, strategies: []Strategy{Delete}},
	{reason: v1beta1.DecidedControlPlaneProvider, apply: func(_ *Policy, t *Target) { ofClusterAPI(t.Machine); t.ControlPlane = true }, strategies: []Strategy{Delete}},
	{reason: v1beta1.DecidedTemplateUnavailable, apply: func(p *Policy, _ *Target) { p.Template = nil }, strategies: []Strategy{Template}},
	{reason: v1alpha1.DecidedVanished, apply: func(_ *Policy, t *Target) { t.Requested, t.Vanished = epoch.Add(-20*time.Minute), epoch }, strategies: []Strategy{Template}},
	{reason: v1alpha1.DecidedControlPlaneBusy, apply: func(_ *Policy, t *Target) { t.ControlPlane = true }},
	{reason: v1beta1.DecidedBackOff, apply: func(_ *Policy, t *Target) { t.Rounds = Rounds{3, epoch.Add(-time.Minute)} }, strategies: []Strategy{Delete}},
	{reason: v1alpha1.DecidedForeignRemediation, apply: func(_ *Policy, t *Target) { t.Foreign = cr("m", objecttest.Foreign) }, strategies: []Strategy{Template}},
	{reason: v1alpha1.DecidedLeaseTaken, apply: func(_ *Policy, t *Target) { t.Lease = nodeLease("another", epoch, 600) }},
	{reason: v1alpha1.DecidedDryRun, apply: func(p *Policy, _ *Target) { p.DryRun = true }},
}

// refuse is the plan for a Machine that failed and has a Node, with these of the refusals.
func refuse(strategy Strategy, which ...int) (*Policy, Plan, bool) {
	p, t := policy(), target(machine("m", failedPhase), because(v1beta1.TriggerMachineFailed))
	if strategy == Template {
		byTemplate(p)
	}
	withheld := false
	for _, i := range which {
		if of := refusals[i].strategies; len(of) > 0 && of[0] != strategy {
			return nil, Plan{}, false
		}
		refusals[i].apply(p, &t)
		withheld = withheld || refusals[i].reason == v1alpha1.DecidedControlPlaneBusy
	}
	plan := planFor(p, t, epoch)
	if withheld && plan.Candidate {
		p.Withhold(&plan, &remediation.Withholding{Reason: v1alpha1.DecidedControlPlaneBusy}, epoch)
	}
	return p, plan, true
}

// TestRefusals: the first check that refuses counts, whatever the later ones say (spec M8.2).
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{Delete, Template} {
		for i := range refusals {
			for j := i; j < len(refusals); j++ {
				_, plan, possible := refuse(strategy, i, j)
				if !possible {
					continue
				}
				require.Equal(t, refusals[i].reason, plan.Reason, "M8.2: %s comes before %s (%s)", refusals[i].reason, refusals[j].reason, strategy)
				require.True(t, plan.Refused)
				require.False(t, plan.Creates())
				require.Empty(t, describeActions(plan.Actions))
			}
		}
	}
	_, plan, _ := refuse(Delete)
	require.True(t, plan.Creates(), "the test itself")
}

// TestRefusalsForOneStrategy: obstacles to only one strategy.
func TestRefusalsForOneStrategy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy *Policy
		target Target
		want   v1beta1.RemediationType
	}{
		"M11.1 an annotation needs no owner":                          {policy(annotates), target(machine("m", noOwner)), v1beta1.RemediationExternal},
		"M12 nor does a template":                                     {policy(byTemplate), target(machine("m", noOwner)), v1beta1.RemediationExternal},
		"M13.3 a template is allowed":                                 {policy(byTemplate), target(machine("m", ofClusterAPI), func(t *Target) { t.ControlPlane = true }), v1beta1.RemediationExternal},
		"M13.1 a control plane Machine of OpenShift is deleted":       {policy(), target(machine("m"), func(t *Target) { t.ControlPlane = true }), v1beta1.RemediationMachineDeletion},
		"M10.1 a worker of Cluster API is deleted":                    {policy(), target(machine("m", ofClusterAPI)), v1beta1.RemediationMachineDeletion},
		"M10.1 a Machine that failed is deleted despite the strategy": {policy(annotates), target(machine("m", failedPhase), because(v1beta1.TriggerMachineFailed)), v1beta1.RemediationMachineDeletion},
		"M11.2 also if it is under external remediation":              {policy(annotates), target(machine("m", failedPhase, firstKey, secondKey), because(v1beta1.TriggerMachineFailed)), v1beta1.RemediationMachineDeletion},
		"M9.1 an upgrade does not keep those that terminate":          {policy(func(p *Policy) { p.Upgrading, p.Criteria.onlyTermination = true, true }), target(machine("m")), v1beta1.RemediationMachineDeletion},
		"M9.1 nor does an update of the Node":                         {policy(func(p *Policy) { p.Criteria.onlyTermination = true }), target(machine("m"), updating), v1beta1.RemediationMachineDeletion},
		"M12 a foreign CR is no obstacle to a deletion":               {policy(), target(machine("m"), func(t *Target) { t.Foreign = cr("m", objecttest.Foreign) }), v1beta1.RemediationMachineDeletion},
		"M10.3 the lease of another is no obstacle without a Node":    {policy(), target(machine("m"), func(t *Target) { t.NodeUID, t.Lease = "", nodeLease("another", epoch, 600) }), v1beta1.RemediationMachineDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(tc.policy, tc.target, epoch)
			require.True(t, plan.Creates(), "%s", plan.Reason)
			require.Equal(t, tc.want, plan.Type)
		})
	}
	failedWithoutOwner := planFor(policy(annotates), target(machine("m", failedPhase, noOwner), because(v1beta1.TriggerMachineFailed)), epoch)
	require.Equal(t, v1beta1.DecidedNoController, failedWithoutOwner.Reason, "M10.1")
}

// TestRefusalRechecks: a refusal that ends without an event is looked at again in time (spec M19.1).
func TestRefusalRechecks(t *testing.T) {
	t.Parallel()
	recheck := map[v1alpha1.DecisionReason]time.Time{
		v1alpha1.DecidedClusterUpgrading: epoch.Add(time.Minute), v1alpha1.DecidedControlPlaneBusy: epoch.Add(time.Minute), v1alpha1.DecidedLeaseTaken: epoch.Add(time.Minute),
		v1beta1.DecidedBackOff: epoch.Add(20 * time.Minute), v1alpha1.DecidedVanished: epoch.Add(20 * time.Minute),
	}
	for i := range refusals {
		for _, strategy := range []Strategy{Delete, Template} {
			if _, plan, possible := refuse(strategy, i); possible {
				require.Equal(t, recheck[refusals[i].reason], plan.Recheck, "M19.1: %s", refusals[i].reason)
			}
		}
	}
	taken := target(machine("m"), func(t *Target) { t.Lease = nodeLease("another", epoch, 30) })
	require.Equal(t, epoch.Add(30*time.Second+1), planFor(policy(), taken, epoch).Recheck, "M19.1: when the lease ends")
	require.True(t, new(planFor(policy(), taken, epoch.Add(30*time.Second+1))).Creates())
}

// TestPlan: the actions for one target, in every state.
func TestPlan(t *testing.T) {
	t.Parallel()
	free := func(name string) []string {
		return []string{"WriteLease node-" + name + "-node", "Confirm", "DeleteMachine " + name}
	}
	held := nodeLease(ours, epoch, 660)
	with2 := with(cr("m"), cr("m2"))
	leased := func(lease *coordinationv1.Lease) func(*Target) { return func(t *Target) { t.Lease = lease } }
	retryLater := func(failed v1alpha1.DecisionReason) func(*Target) {
		return func(t *Target) { t.RetryAt, t.LastFailed, t.LastFailure = epoch.Add(time.Minute), failed, "no" }
	}
	tests := map[string]struct {
		policy  func(*Policy)
		target  Target
		reason  v1alpha1.DecisionReason
		actions []string
	}{
		"M6.1 healthy":                   {target: target(machine("m"), verdict(Healthy))},
		"M10.1 deletion":                 {target: target(machine("m")), reason: v1beta1.DecidedMachineDeleting, actions: free("m")},
		"M11.1 both keys in one request": {policy: annotates, target: target(machine("m")), reason: v1beta1.DecidedExternalRemediation, actions: []string{"WriteLease node-m-node", "Confirm", "RequestExternal m"}},
		"M12.1 a CR":                     {policy: byTemplate, target: target(machine("m")), reason: v1alpha1.DecidedStepRunning, actions: []string{"WriteLease node-m-node", "Confirm", "Create m"}},
		"M6.1 not repeated, also after a deletion by others":        {target: target(machine("m", deletingMachine), verdict(Deleting)), reason: v1beta1.DecidedMachineDeleting},
		"P9 nor before the caches show it":                          {target: target(machine("m"), requested("m-uid")), reason: v1beta1.DecidedMachineDeleting},
		"M6.1 soon-unhealthy":                                       {target: target(machine("m"), soon), reason: v1alpha1.DecidedSoonUnhealthy},
		"M6.1 not started":                                          {target: target(machine("m", noNode), verdict(NotStarted)), reason: v1beta1.DecidedNotStarted},
		"M11.2 under way, also if others set the key":               {target: target(machine("m", firstKey)), reason: v1beta1.DecidedExternalRemediation},
		"M11.2 also when the Node is gone":                          {policy: annotates, target: target(machine("m", firstKey), because(v1beta1.TriggerNodeMissing)), reason: v1beta1.DecidedExternalRemediation},
		"M11.2 the first key stays after the recovery":              {policy: annotates, target: target(machine("m", firstKey, secondKey), verdict(UnderRemediation)), reason: v1beta1.DecidedExternalRemediation},
		"M11.2 the second key goes when the first is gone":          {policy: annotates, target: target(machine("m", secondKey), verdict(Healthy)), actions: []string{"EndExternal m"}},
		"M11.2 whatever the strategy is by now":                     {target: target(machine("m", secondKey), verdict(Healthy)), actions: []string{"EndExternal m"}},
		"M11.2 unless the next remediation begins":                  {policy: annotates, target: target(machine("m", secondKey)), reason: v1beta1.DecidedExternalRemediation, actions: []string{"WriteLease node-m-node", "Confirm", "RequestExternal m"}},
		"M11.2 also if that is refused":                             {policy: blocked, target: target(machine("m", secondKey)), reason: v1alpha1.DecidedGateClosed, actions: []string{"EndExternal m"}},
		"5.7 a dry run finishes what runs":                          {policy: dryRun, target: target(machine("m", secondKey), verdict(Healthy)), actions: []string{"EndExternal m"}},
		"5.7 and removes the CRs of those that have recovered":      {policy: dryRun, target: target(machine("m"), verdict(UnderRemediation), with(cr("m"))), reason: v1alpha1.DecidedAwaitingDeletion, actions: []string{"Confirm", "Delete m"}},
		"M12.5 the CR stays while the Machine is unhealthy":         {policy: byTemplate, target: target(machine("m"), with(cr("m"))), reason: v1alpha1.DecidedStepRunning},
		"M12.5 while a condition matches":                           {policy: byTemplate, target: target(machine("m"), soon, with(cr("m"))), reason: v1alpha1.DecidedSoonUnhealthy},
		"M12.5 it is deleted afterwards":                            {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with2), reason: v1alpha1.DecidedAwaitingDeletion, actions: []string{"Confirm", "Delete m", "Delete m2"}},
		"M12.5 also by another strategy":                            {target: target(machine("m"), verdict(UnderRemediation), with(cr("m"))), reason: v1alpha1.DecidedAwaitingDeletion, actions: []string{"Confirm", "Delete m"}},
		"M12.5 once":                                                {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with2, requested("cr-m-uid")), reason: v1alpha1.DecidedAwaitingDeletion, actions: []string{"Confirm", "Delete m2"}},
		"M12.5 not if it is on its way":                             {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with(cr("m", objecttest.Deleting))), reason: v1alpha1.DecidedAwaitingDeletion},
		"M12.5 unhealthy again meanwhile":                           {policy: byTemplate, target: target(machine("m"), with(cr("m", objecttest.Deleting))), reason: v1alpha1.DecidedAwaitingDeletion},
		"M12.5 before the caches show it":                           {policy: byTemplate, target: target(machine("m"), with(cr("m")), requested("cr-m-uid")), reason: v1alpha1.DecidedAwaitingDeletion},
		"M12.5 the Machine is gone":                                 {policy: byTemplate, target: target(machine("m"), gone, with(cr("m"))), reason: v1alpha1.DecidedAwaitingDeletion, actions: []string{"Confirm", "Delete m"}},
		"M8.1 no block ends what runs":                              {policy: func(p *Policy) { byTemplate(p); blocked(p); p.Criteria.Paused = true }, target: target(machine("m"), with(cr("m"))), reason: v1alpha1.DecidedStepRunning},
		"M8.1 nor keeps the CRs of those that have recovered":       {policy: func(p *Policy) { byTemplate(p); blocked(p); p.Criteria.Paused = true }, target: target(machine("m"), verdict(UnderRemediation), with(cr("m"))), reason: v1alpha1.DecidedAwaitingDeletion, actions: []string{"Confirm", "Delete m"}},
		"M3.5 nothing begins":                                       {policy: terminating, target: target(machine("m")), reason: v1alpha1.DecidedTerminating},
		"M3.5 its CRs are deleted, each with its lease":             {policy: func(p *Policy) { byTemplate(p); terminating(p) }, target: target(machine("m"), with(cr("m")), leased(held)), reason: v1alpha1.DecidedAwaitingDeletion, actions: []string{"Delete m", "ReleaseLease node-m-node"}},
		"M3.5 the lease of a Machine that is being deleted stays":   {policy: terminating, target: target(machine("m", deletingMachine), verdict(Deleting), leased(held)), reason: v1beta1.DecidedMachineDeleting},
		"M3.5 annotations stay with their consumer":                 {policy: func(p *Policy) { annotates(p); terminating(p) }, target: target(machine("m", firstKey, secondKey)), reason: v1beta1.DecidedExternalRemediation},
		"M8.3 status stays true meanwhile: deleting":                {policy: terminating, target: target(machine("m", deletingMachine), verdict(Deleting)), reason: v1beta1.DecidedMachineDeleting},
		"M8.3 status stays true meanwhile: soon":                    {policy: terminating, target: target(machine("m"), soon), reason: v1alpha1.DecidedSoonUnhealthy},
		"M8.3 status stays true meanwhile: not started":             {policy: terminating, target: target(machine("m", noNode), verdict(NotStarted)), reason: v1beta1.DecidedNotStarted},
		"17.5 nothing begins for one that is not selected":          {target: target(machine("m"), unselected), reason: v1alpha1.DecidedUnselected},
		"17.5 its CR stays while it is unhealthy":                   {policy: byTemplate, target: target(machine("m"), unselected, with(cr("m"))), reason: v1alpha1.DecidedStepRunning},
		"17.5 nor are its annotations changed":                      {target: target(machine("m", secondKey), unselected, verdict(Healthy))},
		"P5 CRs that cannot be read are foreign":                    {policy: byTemplate, target: target(machine("m"), func(t *Target) { t.Incomplete = true }), reason: v1alpha1.DecidedForeignRemediation},
		"P5 also those of a former template":                        {target: target(machine("m"), func(t *Target) { t.Incomplete = true }), reason: v1alpha1.DecidedForeignRemediation},
		"M10.3 the lease is kept":                                   {target: target(machine("m", deletingMachine), verdict(Deleting), leased(held)), reason: v1beta1.DecidedMachineDeleting},
		"M10.3 it is renewed":                                       {target: target(machine("m", deletingMachine), verdict(Deleting), leased(nodeLease(ours, epoch.Add(-5*time.Minute), 660))), reason: v1beta1.DecidedMachineDeleting, actions: []string{"WriteLease node-m-node"}},
		"M10.3 it is released":                                      {target: target(machine("m"), verdict(Healthy), leased(held)), actions: []string{"ReleaseLease node-m-node"}},
		"M10.3 it is released when nothing runs":                    {policy: blocked, target: target(machine("m"), leased(held)), reason: v1alpha1.DecidedGateClosed, actions: []string{"ReleaseLease node-m-node"}},
		"14.9 that of another is not":                               {target: target(machine("m"), verdict(Healthy), leased(nodeLease("another", epoch, 660)))},
		"14.8 nor is it renewed":                                    {target: target(machine("m", deletingMachine), verdict(Deleting), leased(nodeLease("another", epoch.Add(-time.Hour), 1))), reason: v1beta1.DecidedMachineDeleting},
		"M11.2 it is kept for the consumer":                         {policy: annotates, target: target(machine("m", firstKey), verdict(UnderRemediation), leased(held)), reason: v1beta1.DecidedExternalRemediation},
		"M12.5 it is kept until the CR is gone":                     {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with(cr("m", objecttest.Deleting)), leased(held)), reason: v1alpha1.DecidedAwaitingDeletion},
		"P5 it is kept while CRs cannot be read":                    {policy: byTemplate, target: target(machine("m"), verdict(Healthy), leased(held), func(t *Target) { t.Incomplete = true })},
		"14.2 one of ours begins anew":                              {target: target(machine("m"), leased(held)), reason: v1beta1.DecidedMachineDeleting, actions: free("m")},
		"14.4 one that has ended is taken over":                     {target: target(machine("m"), leased(nodeLease("another", epoch.Add(-time.Hour), 1))), reason: v1beta1.DecidedMachineDeleting, actions: free("m")},
		"M10.2 retried with backoff":                                {target: target(machine("m"), retryLater(v1alpha1.DecidedDeleteFailed)), reason: v1alpha1.DecidedDeleteFailed},
		"M10.2 with the lease, which the next attempt needs":        {target: target(machine("m"), retryLater(v1alpha1.DecidedDeleteFailed), leased(held)), reason: v1alpha1.DecidedDeleteFailed},
		"P12 what failed may be something that it did not wait for": {target: target(machine("m"), retryLater("")), reason: v1alpha1.DecidedUpdateFailed},
		"M8.3 a healthy one waits for nothing":                      {target: target(machine("m", secondKey), verdict(Healthy), retryLater(""))},
		"M8.3 a refused one waits for what refuses it":              {policy: blocked, target: target(machine("m", secondKey), retryLater("")), reason: v1alpha1.DecidedGateClosed},
		"P1 nothing is put off that needs no request":               {target: target(machine("m"), soon, retryLater(v1alpha1.DecidedDeleteFailed)), reason: v1alpha1.DecidedSoonUnhealthy},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			if tc.policy != nil {
				tc.policy(p)
			}
			for api, change := range machineAPIs {
				target := tc.target
				target.Machine = target.Machine.of(change)
				if api != "OpenShift" && (target.ControlPlane || p.Criteria.Strategy == Annotate) {
					continue // M13.3, M3.3.
				}
				plan := planFor(p, target, epoch)
				require.Equal(t, tc.reason, plan.Reason, api)
				require.Equal(t, tc.actions, describeActions(plan.Actions), api)
			}
		})
	}
}

// TestLeaseOfASharedNode: the lease of a Node is kept for the Machine that is under remediation, also if
// another Machine names the same Node (spec M5.4, M10.3).
func TestLeaseOfASharedNode(t *testing.T) {
	t.Parallel()
	held := nodeLease(ours, epoch, 660)
	leasing := func(t *Target) { t.Lease = held }
	sameNode := func(m *Machine) { m.Node = "a-node" }
	running := target(machine("a"), with(cr("a")), leasing)
	other := target(machine("b", sameNode), verdict(Healthy), leasing)
	p := policy()
	byTemplate(p)
	plans := NewPlans(p, []Target{running, other}, epoch)
	require.Empty(t, plans[1].Actions)
	plans = NewPlans(p, []Target{other}, epoch)
	require.Equal(t, []string{"ReleaseLease node-m-node"}, describeActions(plans[0].Actions))

	deleting := target(machine("b", sameNode, deletingMachine), verdict(Deleting), leasing)
	plans = NewPlans(p, []Target{running, deleting}, epoch.Add(10*time.Minute))
	require.Equal(t, []string{"WriteLease node-m-node"}, describeActions(plans[0].Actions))
	require.Empty(t, plans[1].Actions, "it is renewed once")
	terminating(p)
	plans = NewPlans(p, []Target{running, deleting}, epoch)
	require.Equal(t, []string{"Delete a"}, describeActions(plans[0].Actions), "M3.5: the other Machine is being deleted")
	require.Empty(t, plans[1].Actions)
	plans = NewPlans(p, []Target{running, other}, epoch)
	require.Equal(t, []string{"Delete a", "ReleaseLease node-m-node"}, describeActions(plans[0].Actions))
	require.Empty(t, plans[1].Actions)
}

// TestLeaseOfTheNode: what the lease of the Node is like before a remediation, and afterwards (spec
// M10.3).
func TestLeaseOfTheNode(t *testing.T) {
	t.Parallel()
	plan := planFor(policy(), target(machine("m")), epoch)
	lease := writtenLease(t, &plan)
	require.Equal(t, ours, *lease.Spec.HolderIdentity, "M2")
	require.Equal(t, int32(11*60), *lease.Spec.LeaseDurationSeconds, "M10.3: T = 10 min, and the buffer of 14.1")
	require.Equal(t, "m-node", lease.OwnerReferences[0].Name, "14.2: of the Node")
	require.Equal(t, "m-node-uid", string(lease.OwnerReferences[0].UID))

	running := target(machine("m", deletingMachine), verdict(Deleting), func(t *Target) { t.Lease = lease })
	kept := planFor(policy(), running, epoch)
	require.Empty(t, kept.Actions)
	require.Equal(t, epoch.Add(10*time.Minute), kept.Recheck, "14.5: before it ends")
	renewed := planFor(policy(), running, epoch.Add(10*time.Minute))
	require.Equal(t, epoch.Add(10*time.Minute), writtenLease(t, &renewed).Spec.RenewTime.Time)
}
