// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// escalation is a script of three steps, with timeouts of 5, 10 and 20 minutes, of
// which the first and the last have templates of the same kind.
func escalation(shuffle ...int) *Policy {
	nhc := check()
	all := []v1alpha1.EscalatingRemediation{
		{Order: -1, RemediationTemplate: step("RebootRemediationTemplate", testNamespace, "soft").Reference, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
		{Order: 5, RemediationTemplate: step("FenceRemediationTemplate", testNamespace, "fence").Reference, Timeout: metav1.Duration{Duration: 10 * time.Minute}},
		{Order: 6, RemediationTemplate: step("RebootRemediationTemplate", testNamespace, "hard").Reference, Timeout: metav1.Duration{Duration: 20 * time.Minute}},
	}
	nhc.Spec.EscalatingRemediations = all
	if shuffle != nil {
		nhc.Spec.EscalatingRemediations = nil
		for _, i := range shuffle {
			nhc.Spec.EscalatingRemediations = append(nhc.Spec.EscalatingRemediations, all[i])
		}
	}
	s := &Policy{Owner: object.OwnerOf(nhc), Steps: Steps(&nhc.Spec)}
	for _, step := range s.Steps {
		s.Templates = append(s.Templates, reboot(supportsMultiple, named(testNamespace, step.Reference.Name), func(t *object.Template) { t.Kind = step.Reference.Kind }))
	}
	return s
}

// The CRs of the steps for node n.
func soft(changes ...func(*object.CR)) *object.CR { return stepCR("soft", testKind, changes) }
func fence(changes ...func(*object.CR)) *object.CR {
	return stepCR("fence", "FenceRemediation", changes)
}
func hard(changes ...func(*object.CR)) *object.CR { return stepCR("hard", testKind, changes) }

func stepCR(template, kind string, changes []func(*object.CR)) *object.CR {
	c := cr(template, forNode("n"), from(template), ofKind(kind))
	for _, change := range changes {
		change(c)
	}
	return c
}

func createdAt(at time.Time) func(*object.CR) {
	return func(c *object.CR) { c.CreationTimestamp = metav1.NewTime(at) }
}

func recordedAs(over ...*object.CR) func(*Node) {
	return func(n *Node) {
		for _, c := range over {
			n.Recorded = append(n.Recorded, v1alpha1.Remediation{Resource: c.Reference(), TimedOut: new(metav1.NewTime(epoch))})
		}
	}
}

func TestEscalation(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	ourLease := leased(held(ours, epoch, lasting(36000)))
	tests := map[string]struct {
		node      Node
		now       time.Duration
		want      []string
		refusal   v1alpha1.DecisionReason
		exhausted bool
		recheck   time.Duration
	}{
		"13.1 the first step":                               {node: sick("n"), want: []string{"lease node-n", "confirm", "create n-soft"}, recheck: 5 * m},
		"13.3 it runs":                                      {node: sick("n", ourLease, with(soft())), now: 5*m - 1, recheck: 5 * m},
		"13.3 its time is up":                               {node: sick("n", ourLease, with(soft())), now: 5 * m, want: []string{"confirm", "end soft at 00:05:00", "create n-fence"}, recheck: 15 * m},
		"13.3 it has failed":                                {node: sick("n", ourLease, with(soft(failed))), now: m, want: []string{"confirm", "end soft at 00:01:00", "create n-fence"}, recheck: 11 * m},
		"13.4 a success runs until its time is up":          {node: sick("n", ourLease, with(soft(succeeded))), now: m, recheck: 5 * m},
		"13.4 and then the next step follows":               {node: sick("n", ourLease, with(soft(succeeded))), now: 5 * m, want: []string{"confirm", "end soft at 00:05:00", "create n-fence"}, recheck: 15 * m},
		"13.2 over by its annotation":                       {node: sick("n", ourLease, with(soft(timedOut))), now: m, want: []string{"confirm", "create n-fence"}, recheck: 11 * m},
		"13.2 over by its status entry":                     {node: sick("n", ourLease, with(soft()), recordedAs(soft())), now: m, want: []string{"confirm", "create n-fence"}, recheck: 11 * m},
		"13.2 a status entry of a former CR says nothing":   {node: sick("n", ourLease, with(soft()), recordedAs(soft(func(c *object.CR) { c.UID = "former" }))), now: m, recheck: 5 * m},
		"13.2 over because a later step has a CR":           {node: sick("n", ourLease, with(soft(), fence(createdAt(epoch.Add(6*m))))), now: 7 * m, recheck: 16 * m},
		"13.2 the first step's CR has vanished":             {node: sick("n", ourLease, with(fence())), now: m, recheck: 10 * m},
		"11.6 the current step's CR has vanished":           {node: sick("n", ourLease, with(soft(timedOut))), now: 20 * m, want: []string{"confirm", "create n-fence"}, recheck: 30 * m},
		"13.2 a CR that is deleted stands for no step":      {node: sick("n", ourLease, with(soft(timedOut), fence(deleting, timedOut))), now: m},
		"P9 nor may its successor come before it is gone":   {node: sick("n", ourLease, with(soft(deleting, timedOut))), now: m},
		"13.8 what is deleted is told to stop":              {node: sick("n", ourLease, with(soft(timedOut), fence(deleting))), now: m, want: []string{"mark fence at 00:01:00"}},
		"P9 a step of the same kind is another step":        {node: sick("n", ourLease, with(soft(timedOut), fence(timedOut))), now: m, want: []string{"confirm", "create n-hard"}, recheck: 21 * m},
		"13.6 after the last step":                          {node: sick("n", ourLease, with(soft(timedOut), fence(timedOut), hard())), now: 20 * m, want: []string{"confirm", "end hard at 00:20:00"}, exhausted: true},
		"13.6 nothing more follows":                         {node: sick("n", ourLease, with(soft(timedOut), fence(timedOut), hard(timedOut))), now: 900 * m, exhausted: true},
		"11.8 the oldest CR of a step is the step's":        {node: sick("n", ourLease, with(soft(), soft(createdAt(epoch.Add(3*m)), func(c *object.CR) { c.UID = "second" }))), now: 5 * m, want: []string{"confirm", "end soft at 00:05:00", "create n-fence"}, recheck: 15 * m},
		"5.3 blocked: the step goes on":                     {node: sick("n", ourLease, with(soft()), under(func(c *Constraints) { c.Paused = true })), now: 9 * m},
		"5.3 blocked: a failed step goes on as well":        {node: sick("n", ourLease, with(soft(failed)), under(func(c *Constraints) { c.GateClosed = true })), now: 9 * m},
		"5.2 blocked: no next CR for a step that is over":   {node: sick("n", ourLease, with(soft(timedOut)), under(func(c *Constraints) { c.Excluded = true })), now: 9 * m, refusal: v1alpha1.DecidedExcluded},
		"5.3 the lease is taken: the step goes on":          {node: sick("n", leased(held("other", epoch)), with(soft())), now: 5 * m, refusal: v1alpha1.DecidedLeaseTaken, recheck: 6 * m},
		"13.8 what is deleted is told to stop even then":    {node: sick("n", leased(held("other", epoch)), with(soft(), soft(deleting, func(c *object.CR) { c.UID = "second" }))), now: 5 * m, want: []string{"mark soft at 00:05:00"}, refusal: v1alpha1.DecidedLeaseTaken, recheck: 6 * m},
		"5.3 a foreign CR is in the way: the step goes on":  {node: sick("n", ourLease, with(soft()), near(fence(foreign))), now: 5 * m, refusal: v1alpha1.DecidedForeignRemediation},
		"5.4 the control plane is no obstacle to next ones": {node: sick("n", ourLease, with(soft()), func(n *Node) { n.ControlPlane = true }), now: 5 * m, want: []string{"confirm", "end soft at 00:05:00", "create n-fence"}, recheck: 15 * m},
		"14.2 14.8 the lease is missing: acquired again":    {node: sick("n", with(soft())), now: 5 * m, want: []string{"lease node-n", "confirm", "end soft at 00:05:00", "create n-fence"}, recheck: 15 * m},
		"14.4 14.8 an invalid foreign lease is taken over":  {node: sick("n", leased(held("other", epoch.Add(-time.Hour))), with(soft())), now: 5 * m, want: []string{"lease node-n", "confirm", "end soft at 00:05:00", "create n-fence"}, recheck: 15 * m},
		"7.5 nothing for a soon-unhealthy node":             {node: sick("n", ourLease, soon, with(soft(failed))), now: 99 * m},
		"6.8 what cannot be read may be at work":            {node: sick("n", ourLease, with(soft(timedOut)), func(n *Node) { n.Unreadable = []v1alpha1.Remediation{{}} }), now: m},
		"16.1 recovery: every step, timed out or not":       {node: sick("n", ourLease, well, with(soft(timedOut), fence(succeeded), hard())), now: m, want: []string{"confirm", "delete soft", "delete fence", "delete hard"}},
		"14.5 the lease is kept while no step can be ended": {node: sick("n", leased(held(ours, epoch, lasting(360))), with(soft(), hard()), func(n *Node) { n.RetryAt = epoch.Add(time.Hour) }), now: 20 * m, want: []string{"lease node-n"}, recheck: 40 * m},
		"14.5 and before the next attempt to end the last":  {node: sick("n", leased(held(ours, epoch, lasting(360))), with(hard()), func(n *Node) { n.RetryAt = epoch.Add(time.Minute) }), now: 20 * m, want: []string{"lease node-n", "confirm", "end hard at 00:20:00"}, exhausted: true},
		"P1 nothing before the next attempt":                {node: sick("n", ourLease, with(soft()), func(n *Node) { n.RetryAt = epoch.Add(time.Hour) }), now: 5 * m, refusal: v1alpha1.DecidedUpdateFailed, recheck: 15 * m},
	}
	hashes := map[string]string{"soft": "", "fence": "", "hard": ""}
	for _, template := range escalation().Templates {
		hashes[template.Name] = object.Name("n", template)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			for _, line := range tc.want {
				for template, hashed := range hashes {
					if line == "create n-"+template {
						line = "create " + hashed
					}
				}
				want = append(want, line)
			}
			plan := planBy(escalation(), tc.node, epoch.Add(tc.now))
			require.Equal(t, want, describe(plan.Actions))
			require.Equal(t, tc.refusal, plan.Refusal())
			require.Equal(t, tc.exhausted, plan.Exhausted)
			recheck := plan.Recheck
			if lease := tc.node.Lease; lease != nil && recheck.Equal(RenewalDue(lease)) {
				recheck = time.Time{} // That of the lease, which lasts longer than all steps.
			}
			if tc.recheck == 0 {
				require.Zero(t, recheck, "P2")
			} else {
				require.Equal(t, epoch.Add(tc.recheck), recheck, "P2")
			}
		})
	}
}

// TestEscalationIgnoresPositions shuffles the list in the spec.
func TestEscalationIgnoresPositions(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	node := func() Node { return sick("n", leased(held(ours, epoch)), with(soft(timedOut), fence())) }
	want := planBy(escalation(), node(), epoch.Add(10*time.Minute))
	require.Len(t, want.Actions, 4)
	for range 20 {
		require.Equal(t, want, planBy(escalation(random.Perm(3)...), node(), epoch.Add(10*time.Minute)), "P7")
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	second := soft(createdAt(epoch.Add(time.Minute)), func(c *object.CR) { c.UID = "a" })
	twin := soft(func(c *object.CR) { c.UID = "z" })
	want := []*object.CR{soft(), twin, second, fence(createdAt(epoch.Add(-time.Hour))), hard(), cr("stranger", forNode("n"))}
	for range 50 {
		crs := make([]*object.CR, len(want))
		for i, j := range random.Perm(len(want)) {
			crs[i] = want[j]
		}
		Sort(escalation().Steps, crs)
		require.Equal(t, want, crs, "18.3: by step; 11.8: the oldest first")
	}
}

// TestLeaseOfNextStep: the same lease goes on with the T of the next step.
func TestLeaseOfNextStep(t *testing.T) {
	t.Parallel()
	now := epoch.Add(5 * time.Minute)
	plan := planBy(escalation(), sick("n", with(soft()), leased(held(ours, epoch, lasting(360)))), now)
	require.Equal(t, held(ours, now, lasting(660), acquired(epoch)), written(plan), "14.6: acquireTime and transitions stay")
	plan = planBy(escalation(), sick("n", with(soft(timedOut)), leased(held(ours, epoch, lasting(7200)))), now)
	require.Nil(t, written(plan), "14.6 14.5: the end never moves to an earlier time")
	require.True(t, begins(plan))
	plan = planBy(escalation(), sick("n", with(soft(timedOut), hard()), leased(held(ours, epoch))), now)
	require.Equal(t, held(ours, now, lasting(1260), acquired(epoch)), written(plan), "14.5: T is that of the step the node has come to")
	plan = planBy(escalation(), sick("n", well, with(soft(deleting)), leased(held(ours, epoch, lasting(360)))), now)
	require.Equal(t, held(ours, now, lasting(360), acquired(epoch)), written(plan), "14.5: also while its deletion is pending")
	over := []*object.CR{soft(timedOut, deleting), fence(timedOut, deleting), hard(timedOut, deleting)}
	plan = planBy(escalation(), sick("n", well, with(over...), recordedAs(over...), leased(held(ours, epoch))), epoch.Add(10*time.Hour))
	require.Empty(t, plan.Actions, "13.6 14.5: nor after the deletion was requested")
	plan = planBy(escalation(), sick("n", with(soft(timedOut), fence(timedOut), hard(timedOut)), leased(held(ours, epoch))), epoch.Add(10*time.Hour))
	require.Empty(t, plan.Actions, "13.6: the lease is not renewed any more")
	require.Zero(t, plan.Recheck)
}

// TestClassicOverdue: a classic step has no timeout, but its lease is overdue some
// time.
func TestClassicOverdue(t *testing.T) {
	t.Parallel()
	lease := held(ours, epoch.Add(25*time.Minute), acquired(epoch), lasting(36000))
	overdueLease := leased(lease)
	tests := map[string]struct {
		node      Node
		now       time.Duration
		want      []string
		exhausted bool
	}{
		"14.7 not yet":                                     {node: sick("n", with(cr("n")), overdueLease), now: 30*time.Minute - 1, want: nil},
		"14.7 marked, and the lease deleted":               {node: sick("n", with(cr("n")), overdueLease), now: 30 * time.Minute, want: []string{"confirm", "end n at 00:30:00", "release node-n"}, exhausted: true},
		"14.7 the executor looks whether it has succeeded": {node: sick("n", with(cr("n", succeeded)), overdueLease), now: 30 * time.Minute, want: []string{"confirm", "end n at 00:30:00", "release node-n"}, exhausted: true},
		"14.7 no new lease and no second annotation":       {node: sick("n", with(cr("n", timedOut))), now: 99 * time.Minute, exhausted: true},
		"14.7 known by status only, as after a success":    {node: sick("n", with(cr("n", succeeded)), recordedAs(cr("n"))), now: 99 * time.Minute, exhausted: true},
		"14.7 the lease could not be deleted: once more":   {node: sick("n", with(cr("n", timedOut)), overdueLease), now: 30 * time.Minute, want: []string{"release node-n"}, exhausted: true},
		"14.7 marked by somebody else, not overdue yet":    {node: sick("n", with(cr("n", timedOut)), overdueLease), now: 30*time.Minute - 1, exhausted: true},
		"5.3 14.7 nor deleted while blocked":               {node: sick("n", with(cr("n", timedOut)), overdueLease, under(func(c *Constraints) { c.Paused = true })), now: 30 * time.Minute, exhausted: true},
		"14.7 a foreign lease is not deleted":              {node: sick("n", with(cr("n", timedOut)), leased(held("other", epoch))), now: 40 * time.Minute, exhausted: true},
		"14.7 nor one that does not tell":                  {node: sick("n", with(cr("n", timedOut)), leased(held(ours, epoch, noAcquireTime))), now: 40 * time.Minute, exhausted: true},
		"5.3 not while blocked":                            {node: sick("n", with(cr("n")), leased(held(ours, epoch.Add(40*time.Minute), acquired(epoch))), under(func(c *Constraints) { c.Paused = true })), now: 40 * time.Minute},
		"14.8 a foreign lease is not overdue":              {node: sick("n", with(cr("n")), leased(held("other", epoch))), now: 40 * time.Minute},
		"14.8 without a lease it carries on":               {node: sick("n", with(cr("n"))), now: 40 * time.Minute},
		"14.7 escalating steps end by their own timeout":   {node: sick("n", with(cr("n")), leased(held(ours, epoch, noAcquireTime, lasting(36000)))), now: 0, want: []string{"lease node-n"}},
		"13.7 a failure has no effect":                     {node: sick("n", with(cr("n", failed)), overdueLease), now: 29 * time.Minute},
		"7.5 not while soon-unhealthy":                     {node: sick("n", soon, with(cr("n")), leased(held(ours, epoch.Add(40*time.Minute), acquired(epoch)))), now: 40 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(tc.node, epoch.Add(tc.now))
			require.Equal(t, tc.want, describe(plan.Actions))
			require.Equal(t, tc.exhausted, plan.Exhausted)
		})
	}
	plan := planFor(sick("n", with(cr("n")), leased(held(ours, epoch.Add(21*time.Minute), acquired(epoch)))), epoch.Add(22*time.Minute))
	require.Equal(t, epoch.Add(30*time.Minute), plan.Recheck, "14.7 P2")
	plan = planFor(sick("n", with(cr("n", timedOut)), leased(held(ours, epoch.Add(21*time.Minute), acquired(epoch)))), epoch.Add(22*time.Minute))
	require.Equal(t, epoch.Add(30*time.Minute), plan.Recheck, "14.7 P2: marked by somebody else")
	plan = planBy(escalation(), sick("n", with(soft(timedOut), fence(timedOut), hard(timedOut)), leased(held(ours, epoch))), epoch.Add(time.Hour))
	require.Empty(t, plan.Actions, "14.7: escalating steps leave it to expire")
	plan = planBy(escalation(), sick("n", with(soft(timedOut), fence(timedOut), hard()), leased(held(ours, epoch, lasting(36000), func(l *coordinationv1.Lease) { l.Spec.AcquireTime = new(metav1.NewMicroTime(epoch.Add(-time.Hour))) }))), epoch)
	require.Empty(t, plan.Actions, "14.7: escalating steps end by their own timeout only")
}

// A CR of no step at all may be at work: nothing is begun besides it.
func TestStrangers(t *testing.T) {
	t.Parallel()
	stranger := cr("x", forNode("n"), from("of-a-former-spec"))
	plan := planBy(escalation(), sick("n", with(stranger)), epoch.Add(time.Hour))
	require.Empty(t, plan.Actions, "1.4 P9: the node is under remediation")
	plan = planBy(escalation(), sick("n", well, with(stranger)), epoch)
	require.Equal(t, []string{"confirm", "delete x"}, describe(plan.Actions), "16.1: recovery deletes all own CRs")
	require.Equal(t, corev1.ConditionStatus(""), stranger.Succeeded)
}
