// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// writtenLease returns the lease of the Node that a plan writes.
func writtenLease(t *testing.T, plan *Plan) *coordinationv1.Lease {
	t.Helper()
	for _, action := range plan.Actions {
		if write, ok := action.(remediation.WriteLease); ok {
			return write.Lease
		}
	}
	require.Fail(t, "the plan writes no lease")
	return nil
}

// randomTarget returns a target in any state, likely or not.
func randomTarget(random *rand.Rand) Target {
	coin := func(n int) bool { return random.IntN(n) == 0 }
	m := machine("m", createdAt(epoch.Add(-time.Duration(random.IntN(40))*time.Minute)))
	for _, change := range []func(*Machine){failedPhase, noNode, noOwner, deletingMachine, ofClusterAPI, firstKey, secondKey} {
		if coin(5) {
			change(m)
		}
	}
	t := target(m)
	t.Verdict.State = []State{Healthy, UnderRemediation, NotStarted, SoonUnhealthy, Unhealthy, Unhealthy, Unhealthy}[random.IntN(7)]
	t.Verdict.Trigger = []string{v1beta1.TriggerMachineFailed, v1beta1.TriggerNodeMissing, v1beta1.TriggerNodeStartupTimeout, v1beta1.TriggerUnhealthyCondition}[random.IntN(4)]
	if m.Deleting() {
		t.Verdict = Verdict{State: Deleting}
	}
	t.DeletionRequested = map[types.UID]bool{"m-uid": coin(10)}
	for i := range random.IntN(3) * random.IntN(2) {
		own := cr("m", func(c *object.CR) { c.UID = types.UID(fmt.Sprintf("own-%d-uid", i)) })
		if coin(3) {
			objecttest.Deleting(own)
		}
		t.DeletionRequested[own.UID] = coin(4)
		t.Own = append(t.Own, own)
	}
	t.ControlPlane, t.Unselected, t.Incomplete = coin(4), coin(10), coin(10)
	t.Obstacles = Obstacles{MachinePaused: coin(20), ClusterPaused: coin(20), Excluded: coin(20)}
	if coin(20) {
		t.Obstacles.AmbiguousNode = "machines/n"
	}
	if coin(20) {
		t.Obstacles.UpdateEnds = epoch.Add(time.Hour)
	}
	if coin(20) {
		t.Obstacles.OtherCheck = "machines/others"
	}
	if coin(10) {
		t.Foreign = cr("m", objecttest.Foreign)
	}
	if coin(2) && (t.NodeUID != "" || !t.Incomplete) { // Else the lease is kept, and renewed next.
		t.Lease = nodeLease([]string{ours, ours, "another", ""}[random.IntN(4)], epoch.Add(-time.Duration(random.IntN(40))*time.Minute), int32(60*random.IntN(40)))
	}
	if coin(2) {
		t.Rounds = Rounds{int32(random.IntN(5)), epoch.Add(-time.Duration(random.IntN(40)) * time.Minute)}
	}
	if coin(10) {
		t.RetryAt = epoch.Add(time.Duration(random.IntN(7)-3) * time.Second)
	}
	switch state := &t.Verdict.State; {
	case *state == Healthy && t.Remediated():
		*state = UnderRemediation
	case *state == UnderRemediation && !t.Remediated():
		*state = Healthy
	}
	if coin(10) {
		gone(&t)
	}
	return t
}

func randomPolicy(random *rand.Rand) *Policy {
	p := policy([]func(*Policy){func(*Policy) {}, annotates, byTemplate}[random.IntN(3)])
	for _, change := range []func(*Policy){
		dryRun, terminating, blocked, func(p *Policy) { p.Upgrading = true }, func(p *Policy) { p.Criteria.Paused = true },
		func(p *Policy) { p.ClockUntrusted = true }, func(p *Policy) { p.Criteria.Problem = "broken" }, func(p *Policy) { p.Template = nil },
	} {
		if random.IntN(20) == 0 {
			change(p)
		}
	}
	return p
}

// carriedOut returns the target as it is after the actions. A deletion is shown, or not yet.
func carriedOut(random *rand.Rand, t Target, actions []remediation.Action) Target {
	m := t.Machine.DeepCopyObject().(*Machine)
	t.Machine = m
	seen := map[types.UID]bool{}
	maps.Copy(seen, t.DeletionRequested)
	t.DeletionRequested = seen
	for _, action := range actions {
		switch action := action.(type) {
		case remediation.Create:
			created := object.ParseCR(action.Object)
			created.UID, created.CreationTimestamp = "created-uid", metav1.NewTime(epoch)
			t.Own = append(t.Own, created)
		case remediation.Delete:
			seen[action.CR.UID] = true
		case remediation.DeleteMachine:
			if seen[m.UID] = true; random.IntN(2) == 0 {
				deletingMachine(m)
				t.Verdict = Verdict{State: Deleting}
			}
		case remediation.RequestExternal:
			firstKey(m)
			secondKey(m)
		case remediation.EndExternal:
			delete(m.Annotations, v1beta1.AnnotationRemediationStrategy)
		case remediation.WriteLease:
			t.Lease = action.Lease
		case remediation.ReleaseLease:
			t.Lease = nil
		}
	}
	return t
}

// TestPlanProperties holds for every target under every policy.
func TestPlanProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	acted := map[string]int{}
	for range 15000 {
		p, target := randomPolicy(random), randomTarget(random)
		plan := planFor(p, target, epoch)
		for _, action := range plan.Actions {
			acted[remediation.ActionName(action)]++
		}
		requireAllowed(t, p, &plan)
		if len(plan.Actions) > 0 {
			again := planFor(p, carriedOut(random, target, plan.Actions), epoch)
			require.Empty(t, describeActions(again.Actions), "P9: a plan that was carried out is followed by an empty one: %v\n%+v", describeActions(plan.Actions), target)
		}
	}
	for _, action := range []string{"Confirm", "Create", "Delete", "WriteLease", "ReleaseLease", "DeleteMachine", "RequestExternal", "EndExternal"} {
		require.Greater(t, acted[action], 50, "the test itself: %s", action)
	}
}

// requireAllowed checks a plan against the rules.
func requireAllowed(t *testing.T, p *Policy, plan *Plan) {
	t.Helper()
	target := plan.Target
	if selected := !target.Unselected && !target.Gone; selected && target.Verdict.State != Healthy {
		require.NotEmpty(t, plan.Reason, "M8.3: every target that is not Healthy has a decision: %s", target.Verdict.State)
	}
	if plan.Reason != "" {
		require.NotEmpty(t, v1beta1.DecisionType(plan.Reason), "M8.3: %s", plan.Reason)
	}
	require.False(t, plan.Recheck.Before(epoch) && !plan.Recheck.IsZero(), "P3: nothing polls")
	confirmed := false
	for _, action := range plan.Actions {
		if _, ok := action.(remediation.Confirm); ok {
			confirmed = true
		}
		switch action.(type) {
		case remediation.Create, remediation.DeleteMachine, remediation.RequestExternal:
			require.True(t, confirmed, "M8.4: the last look comes first")
			require.True(t, plan.Creates())
			require.Equal(t, Unhealthy, target.Verdict.State)
			require.False(t, target.Unselected || target.Gone || target.deleting() || len(target.Own) > 0, "P9")
			require.False(t, p.Terminating || p.DryRun || p.ClockUntrusted || p.Criteria.Paused || p.Criteria.Problem != "" || !p.Summary.Allowed())
			require.Equal(t, Obstacles{}, target.Obstacles)
			require.False(t, target.externallyRemediated() && !target.Machine.Failed(), "M11.2")
		}
		if _, ok := action.(remediation.DeleteMachine); ok {
			require.NotNil(t, target.Machine.Owner(), "M10.1")
			require.False(t, target.ControlPlane && target.Machine.API() == v1beta1.MachineAPICluster, "M13.3")
			if BackOffConcerns(target.Verdict.Trigger) {
				require.False(t, epoch.Before(p.BackOff.Due(target.Rounds, target.Machine.CreationTimestamp.Time)), "M14.2")
			}
		}
		if _, ok := action.(remediation.WriteLease); ok {
			require.True(t, plan.Creates() || remediation.LeaseHolder(target.Lease) == ours, "14.3: that of another is left alone")
		}
	}
	if plan.Creates() && target.NodeUID != "" {
		require.Equal(t, ours, remediation.LeaseHolder(writtenLease(t, plan)), "M10.3: the lease comes first")
	}
	require.False(t, plan.Refused && plan.Creates())
	require.False(t, plan.Reason == v1alpha1.DecidedDryRun && !p.DryRun)
}
