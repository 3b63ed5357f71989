// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func retryIn(d time.Duration, failure string) func(*Node) {
	return func(n *Node) {
		n.RetryAt, n.LastFailure, n.LastFailed = epoch.Add(d), failure, v1alpha1.DecidedCreateFailed
	}
}

func lastFailed(reason v1alpha1.DecisionReason) func(*Node) {
	return func(n *Node) { n.LastFailed = reason }
}

// gaveUp reports a failure of its own at a time after the epoch.
func gaveUp(after time.Duration) func(*object.CR) {
	return func(c *object.CR) {
		c.Succeeded, c.FailureReason, c.FailureMessage, c.FailedSince = "False", "NoAgent", "no agent answers", epoch.Add(after)
	}
}

func unreadable(n *Node) {
	n.Unreadable = []v1alpha1.Remediation{{}}
}

// waitingFor is the script of a NodeHealthCheck with a healthyDelay.
func waitingFor(delay time.Duration) *Policy {
	s := classicPolicy(reboot())
	s.HealthyDelay = delay
	return s
}

// TestDecision has at least one case for every reason.
func TestDecision(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	ourLease := leased(held(ours, epoch, lasting(36000)))
	grounds := Context{
		Gate:            health.Gate{Observed: 5, Healthy: 2, Required: 3},
		SpecProblem:     "one of minHealthy and maxUnhealthy should be specified",
		TemplateProblem: "Remediation template not found",
	}
	stormy := Context{Gate: health.Gate{Open: true, Observed: 5, Healthy: 3, Required: 3}, Storm: health.Storm{Active: true, Since: epoch}}
	calming := stormy
	calming.StormEnd = epoch.Add(90*time.Second + time.Millisecond)
	denied := errors.New("denied by quota")
	controlPlane := func(n *Node) { n.ControlPlane = true }
	tests := map[string]struct {
		script   *Policy
		grounds  Context
		node     Node
		withheld v1alpha1.DecisionReason
		outcome  Outcome
		now      time.Duration
		want     v1alpha1.DecisionReason // Empty: there is none.
		works    bool                    // The remediator of the current step, whatever the reason.
		message  string
		next     time.Duration // Zero: there is none.
	}{
		"healthy":                      {node: sick("n", well)},
		"deleted, nothing left":        {node: sick("n", gone), want: "AwaitingDeletion"},
		"its CR was created":           {node: sick("n"), outcome: Outcome{Result: Created, CR: cr("n")}, want: "StepRunning", message: "RebootRemediation n is running", next: 30 * m},
		"the CR of a step was created": {script: escalation(), node: sick("n"), outcome: Outcome{Result: Created, CR: soft()}, want: "StepRunning", message: "RebootRemediation soft (step 1 of 3) is running", next: 5 * m},
		"it is at work":                {node: sick("n", with(cr("n")), ourLease), now: m, want: "StepRunning", message: "RebootRemediation n is running", next: 30 * m},
		"it is at work, without lease": {node: sick("n", with(cr("n"))), want: "StepRunning"},
		"a step is at work":            {script: escalation(), node: sick("n", with(soft(timedOut), fence(createdAt(epoch.Add(m)))), ourLease), now: 2 * m, want: "StepRunning", message: "step 2 of 3", next: 11 * m},
		"of no step":                   {script: escalation(), node: sick("n", with(stepCR("other", testKind, nil)), ourLease), want: "StepRunning", message: "belongs to no step"},
		"it has succeeded":             {node: sick("n", with(cr("n", succeeded)), ourLease), want: "StepSucceeded", message: "reports success", next: 30 * m},
		"the node will be replaced":    {node: sick("n", gone, with(cr("n", awaitsDelete))), want: "AwaitingReplacement"},
		"12.2":                         {node: sick("n", controlPlane), withheld: v1alpha1.DecidedControlPlaneBusy, want: "ControlPlaneBusy"},
		"12.3":                         {node: sick("n", controlPlane), withheld: v1alpha1.DecidedEtcdQuorum, want: "EtcdQuorum"},
		"B5.1":                         {node: sick("n"), withheld: v1alpha1.DecidedBudgetExhausted, want: "BudgetExhausted"},
		"11.4":                         {node: sick("n", near(cr("n", foreign))), want: "ForeignRemediation", message: "RebootRemediation n, which belongs to no NodeHealthCheck"},
		"11.6": {script: escalation(), node: sick("n", func(n *Node) {
			lost := v1alpha1.EpisodeStep{Kind: testKind, TemplateName: "soft", Started: metav1.NewTime(epoch), Ended: new(metav1.NewTime(epoch.Add(m)))}
			n.Vanished = []v1alpha1.EpisodeStep{lost, lost}
		}), now: 3 * m, want: "RemediationVanished", message: "2 remediation objects", next: 5 * m},
		"11.4 found at the last moment":  {node: sick("n"), outcome: Outcome{Result: Blocked, CR: cr("n", foreign), Err: nil}, want: "ForeignRemediation", message: "in the way"},
		"14.3":                           {node: sick("n", leased(held("somebody", epoch, lasting(600)))), want: "LeaseTaken", message: `Lease node-n is held by "somebody"`},
		"deletion, healthy":              {node: sick("n", well, with(cr("n"))), want: "AwaitingDeletion", message: "RebootRemediation n is gone"},
		"deletion not yet in the caches": {node: sick("n"), outcome: Outcome{Result: StillDeleting}, want: "AwaitingDeletion", message: "the previous remediation object is gone"},
		"deletion by somebody else":      {node: sick("n", with(cr("n", deleting))), want: "AwaitingDeletion"},
		"deletion of the next step's CR": {script: escalation(), node: sick("n", with(soft(), fence(deleting)), ourLease), now: 5 * m, works: true, want: "AwaitingDeletion", message: "Waiting until FenceRemediation fence is gone"},
		"7.5":                            {node: sick("n", soon, with(cr("n")), func(n *Node) { n.Verdict.Deadline = epoch.Add(m) }), works: true, want: "SoonUnhealthy", next: m},
		"4.2":                            {grounds: grounds, node: sick("n", func(n *Node) { n.Verdict = health.Verdict{State: health.SoonUnhealthy} }, with(cr("n"))), works: true, want: "InvalidSpec", message: "one of minHealthy"},
		"11.3": {node: sick("n", func(n *Node) {
			n.Machines = &Machines{UnreadOpenShift: testNamespace, Deadline: epoch.Add(30 * time.Second)}
		}), want: "MachineUnreadable", message: "The Machine that would own", next: 30 * time.Second},
		"the clock":                         {node: sick("n", under(func(c *Constraints) { c.ClockUntrusted = true })), want: "ClockUntrusted"},
		"7.2":                               {node: sick("n", soon, func(n *Node) { n.Verdict.Since, n.Verdict.Deadline = time.Time{}, time.Time{} }), want: "SoonUnhealthy", message: "has no lastTransitionTime"},
		"18.2 a time that cannot be stored": {node: sick("n", soon, func(n *Node) { n.Verdict.Deadline = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), want: "SoonUnhealthy"},
		"14.2 a race that was lost":         {node: sick("n"), outcome: Outcome{Result: LeaseLost}, want: "LeaseTaken", message: "was written by another client"},
		"5.6 a dry run":                     {script: dryRun(classicPolicy(reboot())), node: sick("n"), want: "DryRun", message: "Would create RebootRemediation remediators/n"},
		"5.6 a dry run, the next step":      {script: dryRun(escalation()), node: sick("n", with(soft())), now: 6 * time.Minute, want: "DryRun", works: true, message: "Would create FenceRemediation remediators/n"},
		"5.6 a dry run, the last step":      {script: dryRun(escalation()), node: sick("n", with(soft(timedOut), fence(timedOut), hard())), now: 21 * time.Minute, want: "DryRun", works: true, message: "Would end the last step"},
		"the last look":                     {node: sick("n"), outcome: Outcome{Result: Recovered, Reason: v1alpha1.DecidedRecovering}, want: "Recovering"},
		"the last look finds a constraint":  {node: sick("n"), outcome: Outcome{Result: Refused, Reason: v1alpha1.DecidedExcluded}, want: "Excluded"},
		"6.8":                               {node: sick("n", unreadable), want: "RemediationUnreadable"},
		"6.8 deleted":                       {node: sick("n", gone, unreadable), want: "RemediationUnreadable"},
		"6.8 healthy":                       {node: sick("n", well, unreadable), want: "RemediationUnreadable"},
		"8.4":                               {node: sick("n"), outcome: Outcome{Result: Deferred}, want: "NextBatch"},
		"8.4 the end of the last step":      {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard()), ourLease), now: 20 * m, outcome: Outcome{Result: Deferred}, works: true, want: "NextBatch"},
		"8.4 a deletion":                    {node: sick("n", well, with(cr("n"))), outcome: Outcome{Result: Deferred}, want: "AwaitingDeletion"},
		"creation failed":                   {node: sick("n"), outcome: Outcome{Result: Failed, Reason: "CreateFailed", Err: denied}, want: "CreateFailed", message: "denied by quota"},
		"creation put off":                  {node: sick("n", retryIn(m, "denied by quota")), want: "CreateFailed", message: "denied by quota"},
		"creation failed, by any port":      {node: sick("n"), outcome: Outcome{Result: Failed, Reason: "CreateFailed", Err: errors.New("read tcp 10.0.0.5:39482->10.96.0.4:443: reset")}, want: "CreateFailed", message: "read tcp 10.0.0.5->10.96.0.4:443: reset"},
		"put off, by any port":              {node: sick("n", retryIn(m, "read tcp 10.0.0.5:39482->10.96.0.4:443: reset")), want: "CreateFailed", message: "read tcp 10.0.0.5->10.96.0.4:443: reset"},
		"the lease failed":                  {node: sick("n"), outcome: Outcome{Result: Failed, Reason: "UpdateFailed", Err: denied}, want: "UpdateFailed", message: "denied by quota"},
		"the lease failed, put off":         {node: sick("n", retryIn(m, "writing lease node-n"), lastFailed("UpdateFailed")), want: "UpdateFailed", message: "writing lease node-n"},
		"a renewal failed, put off":         {node: sick("n", retryIn(m, "writing lease node-n"), lastFailed("")), want: "UpdateFailed", message: "writing lease node-n"},
		"deletion failed":                   {node: sick("n", well, with(cr("n"))), outcome: Outcome{Result: Failed, Reason: "DeleteFailed", Err: denied}, want: "DeleteFailed", message: "denied by quota"},
		"deletion put off":                  {node: sick("n", well, with(cr("n")), retryIn(m, "denied by quota"), lastFailed("DeleteFailed")), want: "DeleteFailed", message: "denied by quota"},
		"end of the last step failed":       {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard()), ourLease), now: 20 * m, outcome: Outcome{Result: Failed, Reason: "UpdateFailed", Err: denied}, works: true, want: "UpdateFailed", message: "denied by quota"},
		"a renewal failed":                  {node: sick("n", with(cr("n")), leased(held(ours, epoch, lasting(60)))), outcome: Outcome{Err: denied}, want: "StepRunning", next: 30 * m},
		"4.7":                               {grounds: grounds, node: sick("n", under(func(c *Constraints) { c.InvalidSpec = true })), want: "InvalidSpec", message: "one of minHealthy"},
		"4.8":                               {node: sick("n", under(func(c *Constraints) { c.Terminating = true })), want: "Terminating"},
		"6":                                 {grounds: grounds, node: sick("n", under(func(c *Constraints) { c.TemplatesUnusable = true })), want: "Disabled", message: "Remediation template not found"},
		"6.5":                               {node: sick("n", under(func(c *Constraints) { c.TemplatesUnusable = true })), want: "Disabled", message: "could not be read yet"},
		"6.7":                               {grounds: grounds, node: sick("n", well, with(cr("n")), under(func(c *Constraints) { c.Conflict = true })), want: "Disabled"},
		"6.7 deleted":                       {grounds: grounds, node: sick("n", gone, with(cr("n")), under(func(c *Constraints) { c.Conflict = true })), want: "Disabled"},
		"10.2":                              {node: sick("n", under(func(c *Constraints) { c.Upgrading = true })), want: "ClusterUpgrading"},
		"10.1":                              {node: sick("n", under(func(c *Constraints) { c.Paused = true })), want: "Paused"},
		"8.5":                               {grounds: grounds, node: sick("n", under(func(c *Constraints) { c.GateClosed = true })), want: "GateClosed", message: "Too few nodes are healthy"},
		"5.3 the step is over, gate closed": {script: escalation(), grounds: grounds, node: sick("n", with(soft()), ourLease, under(func(c *Constraints) { c.GateClosed = true })), now: 5 * m,
			works: true, want: "GateClosed"},
		"8.5 the step is not over": {script: escalation(), grounds: grounds, node: sick("n", with(soft()), ourLease, under(func(c *Constraints) { c.GateClosed = true })), now: 4 * m,
			want: "StepRunning", next: 5 * m},
		"9.6":                              {grounds: stormy, node: sick("n", under(func(c *Constraints) { c.Storm = true })), want: "StormActive", message: "Storm recovery is active"},
		"9.6 calm":                         {grounds: calming, node: sick("n", under(func(c *Constraints) { c.Storm = true })), want: "StormActive", message: "Storm recovery is active", next: 91 * time.Second},
		"9.6 the next step":                {script: escalation(), node: sick("n", with(soft()), ourLease, under(func(c *Constraints) { c.Storm = true })), now: 5 * m, outcome: Outcome{Result: Created, CR: fence(createdAt(epoch.Add(5 * m)))}, want: "StepRunning", message: "step 2 of 3", next: 15 * m},
		"15.1":                             {node: sick("n", under(func(c *Constraints) { c.Excluded = true })), want: "Excluded", message: v1alpha1.LabelExclude},
		"M15.1":                            {node: sick("n", under(func(c *Constraints) { c.MachineClaim = "why" })), want: "MachineHealthCheck", message: "why"},
		"17.5":                             {script: escalation(), node: sick("n", with(soft()), ourLease, under(func(c *Constraints) { c.Unselected = true })), now: 5 * m, works: true, want: "Unselected"},
		"16.4 positive":                    {script: waitingFor(time.Hour), node: sick("n", well, with(cr("n")), func(n *Node) { n.HealthySince = epoch }), now: m, want: "HealthyDelay", message: "1h0m0s", next: time.Hour},
		"16.4 negative":                    {script: waitingFor(-1), node: sick("n", well, with(cr("n"))), want: "HealthyDelay", message: "kubectl annotate node n " + v1alpha1.AnnotationManuallyConfirmedHealthy + "="},
		"13.6":                             {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard(timedOut)), ourLease), want: "NoTemplateLeft", message: "All 3 steps are over"},
		"13.6 gave up when it was told to": {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard(gaveUp(25*m), annotate(v1alpha1.AnnotationTimedOut, "2026-01-01T00:20:00Z"))), ourLease), now: 26 * m, want: "NoTemplateLeft"},
		"13.7 classic":                     {node: sick("n", with(cr("n", gaveUp(m))), ourLease), now: 2 * m, want: "StepFailed", message: "RebootRemediation n reports failure: NoAgent: no agent answers, and no step follows", next: 30 * m},
		"13.7 classic, paused":             {node: sick("n", with(cr("n", gaveUp(m))), ourLease, under(func(c *Constraints) { c.Paused = true })), now: 2 * m, want: "StepFailed", next: 30 * m},
		"13.7 classic, its lease is over":  {node: sick("n", with(cr("n", gaveUp(m), annotate(v1alpha1.AnnotationTimedOut, "2026-01-01T00:30:00Z")))), now: 31 * m, want: "StepFailed"},
		"13.7 it was told to stop first":   {node: sick("n", with(cr("n", gaveUp(31*m), annotate(v1alpha1.AnnotationTimedOut, "2026-01-01T00:30:00Z")))), now: 32 * m, want: "NoTemplateLeft"},
		"13.7 the last step, right now":    {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard(gaveUp(m))), ourLease), now: m, want: "StepFailed", message: "reports failure: NoAgent: no agent answers"},
		"13.7 the last step, and ended":    {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard(gaveUp(m), annotate(v1alpha1.AnnotationTimedOut, "2026-01-01T00:01:00Z"))), ourLease), now: 9 * m, want: "StepFailed"},
		"13.3 a step that is followed":     {script: escalation(), node: sick("n", with(soft(gaveUp(m))), ourLease, under(func(c *Constraints) { c.Paused = true })), now: m, want: "Paused"},
		"13.6 at this moment":              {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard()), ourLease), now: 20 * m, outcome: Outcome{TimedOut: map[types.UID]time.Time{hard().UID: epoch}}, want: "NoTemplateLeft"},
	}
	covered := sets.New[v1alpha1.DecisionReason]()
	for name, tc := range tests {
		covered.Insert(tc.want)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.script
			if s == nil {
				s = classicPolicy(reboot())
			}
			s.Context = tc.grounds
			plan := planWithheld(s, tc.node, tc.withheld, epoch.Add(tc.now))
			got := s.Decision(&plan, &tc.outcome)
			if tc.want == "" {
				require.Empty(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, tc.want, got.Reason)
			wantType := tc.want.Type()
			if tc.works {
				wantType = v1alpha1.DecisionRemediating
			}
			require.Equal(t, wantType, got.Type, "23b.5: whether a CR is at work")
			require.NotEmpty(t, got.Message, "23b.5")
			require.Contains(t, got.Message, tc.message)
			if tc.next == 0 {
				require.Nil(t, got.NextCheckTime)
				return
			}
			require.Equal(t, epoch.Add(tc.next), got.NextCheckTime.Time, "%v", got.NextCheckTime)
			require.False(t, plan.Recheck.After(got.NextCheckTime.Time), "P2: %v", plan.Recheck)
		})
	}
	for reason := range v1alpha1.DecisionReasons() {
		require.True(t, covered.Has(reason), "%s has a case", reason)
	}
}

// TestDecisionIsStable: what is decided about a CR that was just created is decided
// again when it is seen, so that status is not written a second time.
func TestDecisionIsStable(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Policy{"classic": classicPolicy(reboot()), "escalating": escalation()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := epoch.Add(300 * time.Millisecond)
			plan := planBy(s, sick("n"), now)
			write, ok := plan.Actions[0].(WriteLease)
			require.True(t, ok)
			create, ok := plan.Actions[2].(Create)
			require.True(t, ok)
			created := object.ParseCR(create.Object)
			created.CreationTimestamp = metav1.NewTime(epoch)
			first := s.Decision(&plan, &Outcome{Result: Created, CR: created})

			seen := planBy(s, sick("n", with(created), leased(write.Lease)), now.Add(time.Second))
			require.Equal(t, first, s.Decision(&seen, &Outcome{}))
		})
	}
}

// TestRefusalsAreDecisions: every refusal of spec 5.4 is a reason of the closed list,
// so that events, metrics, logs and status speak of the same thing.
func TestRefusalsAreDecisions(t *testing.T) {
	t.Parallel()
	reasons := v1alpha1.DecisionReasons()
	for _, refusal := range []v1alpha1.DecisionReason{
		v1alpha1.DecidedClockUntrusted, v1alpha1.DecidedClusterUpgrading, v1alpha1.DecidedPaused, v1alpha1.DecidedGateClosed, v1alpha1.DecidedStormActive, v1alpha1.DecidedExcluded, v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum,
		v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedLeaseTaken, v1alpha1.DecidedInvalidSpec, v1alpha1.DecidedTerminating, v1alpha1.DecidedDisabled, v1alpha1.DecidedUnselected,
	} {
		require.Contains(t, []v1alpha1.DecisionType{v1alpha1.DecisionHeld, v1alpha1.DecisionWaiting}, reasons[refusal], refusal)
	}
}

func TestDecisionMessageIsBounded(t *testing.T) {
	t.Parallel()
	s := classicPolicy(reboot())
	plan := planBy(s, sick("n"), epoch)
	got := s.Decision(&plan, &Outcome{Result: Failed, Reason: v1alpha1.DecidedCreateFailed, Err: errors.New(strings.Repeat("ä", 5000))})
	require.LessOrEqual(t, len(got.Message), 512)
	require.True(t, strings.HasSuffix(got.Message, "ä..."), "cut between two characters")
}
