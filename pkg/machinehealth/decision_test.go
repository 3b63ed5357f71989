// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// decisionCases has at least one case for every decision.
func decisionCases() map[string]struct {
	policy  func(*Policy)
	target  Target
	outcome remediation.Outcome
	want    v1alpha1.Decision
} {
	denied := errors.New(`machines "m" is forbidden`)
	waiting := func(reason v1alpha1.DecisionReason, message string) v1alpha1.Decision {
		return v1alpha1.Decision{Type: v1alpha1.DecisionWaiting, Reason: reason, Message: message}
	}
	remediating := func(reason v1alpha1.DecisionReason, message string) v1alpha1.Decision {
		return v1alpha1.Decision{Type: v1alpha1.DecisionRemediating, Reason: reason, Message: message}
	}
	heldBy := func(reason v1alpha1.DecisionReason, message string) v1alpha1.Decision {
		return v1alpha1.Decision{Type: v1alpha1.DecisionHeld, Reason: reason, Message: message}
	}
	exhausted := func(message string) v1alpha1.Decision {
		return v1alpha1.Decision{Type: v1alpha1.DecisionExhausted, Reason: v1beta1.DecidedRemediationOverdue, Message: message}
	}
	begun := func(t *Target) { t.Begun = epoch.Add(-29 * time.Minute) }
	overdue := func(t *Target) { t.Begun = epoch.Add(-30 * time.Minute) }
	at := func(d v1alpha1.Decision, next time.Time) v1alpha1.Decision {
		d.NextCheckTime = new(metav1.NewTime(next))
		return d
	}
	obstacle := func(o Obstacles) func(*Target) { return func(t *Target) { t.Obstacles = o } }
	const deletingMessage = "The Machine is being deleted"
	return map[string]struct {
		policy  func(*Policy)
		target  Target
		outcome remediation.Outcome
		want    v1alpha1.Decision
	}{
		"M8.3 nothing is to be said":      {target: target(machine("m"), verdict(Healthy))},
		"M8.3 requested":                  {target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Requested}, want: remediating(v1beta1.DecidedMachineDeleting, deletingMessage)},
		"M8.3 deleting":                   {target: target(machine("m", deletingMachine), verdict(Deleting)), want: remediating(v1beta1.DecidedMachineDeleting, deletingMessage)},
		"M8.3 external":                   {target: target(machine("m", firstKey)), want: remediating(v1beta1.DecidedExternalRemediation, "An external remediation of the Machine is running until its controller removes annotation host.metal3.io/external-remediation")},
		"M8.3 a CR":                       {policy: byTemplate, target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Created, CR: cr("m")}, want: remediating(v1alpha1.DecidedStepRunning, "Remediation object m is running")},
		"M12.6 a CR that runs":            {policy: byTemplate, target: target(machine("m"), with(cr("m")), begun), want: at(remediating(v1alpha1.DecidedStepRunning, "Remediation object m is running"), epoch.Add(time.Minute))},
		"M12.6 for too long":              {policy: byTemplate, target: target(machine("m"), with(cr("m")), overdue), want: exhausted("Remediation object m has not ended after 30 minutes: look at its remediator")},
		"M12.6 FR-327 its Node is gone":   {policy: byTemplate, target: target(machine("m"), because(v1beta1.TriggerNodeMissing), with(cr("m")), overdue), want: exhausted("Remediation object m has not ended after 30 minutes: look at its remediator. A repair in place seldom helps a Machine that is unhealthy by NodeMissing")},
		"M12.6 FR-327 the Machine failed": {policy: byTemplate, target: target(machine("m", failedPhase), because(v1beta1.TriggerMachineFailed), with(cr("m")), overdue), want: exhausted("Remediation object m has not ended after 30 minutes: look at its remediator. A repair in place seldom helps a Machine that is unhealthy by MachineFailed")},
		"M12.6 a finalizer holds the CR":  {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with(cr("m", objecttest.Deleting)), overdue), want: exhausted("The deletion of remediation object m has not ended after 30 minutes: look at its finalizers and its remediator")},
		"M12.6 a deletion hangs":          {target: target(machine("m", deletingMachine), verdict(Deleting), overdue), want: exhausted("The deletion of the Machine has not ended after 30 minutes: look at its finalizers, its hooks and the drain of its Node")},
		"M12.6 an annotation stays":       {policy: annotates, target: target(machine("m", firstKey), overdue), want: exhausted("The external remediation has not ended after 30 minutes: its controller has not removed annotation host.metal3.io/external-remediation")},
		"M8.3 not started":                {target: target(machine("m", noNode), func(t *Target) { t.Verdict = Verdict{State: NotStarted, Deadline: epoch.Add(time.Minute + 1)} }), want: at(waiting(v1beta1.DecidedNotStarted, "The Machine has no Node yet"), epoch.Add(61*time.Second))},
		"M8.3 not started, for ever":      {target: target(machine("m", noNode), verdict(NotStarted)), want: waiting(v1beta1.DecidedNotStarted, "The Machine has no Node yet")},
		"M8.3 soon":                       {target: target(machine("m"), soon), want: at(waiting(v1alpha1.DecidedSoonUnhealthy, "Condition Ready=Unknown has not lasted for its duration yet"), epoch.Add(5*time.Minute))},
		"M8.3 soon, without a deadline":   {target: target(machine("m"), soon, func(t *Target) { t.Verdict.Deadline = time.Time{} }), want: waiting(v1alpha1.DecidedSoonUnhealthy, "Condition Ready=Unknown has no lastTransitionTime, so the controller cannot know how long it has lasted")},
		"M8.3 soon, without an answer":    {target: target(machine("m"), verdict(SoonUnhealthy)), want: waiting(v1alpha1.DecidedSoonUnhealthy, "The controller does not know yet whether the Node of the Machine exists")},
		"M12.7 it has vanished":           {policy: byTemplate, target: target(machine("m"), func(t *Target) { t.Requested, t.Vanished = epoch.Add(-time.Hour), epoch }), want: at(waiting(v1alpha1.DecidedVanished, "The remediation was withdrawn while the Machine was unhealthy, by its remediator or another client, at 2026-01-01T00:00:00Z"), epoch.Add(30*time.Minute))},
		"M14.2 back-off":                  {target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed), func(t *Target) { t.Rounds = Rounds{2, epoch} }), want: at(waiting(v1beta1.DecidedBackOff, "Machines of set have failed before they joined (rounds so far: 2). The controller deletes this one 10m0s after its creation at the earliest"), epoch.Add(10*time.Minute))},
		"14.3 taken":                      {target: target(machine("m"), func(t *Target) { t.Lease = nodeLease("another", epoch, 600) }), want: waiting(v1alpha1.DecidedLeaseTaken, `Lease node-m-node is held by "another"`)},
		"14.3 lost":                       {target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.LeaseLost}, want: waiting(v1alpha1.DecidedLeaseTaken, "Lease node-m-node was written by another client just now")},
		"14.5 lost while it was kept":     {target: target(machine("m", deletingMachine), verdict(Deleting), func(t *Target) { t.Lease = nodeLease(ours, epoch.Add(-time.Hour), 1) }), outcome: remediation.Outcome{Result: remediation.LeaseLost}, want: remediating(v1beta1.DecidedMachineDeleting, deletingMessage)},
		"M12.4 foreign":                   {policy: byTemplate, target: target(machine("m"), func(t *Target) { t.Foreign = cr("m", objecttest.Foreign) }), want: waiting(v1alpha1.DecidedForeignRemediation, "RebootRemediation m, which belongs to no health check, is in the way")},
		"M12.4 of another health check":   {policy: byTemplate, target: target(machine("m"), func(t *Target) { t.Foreign = cr("m", func(c *object.CR) { c.OwnerReferences[0].Name = "others" }) }), want: waiting(v1alpha1.DecidedForeignRemediation, "RebootRemediation m, which belongs to MachineHealthCheck others, is in the way")},
		"M12.4 of a NodeHealthCheck": {policy: byTemplate, target: target(machine("m"), func(t *Target) {
			t.Foreign = cr("m", func(c *object.CR) { c.OwnerReferences[0].Kind, c.OwnerReferences[0].Name = v1alpha1.Kind, "nodes" })
			t.Foreign.OwnerReferences = append(t.Foreign.OwnerReferences, metav1.OwnerReference{Kind: "Machine", Name: "m"})
		}), want: waiting(v1alpha1.DecidedForeignRemediation, "RebootRemediation m, which belongs to NodeHealthCheck nodes, is in the way")},
		"M12.4 found when it was created": {policy: byTemplate, target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Blocked, CR: cr("m", objecttest.Foreign)}, want: waiting(v1alpha1.DecidedForeignRemediation, "RebootRemediation m, which belongs to no health check, is in the way")},
		"P5 unreadable":                   {policy: byTemplate, target: target(machine("m"), func(t *Target) { t.Incomplete = true }), want: waiting(v1alpha1.DecidedForeignRemediation, "Remediation objects cannot be read, so one with another owner may exist")},
		"M12.5 awaited":                   {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with(cr("m"))), outcome: remediation.Outcome{Deleted: []*object.CR{cr("m")}}, want: waiting(v1alpha1.DecidedAwaitingDeletion, "Waiting until remediation object m is gone. A finalizer of its remediator may keep it")},
		"M12.5 the previous one":          {policy: byTemplate, target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.StillDeleting}, want: waiting(v1alpha1.DecidedAwaitingDeletion, "Waiting until remediation object m is gone. A finalizer of its remediator may keep it")},
		"M8.4 recovered":                  {target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Recovered, Reason: v1alpha1.DecidedRecovering}, want: waiting(v1alpha1.DecidedRecovering, "A live read shows that it is no longer unhealthy, and the watch has not reported it yet")},
		"M8.4 refused by the last look":   {target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Refused, Reason: v1alpha1.DecidedExcluded}, want: heldBy(v1alpha1.DecidedExcluded, "The Machine has annotation cluster.x-k8s.io/skip-remediation, or its Node has label remediation.medik8s.io/exclude-from-remediation")},
		"8.4 the next batch":              {target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Deferred}, want: waiting(v1alpha1.DecidedNextBatch, "The next sync begins it and follows immediately: many remediations begin at the same time, or the plan was outdated")},
		"8.4 what begins nothing":         {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with(cr("m"))), outcome: remediation.Outcome{Result: remediation.Deferred}, want: waiting(v1alpha1.DecidedAwaitingDeletion, "Waiting until remediation object m is gone. A finalizer of its remediator may keep it")},
		"M10.2 refused":                   {target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedDeleteFailed, Err: denied}, want: waiting(v1alpha1.DecidedDeleteFailed, denied.Error())},
		"M10.2 until the next attempt": {target: target(machine("m"), func(t *Target) {
			t.RetryAt, t.LastFailed, t.LastFailure = epoch.Add(time.Minute), v1alpha1.DecidedDeleteFailed, denied.Error()
		}), want: waiting(v1alpha1.DecidedDeleteFailed, denied.Error())},
		"M12.1 refused":              {policy: byTemplate, target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Unknown, Reason: v1alpha1.DecidedCreateFailed, Err: errors.New("write tcp 10.0.0.1:4711->10.0.0.2:443: reset")}, want: waiting(v1alpha1.DecidedCreateFailed, "write tcp 10.0.0.1->10.0.0.2:443: reset")},
		"M11.1 refused":              {policy: annotates, target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedUpdateFailed, Err: denied}, want: waiting(v1alpha1.DecidedUpdateFailed, denied.Error())},
		"M3.4 invalid":               {policy: func(p *Policy) { p.Criteria.Problem = "unknown machine API: x" }, target: target(machine("m")), want: heldBy(v1alpha1.DecidedInvalidSpec, "unknown machine API: x")},
		"M3.5 deleted":               {policy: terminating, target: target(machine("m")), want: heldBy(v1alpha1.DecidedTerminating, "The MachineHealthCheck is being deleted")},
		"23d.2 the clock":            {policy: func(p *Policy) { p.ClockUntrusted = true }, target: target(machine("m")), want: heldBy(v1alpha1.DecidedClockUntrusted, "The clock of the controller is too far ahead of the clock of the API server, so the controller cannot know how long a condition has lasted")},
		"M9.1 upgrade":               {policy: func(p *Policy) { p.Upgrading = true }, target: target(machine("m")), want: heldBy(v1alpha1.DecidedClusterUpgrading, remediation.Upgrading)},
		"M9.1 its Node is updated":   {target: target(machine("m"), updating), want: at(heldBy(v1alpha1.DecidedClusterUpgrading, remediation.Updating), epoch.Add(35*time.Minute))},
		"M9.1 paused":                {policy: func(p *Policy) { p.Criteria.Paused = true }, target: target(machine("m")), want: heldBy(v1alpha1.DecidedPaused, "The MachineHealthCheck has annotation cluster.x-k8s.io/paused")},
		"M7.3 blocked":               {policy: blocked, target: target(machine("m")), want: heldBy(v1alpha1.DecidedGateClosed, "More Machines are unhealthy than maxUnhealthy allows: it begins when enough of them are healthy again")},
		"M9.2 the Machine is paused": {target: target(machine("m"), obstacle(Obstacles{MachinePaused: true})), want: heldBy(v1beta1.DecidedMachinePaused, "The Machine has annotation cluster.x-k8s.io/paused")},
		"M9.2 another API":           {target: target(machine("m", func(m *Machine) { m.Unmanaged = true }), obstacle(Obstacles{MachinePaused: true})), want: heldBy(v1beta1.DecidedMachinePaused, "The Machine API is not authoritative for the Machine")},
		"M9.2 the Cluster is paused": {target: target(machine("m", ofClusterAPI), obstacle(Obstacles{ClusterPaused: true})), want: heldBy(v1beta1.DecidedClusterPaused, "Cluster here is paused")},
		"M9.2 excluded":              {target: target(machine("m"), obstacle(Obstacles{Excluded: true})), want: heldBy(v1alpha1.DecidedExcluded, "The Machine has annotation cluster.x-k8s.io/skip-remediation, or its Node has label remediation.medik8s.io/exclude-from-remediation")},
		"M5.4 two name one Node":     {target: target(machine("m"), obstacle(Obstacles{AmbiguousNode: "machines/n"})), want: heldBy(v1beta1.DecidedAmbiguousNode, "Machine machines/n also names Node m-node")},
		"M7.4 another health check":  {target: target(machine("m"), obstacle(Obstacles{OtherCheck: "machines/others"})), want: heldBy(v1beta1.DecidedOtherHealthCheck, "MachineHealthCheck machines/others also selects the Machine, and comes first by its name, or is at work on it")},
		"M10.1 no owner":             {target: target(machine("m", noOwner)), want: heldBy(v1beta1.DecidedNoController, "No controller owns the Machine, so nothing would replace it")},
		"M13.3 its provider":         {target: target(machine("m", ofClusterAPI), func(t *Target) { t.ControlPlane = true }), want: heldBy(v1beta1.DecidedControlPlaneProvider, "Only the control plane provider of Cluster API may delete this Machine, because the provider checks etcd first")},
		"M12.1 no template":          {policy: func(p *Policy) { byTemplate(p); p.Template, p.TemplateProblem = nil, "failed to retrieve" }, target: target(machine("m")), want: heldBy(v1beta1.DecidedTemplateUnavailable, "failed to retrieve")},
		"17.5 not selected":          {target: target(machine("m"), unselected), want: heldBy(v1alpha1.DecidedUnselected, "The MachineHealthCheck no longer selects the Machine")},
		"5.6 a deletion":             {policy: dryRun, target: target(machine("m")), want: heldBy(v1alpha1.DecidedDryRun, "Would delete the Machine")},
		"5.6 an annotation":          {policy: func(p *Policy) { annotates(p); dryRun(p) }, target: target(machine("m")), want: heldBy(v1alpha1.DecidedDryRun, "Would request the external remediation of the Machine")},
		"5.6 a CR":                   {policy: func(p *Policy) { byTemplate(p); dryRun(p) }, target: target(machine("m")), want: heldBy(v1alpha1.DecidedDryRun, "Would create a remediation object")},
	}
}

func TestDecision(t *testing.T) {
	t.Parallel()
	for name, tc := range decisionCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			if tc.policy != nil {
				tc.policy(p)
			}
			r := result(p, tc.target, tc.outcome, epoch)
			require.Equal(t, tc.want, p.Decision(r))
			require.Equal(t, tc.want, p.Decision(r), "23b.5: the same plan and outcome give the same")
		})
	}
	p := policy()
	for reason, want := range map[v1alpha1.DecisionReason]string{
		v1alpha1.DecidedControlPlaneBusy: "Another control plane node or Machine is under remediation, or it is unknown whether one is",
		v1alpha1.DecidedEtcdQuorum:       "etcd could lose its quorum without this node, or its state is unknown. A node without etcd needs label nhc-controller.io/etcd=false",
	} {
		r := result(p, target(machine("m")), remediation.Outcome{}, epoch)
		p.Withhold(r.Plan, &remediation.Withholding{Reason: reason}, epoch)
		require.Equal(t, v1alpha1.Decision{Type: v1alpha1.DecisionWaiting, Reason: reason, Message: want}, p.Decision(r), "M13")
	}
	named := result(p, target(machine("m")), remediation.Outcome{}, epoch)
	p.Withhold(named.Plan, &remediation.Withholding{Reason: v1alpha1.DecidedControlPlaneBusy, Message: "Machine ns/a is being deleted"}, epoch)
	require.Equal(t, "Machine ns/a is being deleted", p.Decision(named).Message, "M13.1: what takes the slot is named")
	r, until := result(p, target(machine("m")), remediation.Outcome{}, epoch), epoch.Add(time.Minute)
	p.Withhold(r.Plan, &remediation.Withholding{Reason: v1alpha1.DecidedBudgetExhausted, Message: "pace: next begin at 12:00", Until: until}, epoch)
	require.Equal(t, v1alpha1.Decision{Type: v1alpha1.DecisionHeld, Reason: v1alpha1.DecidedBudgetExhausted, Message: "pace: next begin at 12:00", NextCheckTime: new(metav1.NewTime(until))}, p.Decision(r), "M8.5 B5.1")
	require.Equal(t, until, r.Plan.Recheck)
}

// TestDecisionReasonsAreReached: there is no reason that nothing has (spec M8.3).
func TestDecisionReasonsAreReached(t *testing.T) {
	t.Parallel()
	reached := map[v1alpha1.DecisionReason]v1alpha1.DecisionType{
		v1alpha1.DecidedControlPlaneBusy: v1alpha1.DecisionWaiting, v1alpha1.DecidedEtcdQuorum: v1alpha1.DecisionWaiting, v1alpha1.DecidedBudgetExhausted: v1alpha1.DecisionHeld, // See TestDecision.
	}
	for _, tc := range decisionCases() {
		if tc.want.Reason != "" {
			reached[tc.want.Reason] = tc.want.Type
		}
	}
	require.Equal(t, reached, v1beta1.DecisionReasons())
}

func TestDecisionIsBounded(t *testing.T) {
	t.Parallel()
	p := policy()
	failed := remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedDeleteFailed, Err: errors.New(strings.Repeat("x", 5000))}
	require.Len(t, p.Decision(result(p, target(machine("m")), failed, epoch)).Message, 512, "18.6")
	late := target(machine("m"), soon, func(t *Target) { t.Verdict.Deadline = time.Date(9999, 12, 31, 23, 59, 59, 1, time.UTC) })
	require.Nil(t, decided(p, late, epoch).NextCheckTime, "18.2: status stores no later year")
}
