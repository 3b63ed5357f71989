// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// eventText writes an event down.
func eventText(e Event) string {
	on := "check"
	if e.Machine != nil {
		on = e.Machine.Name
	}
	return strings.Join([]string{on, e.Type, e.Reason, e.Note}, "|")
}

func eventTexts(events []Event) (texts []string) {
	for _, e := range events {
		texts = append(texts, eventText(e))
	}
	return texts
}

// TestEvents: every event with its note, on its object, once (spec M17.1).
func TestEvents(t *testing.T) {
	t.Parallel()
	const t1 = "machines/workers/m/m-node"
	denied := remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedDeleteFailed, Err: errors.New("denied")}
	cannotUpdate := remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedUpdateFailed, Err: errors.New("denied")}
	detected := "m|Normal|DetectedUnhealthy|Machine " + t1 + " has unhealthy node m-node"
	skipped := func(message string) []string {
		return []string{detected, "m|Warning|RemediationSkipped|[remediation] " + message, "check|Warning|RemediationSkipped|[remediation] " + message}
	}
	tests := map[string]struct {
		policy  func(*Policy)
		target  Target
		outcome remediation.Outcome
		want    []string
	}{
		"M17.1 nothing is wrong":                    {target: target(machine("m"), verdict(Healthy))},
		"M17.1 a condition begins to match":         {target: target(machine("m"), soon), want: []string{detected}},
		"M17.1 a criterion, without a Node":         {policy: blockedSilently, target: target(machine("m", noNode), because(v1beta1.TriggerMachineFailed)), want: []string{"m|Normal|DetectedUnhealthy|Machine machines/workers/m/ has unhealthy node "}},
		"M17.1 one that has not started is no news": {target: target(machine("m", noNode), verdict(NotStarted))},
		"M17.1 deleted":                             {target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Requested}, want: []string{"m|Normal|MachineDeleted|Machine " + t1 + " has been remediated by requesting to delete Machine object", detected}},
		"M17.1 not deleted":                         {target: target(machine("m")), outcome: denied, want: []string{detected, "m|Warning|MachineDeletionFailed|Machine " + t1 + " remediation failed: unable to delete Machine object: denied"}},
		"M17.1 no owner":                            {target: target(machine("m", noOwner)), want: []string{detected, "m|Normal|SkippedNoController|Machine " + t1 + " has no controller owner, skipping remediation"}},
		"M17.1 annotated":                           {policy: annotates, target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Requested}, want: []string{"m|Normal|ExternalAnnotationAdded|Requesting external remediation of node associated with machine " + t1, detected}},
		"M17.1 not annotated":                       {policy: annotates, target: target(machine("m")), outcome: cannotUpdate, want: []string{detected, "m|Warning|ExternalAnnotationFailed|Requesting external remediation of node associated with machine " + t1 + " failed: denied"}},
		"M17.1 a CR": {policy: byTemplate, target: target(machine("m")), outcome: remediation.Outcome{Result: remediation.Created, CR: cr("m")}, want: []string{
			"m|Normal|RemediationCreated|[remediation] Created remediation object for machine m with node m-node", "check|Normal|RemediationCreated|[remediation] Created remediation object for machine m with node m-node", detected,
		}},
		"14.4 FR-324 a maintenance let its lease of the Node lapse": {target: target(machine("m"), func(t *Target) {
			t.Lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("node-maintenance")}}
		}), outcome: remediation.Outcome{Result: remediation.Requested, LeaseWritten: true}, want: []string{
			"m|Normal|LeaseTakenOver|[remediation] Took over the lease of node m-node from node-maintenance, which did not say until when it held it",
			"check|Normal|LeaseTakenOver|[remediation] Took over the lease of node m-node from node-maintenance, which did not say until when it held it",
			"m|Normal|MachineDeleted|Machine " + t1 + " has been remediated by requesting to delete Machine object", detected,
		}},
		"M17.1 removed": {policy: byTemplate, target: target(machine("m"), verdict(UnderRemediation), with(cr("m"))), outcome: deletedCR(), want: []string{
			"m|Normal|RemediationRemoved|[remediation] Deleted remediation CR of kind RebootRemediation with name m", "check|Normal|RemediationRemoved|[remediation] Deleted remediation CR of kind RebootRemediation with name m",
		}},
		"M17.1 removed after its Machine": {policy: byTemplate, target: target(machine("m"), gone, with(cr("m"))), outcome: deletedCR(), want: []string{"check|Normal|RemediationRemoved|[remediation] Deleted remediation CR of kind RebootRemediation with name m"}},
		"M17.1 blocked": {policy: blocked, target: target(machine("m")), want: []string{
			detected, "check|Warning|RemediationRestricted|Remediation restricted due to exceeded number of unhealthy machines (total: 1, unhealthy: 1, maxUnhealthy: 100%)",
		}},
		"M17.1 blocked, and none is unhealthy yet": {policy: blocked, target: target(machine("m"), soon), want: []string{detected}},
		"M12.6 a remediation is overdue": {policy: byTemplate, target: target(machine("m"), with(cr("m")), func(t *Target) { t.Begun = epoch.Add(-time.Hour) }), want: []string{
			detected, "m|Warning|RemediationOverdue|[remediation] Remediation object m has not ended after 30 minutes: look at its remediator",
			"check|Warning|RemediationOverdue|[remediation] Remediation object m has not ended after 30 minutes: look at its remediator",
		}},
		"M17.1 a pause is silent":                 {policy: func(p *Policy) { p.Criteria.Paused = true }, target: target(machine("m")), want: []string{detected}},
		"M17.1 that of the Machine is, too":       {target: target(machine("m"), func(t *Target) { t.Obstacles.MachinePaused = true }), want: []string{detected}},
		"M17.1 and that of the Cluster":           {target: target(machine("m", ofClusterAPI), func(t *Target) { t.Obstacles.ClusterPaused = true }), want: []string{detected}},
		"M17.1 any other refusal":                 {policy: func(p *Policy) { p.Upgrading = true }, target: target(machine("m")), want: skipped(remediation.Upgrading)},
		"M3.4 the rule that is broken":            {policy: func(p *Policy) { p.Criteria.Problem = "unknown machine API: x" }, target: target(machine("m")), want: skipped("unknown machine API: x")},
		"M14.2 back-off":                          {target: target(machine("m", failedPhase), because(v1beta1.TriggerMachineFailed), func(t *Target) { t.Rounds = Rounds{1, epoch} }), want: skipped("Machines of set have failed before they joined (rounds so far: 1). The controller deletes this one 5m0s after its creation at the earliest")},
		"M17.1 one that is not selected any more": {policy: byTemplate, target: target(machine("m"), unselected, with(cr("m")))},
		"M17.1 deleted by others":                 {target: target(machine("m", deletingMachine), verdict(Deleting))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			if tc.policy != nil {
				tc.policy(p)
			}
			results := []TargetResult{result(p, tc.target, tc.outcome, epoch)}
			after := p.NewEntries(results, nil, epoch)
			require.Equal(t, tc.want, eventTexts(append(p.Requests(results), p.Events(results, nil, after)...)))
			again := []TargetResult{result(p, tc.target, tc.outcome, epoch)}
			require.Empty(t, eventTexts(p.Events(again, after, p.NewEntries(again, after, epoch))), "once, as long as it lasts")
		})
	}
}

func deletedCR() remediation.Outcome {
	var outcome remediation.Outcome
	outcome.Deleted = append(outcome.Deleted, cr("m"))
	return outcome
}

// blockedSilently has a policy refuse without an event.
func blockedSilently(p *Policy) { p.Criteria.Paused = true }

// TestEventsOfManyMachines: the MachineHealthCheck gets one event for all of them (spec P3, M17.1).
func TestEventsOfManyMachines(t *testing.T) {
	t.Parallel()
	p := policy(func(p *Policy) { p.Upgrading = true })
	results := []TargetResult{result(p, target(machine("a")), remediation.Outcome{}, epoch), result(p, target(machine("b")), remediation.Outcome{}, epoch)}
	count := map[string]int{}
	for _, e := range p.Events(results, nil, p.NewEntries(results, nil, epoch)) {
		if e.Machine == nil {
			count[e.Reason]++
		}
	}
	require.Equal(t, map[string]int{"RemediationSkipped": 1}, count)
}

// TestFailureIsReportedAnew: another cause is news, the same one is not (spec M17.1).
func TestFailureIsReportedAnew(t *testing.T) {
	t.Parallel()
	p := policy()
	var before Entries
	for _, tc := range []struct {
		cause string
		news  bool
	}{{"denied", true}, {"denied", false}, {"timeout", true}, {"timeout", false}} {
		results := []TargetResult{result(p, target(machine("m")), remediation.Outcome{Result: remediation.Failed, Reason: v1alpha1.DecidedDeleteFailed, Err: errors.New(tc.cause)}, epoch)}
		after := p.NewEntries(results, before, epoch)
		reported := false
		for _, e := range p.Events(results, before, after) {
			reported = reported || e.Reason == "MachineDeletionFailed"
		}
		require.Equal(t, tc.news, reported, tc.cause)
		before = after
	}
}

// TestEventsFit: the API takes them, whatever the names are.
func TestEventsFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 253)
	p := policy(byTemplate, func(p *Policy) { p.Owner.Name = long })
	results := []TargetResult{result(p, target(machine(long, func(m *Machine) { m.Node = long })), remediation.Outcome{Result: remediation.Created, CR: cr(long)}, epoch)}
	for _, e := range append(p.Requests(results), p.Events(results, nil, p.NewEntries(results, nil, epoch))...) {
		require.LessOrEqual(t, len(e.Note), 1024)
		require.LessOrEqual(t, len(e.Action), 128)
	}
}
