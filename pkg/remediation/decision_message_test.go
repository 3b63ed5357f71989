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

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestDecisionMessages: what people read, word by word.
func TestDecisionMessages(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	ourLease := leased(held(ours, epoch, lasting(36000)))
	controlPlane := func(n *Node) { n.ControlPlane = true }
	ownedByOthers := func(names ...string) func(*object.CR) {
		return func(c *object.CR) {
			c.OwnerReferences = nil
			for _, name := range names {
				c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: name})
			}
		}
	}
	paused := classicPolicy(reboot())
	paused.Context.PauseRequests = []string{"upgrade", "holiday"}
	denied := Outcome{Result: Failed, Reason: v1alpha1.DecidedCreateFailed, Err: errors.New("denied by quota")}
	tests := map[string]struct {
		script   *Policy
		grounds  Context
		node     Node
		withheld v1alpha1.DecisionReason
		now      time.Duration
		outcome  Outcome
		reason   v1alpha1.DecisionReason
		want     string
	}{
		"at work":                            {node: sick("n", with(cr("n")), ourLease), reason: "StepRunning", want: "RebootRemediation n is running"},
		"at work, one of several":            {script: escalation(), node: sick("n", with(soft(timedOut), fence()), ourLease), reason: "StepRunning", want: "FenceRemediation fence (step 2 of 3) is running"},
		"created, whatever failed after":     {node: sick("n"), outcome: Outcome{Result: Created, CR: cr("n"), Err: denied.Err}, reason: "StepRunning", want: "RebootRemediation n is running"},
		"at work for no step":                {script: escalation(), node: sick("n", with(stepCR("other", testKind, nil))), reason: "StepRunning", want: "A remediation object that belongs to no step is still running"},
		"success":                            {node: sick("n", with(cr("n", succeeded)), ourLease), reason: "StepSucceeded", want: "RebootRemediation n reports success, but the node is not healthy yet"},
		"17.3":                               {node: sick("n", gone, with(cr("n", awaitsDelete))), reason: "AwaitingReplacement", want: "The Node is gone, and its remediator is expected to replace it"},
		"12.2":                               {node: sick("n", controlPlane), withheld: v1alpha1.DecidedControlPlaneBusy, reason: "ControlPlaneBusy", want: "Another control plane node or Machine is under remediation, or it is unknown whether one is"},
		"B5.1":                               {node: sick("n"), withheld: v1alpha1.DecidedBudgetExhausted, reason: "BudgetExhausted", want: "zones a: 2 of at most 1 nodes are not healthy"},
		"12.3":                               {node: sick("n", controlPlane), withheld: v1alpha1.DecidedEtcdQuorum, reason: "EtcdQuorum", want: "etcd could lose its quorum without this node, or its state is unknown. A node without etcd needs label nhc-controller.io/etcd=false"},
		"11.4 without an owner":              {node: sick("n", near(cr("n", foreign))), reason: "ForeignRemediation", want: "RebootRemediation n, which belongs to no NodeHealthCheck, is in the way"},
		"11.4 somebody's":                    {node: sick("n", near(cr("n", ownedByOthers("infra", "gpu")))), reason: "ForeignRemediation", want: "RebootRemediation n, which belongs to infra, gpu, is in the way"},
		"11.4 at the last moment":            {node: sick("n"), outcome: Outcome{Result: Blocked, CR: cr("n", foreign)}, reason: "ForeignRemediation", want: "RebootRemediation n, which belongs to no NodeHealthCheck, is in the way"},
		"14.3":                               {node: sick("n", leased(held("somebody", epoch, lasting(600)))), reason: "LeaseTaken", want: `Lease node-n is held by "somebody"`},
		"14.3 without a holder":              {node: sick("n", leased(held("", epoch, noHolder, lasting(600)))), reason: "LeaseTaken", want: `Lease node-n is held by ""`},
		"deletion":                           {node: sick("n", well, with(cr("n"), cr("m"))), reason: "AwaitingDeletion", want: "Waiting until RebootRemediation n, RebootRemediation m is gone, which its remediator may hold by a finalizer"},
		"7.5":                                {node: sick("n", soon), reason: "SoonUnhealthy", want: "Condition Ready=Unknown has not lasted for its duration yet"},
		"the last look":                      {node: sick("n"), outcome: Outcome{Result: Recovered, Reason: v1alpha1.DecidedRecovering}, reason: "Recovering", want: "A live read shows that it is no longer unhealthy, and the watch has not reported it yet"},
		"6.8":                                {node: sick("n", unreadable), reason: "RemediationUnreadable", want: "Remediation objects that status lists cannot be read, and their remediators may still be working"},
		"8.4":                                {node: sick("n"), outcome: Outcome{Result: Deferred}, reason: "NextBatch", want: "The next sync begins it and follows immediately: many remediations begin at the same time, or the plan was outdated"},
		"creation failed":                    {node: sick("n"), outcome: denied, reason: "CreateFailed", want: "denied by quota"},
		"4.7":                                {grounds: Context{SpecProblem: "Selector is mandatory"}, node: sick("n", under(func(c *Constraints) { c.InvalidSpec = true })), reason: "InvalidSpec", want: "Selector is mandatory"},
		"4.8":                                {node: sick("n", under(func(c *Constraints) { c.Terminating = true })), reason: "Terminating", want: "The NodeHealthCheck is being deleted"},
		"6":                                  {grounds: Context{TemplateProblem: "it is gone"}, node: sick("n", under(func(c *Constraints) { c.TemplatesUnusable = true })), reason: "Disabled", want: "it is gone. kubectl nhc lint workers says what to correct"},
		"6.5":                                {node: sick("n", under(func(c *Constraints) { c.TemplatesUnusable = true })), reason: "Disabled", want: "The templates could not be read yet"},
		"the clock":                          {node: sick("n", under(func(c *Constraints) { c.ClockUntrusted = true })), reason: "ClockUntrusted", want: "The clock of the controller is too far ahead of the clock of the API server, so the controller cannot know how long a condition has lasted"},
		"10.2 S11 its machine configuration": {node: sick("n", under(func(c *Constraints) { c.UpdateEnds = epoch.Add(time.Hour) })), reason: "ClusterUpgrading", want: Updating},
		"10.2":                               {node: sick("n", under(func(c *Constraints) { c.Upgrading = true })), reason: "ClusterUpgrading", want: Upgrading},
		"8 23b.5, without numbers":           {node: sick("n", under(func(c *Constraints) { c.GateClosed = true })), reason: "GateClosed", want: "Too few nodes are healthy: it begins when enough of them are healthy again"},
		"9 23b.5, without numbers":           {node: sick("n", under(func(c *Constraints) { c.Storm = true })), reason: "StormActive", want: "Storm recovery is active: it begins when most nodes have been healthy for a while"},
		"10.1":                               {script: paused, node: sick("n", under(func(c *Constraints) { c.Paused = true })), reason: "Paused", want: "Paused: upgrade,holiday"},
		"15.1":                               {node: sick("n", under(func(c *Constraints) { c.Excluded = true })), reason: "Excluded", want: "The node carries label remediation.medik8s.io/exclude-from-remediation"},
		"17.5":                               {node: sick("n", under(func(c *Constraints) { c.Unselected = true })), reason: "Unselected", want: "The node is no longer selected"},
		"16.4 positive":                      {script: waitingFor(90 * m), node: sick("n", well, with(cr("n"))), reason: "HealthyDelay", want: "The node must stay healthy for 1h30m0s"},
		"16.4 negative":                      {script: waitingFor(-m), node: sick("n", well, with(cr("n"))), reason: "HealthyDelay", want: "Confirm that the node is healthy: kubectl annotate node n remediation.medik8s.io/manually-confirmed-healthy="},
		"13.6":                               {script: escalation(), node: sick("n", with(soft(timedOut), fence(timedOut), hard(timedOut))), reason: "NoTemplateLeft", want: "All 3 steps are over and the node is still unhealthy"},
		"M15.1":                              {node: sick("n", under(func(c *Constraints) { c.MachineClaim = "why" })), reason: "MachineHealthCheck", want: "why"},
		"5.4 9.6 no storm holds a next step": {script: escalation(), node: sick("n", with(soft()), ourLease, under(func(c *Constraints) { c.Storm, c.Excluded = true, true })), now: 5 * m,
			reason: "Excluded", want: "The node carries label remediation.medik8s.io/exclude-from-remediation"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.script
			if s == nil {
				s = classicPolicy(reboot())
			}
			pauseRequests := s.Context.PauseRequests
			s.Context = tc.grounds
			s.Context.PauseRequests = pauseRequests
			plan := planWithheld(s, tc.node, tc.withheld, epoch.Add(tc.now))
			got := s.Decision(&plan, &tc.outcome)
			require.Equal(t, tc.reason, got.Reason)
			require.Equal(t, tc.want, got.Message)
		})
	}
	require.Equal(t, "A remediation object that the NodeHealthCheck does not own is in the way", explainBlocker(nil))
	require.Equal(t, strings.Repeat("x", 512), shorten(strings.Repeat("x", 512)), "as long as it may be")
	require.Equal(t, strings.Repeat("x", 509)+"...", shorten(strings.Repeat("x", 513)))
}

// TestCRThatIsStillGoing: the CR of the current step is on its way, and the CR of a
// step before stays.
func TestCRThatIsStillGoing(t *testing.T) {
	t.Parallel()
	s := escalation()
	plan := planBy(s, sick("n", with(soft(timedOut), fence(timedOut, deleting))), epoch)
	require.Empty(t, plan.Actions, "P9")
	require.Equal(t, v1alpha1.DecidedAwaitingDeletion, s.Decision(&plan, &Outcome{}).Reason)
}

// TestAllowance: what holds for all nodes, as condition RemediationAllowed says it (spec
// 18.5).
func TestAllowance(t *testing.T) {
	t.Parallel()
	open := health.Gate{Open: true, Observed: 5, Healthy: 3, Required: 2}
	storm := health.Storm{Active: true, Since: epoch}
	all := Constraints{TemplatesUnusable: true, InvalidSpec: true, Terminating: true, Upgrading: true, Paused: true}
	without := func(changes ...func(*Constraints)) Context {
		g := Context{Constraints: all, Gate: health.Gate{Observed: 5, Healthy: 3, Required: 4}, Storm: storm, SpecProblem: "no limit", TemplateProblem: "it is gone"}
		for _, change := range changes {
			change(&g.Constraints)
		}
		return g
	}
	usable := func(c *Constraints) { c.TemplatesUnusable = false }
	valid := func(c *Constraints) { c.InvalidSpec = false }
	staying := func(c *Constraints) { c.Terminating = false }
	upgraded := func(c *Constraints) { c.Upgrading = false }
	resumed := func(c *Constraints) { c.Paused = false }
	tests := map[string]struct {
		grounds Context
		allowed bool
		reason  string
		message string
	}{
		"18.5 Disabled comes first":     {grounds: without(), reason: "Disabled", message: "it is gone"},
		"18.5 not known yet":            {grounds: Context{Constraints: Constraints{TemplatesUnusable: true}, Gate: open}, reason: "Disabled", message: "The templates could not be read yet"},
		"18.5 InvalidSpec":              {grounds: without(usable), reason: "InvalidSpec", message: "no limit"},
		"18.5 4.8":                      {grounds: without(usable, valid), reason: "Terminating", message: "The NodeHealthCheck is being deleted"},
		"18.5 ClusterUpgrading":         {grounds: without(usable, valid, staying), reason: "ClusterUpgrading", message: Upgrading},
		"18.5 Paused":                   {grounds: without(usable, valid, staying, upgraded), reason: "Paused", message: "Paused: upgrade,holiday"},
		"18.5 Closed":                   {grounds: without(usable, valid, staying, upgraded, resumed), reason: "Closed", message: "3 of 5 nodes are healthy, at least 4 have to be"},
		"8.1 open":                      {grounds: Context{Gate: open}, allowed: true, reason: "Open", message: "3 of 5 nodes are healthy, at least 2 have to be"},
		"8.3 open, whatever the number": {grounds: Context{Gate: health.Gate{Open: true, Observed: 3, Required: -47}}, allowed: true, reason: "Open", message: "0 of 3 nodes are healthy, at least 0 have to be"},
		"FR-301 the selector selects no node, and minHealthy is a percentage": {grounds: Context{Gate: health.Gate{Open: true}}, reason: "NoNodes", message: "the selector selects no node"},
		"FR-301 the selector selects no node, and minHealthy is a number":     {grounds: Context{Gate: health.Gate{Required: 2}}, reason: "NoNodes", message: "the selector selects no node"},
		"18.5 no node is left of a storm":                                     {grounds: Context{Gate: health.Gate{Open: true}, Storm: storm}, reason: "NoNodes", message: "the selector selects no node"},
		"18.5 no node, and paused":                                            {grounds: Context{Gate: health.Gate{Open: true}, Constraints: Constraints{Paused: true}}, reason: "Paused", message: "Paused: upgrade,holiday"},
		"18.5 only a stop":                                                    {grounds: Context{Gate: open, Stop: "a budget"}, reason: "Stopped", message: "a budget"},
		"18.5 a stop comes last":                                              {grounds: Context{Gate: open, Storm: storm, Stop: "a budget"}, reason: "StormActive", message: "Storm recovery is active while 2 of 5 nodes are not healthy"},
		"8.5 closed":                                                          {grounds: Context{Gate: health.Gate{Observed: 5, Healthy: 3, Required: 4}}, reason: "Closed", message: "3 of 5 nodes are healthy, at least 4 have to be"},
		"5.4 the gate before the storm":                                       {grounds: Context{Gate: health.Gate{Observed: 5, Healthy: 3, Required: 4}, Storm: storm}, reason: "Closed", message: "3 of 5 nodes are healthy, at least 4 have to be"},
		"9.6 storm":                                                           {grounds: Context{Gate: open, Storm: storm}, reason: "StormActive", message: "Storm recovery is active while 2 of 5 nodes are not healthy"},
		"9.5 storm, calm for the moment":                                      {grounds: Context{Gate: open, Storm: storm, StormEnd: epoch.In(time.FixedZone("", 3600))}, reason: "StormActive", message: "Storm recovery is active until 2026-01-01T00:00:00Z, if it stays calm"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := classicPolicy(reboot())
			s.Context = tc.grounds
			s.Context.PauseRequests = []string{"upgrade", "holiday"}
			allowed, reason, message := s.Context.Allowance()
			require.Equal(t, tc.allowed, allowed)
			require.Equal(t, tc.reason, reason)
			require.Equal(t, tc.message, message)
		})
	}
}
