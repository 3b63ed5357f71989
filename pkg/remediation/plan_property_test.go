// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

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

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// randomNode returns a node in any state, likely or not.
func randomNode(random *rand.Rand) Node {
	coin := func(n int) bool { return random.IntN(n) == 0 }
	node := sick("n")
	switch random.IntN(4) {
	case 0:
		well(&node)
	case 1:
		soon(&node)
	}
	for _, column := range columns {
		if coin(8) {
			column.set(&node.Constraints)
		}
	}
	if node.Constraints.NodeDeleted {
		gone(&node)
	}
	node.DeletionRequested = map[types.UID]bool{}
	for i := range random.IntN(4) {
		own := randomCR(random, fmt.Sprintf("own-%d", i))
		if coin(2) {
			own = randomCR(random, "n")
			own.UID = types.UID(fmt.Sprintf("own-%d-uid", i))
		}
		if coin(4) {
			node.DeletionRequested[own.UID] = true
		}
		node.Own = append(node.Own, own)
	}
	for i := range random.IntN(3) {
		other := randomCR(random, fmt.Sprintf("foreign-%d", i))
		foreign(other)
		if coin(3) {
			other.Name = "n"
		}
		if coin(3) {
			from("reboot")(other)
		}
		node.Foreign = append(node.Foreign, other)
	}
	if coin(5) {
		node.Unreadable = []v1alpha1.Remediation{{Resource: cr("unreadable").Reference()}}
	}
	if coin(2) {
		node.Lease = randomLease(random)
	}
	node.ConfirmedHealthy, node.OthersRemediate = coin(4), coin(4)
	node.ControlPlane = coin(3)
	for _, own := range node.Own {
		if coin(2) {
			recorded := v1alpha1.Remediation{Resource: own.Reference(), Started: own.CreationTimestamp}
			if coin(3) {
				recorded.TimedOut = new(metav1.NewTime(epoch))
			}
			node.Recorded = append(node.Recorded, recorded)
		}
	}
	if coin(4) {
		node.RetryAt = epoch.Add(time.Duration(random.IntN(7)-3) * time.Second)
	}
	return node
}

func randomCR(random *rand.Rand, name string) *object.CR {
	c := cr(name, forNode("n"), createdAt(epoch.Add(-time.Duration(random.IntN(40))*time.Minute)))
	switch random.IntN(4) {
	case 0:
		from("fence")(c)
		ofKind("FenceRemediation")(c)
	case 1:
		from("soft")(c)
	case 2:
		from("reboot")(c)
	}
	for _, change := range []func(*object.CR){succeeded, failed, awaitsDelete, timedOut, deleting} {
		if random.IntN(4) == 0 {
			change(c)
		}
	}
	return c
}

func randomLease(random *rand.Rand) *coordinationv1.Lease {
	lease := held([]string{ours, ours, "other", ""}[random.IntN(4)], epoch.Add(-time.Duration(random.IntN(40))*time.Minute), lasting(int32(60*random.IntN(60))))
	for _, change := range []func(*coordinationv1.Lease){noHolder, noAcquireTime, noRenewTime, noDuration, noTransitions} {
		if random.IntN(10) == 0 {
			change(lease)
		}
	}
	if lease.Spec.AcquireTime != nil {
		acquired(lease.Spec.AcquireTime.Add(-time.Duration(random.IntN(40)) * time.Minute))(lease)
	}
	return lease
}

func cloneNode(node Node) Node {
	clone := node
	clone.Own, clone.Foreign, clone.Unreadable, clone.Recorded = nil, nil, nil, nil
	for i := range node.Recorded {
		clone.Recorded = append(clone.Recorded, *node.Recorded[i].DeepCopy())
	}
	clone.Lease = node.Lease.DeepCopy()
	for _, c := range node.Own {
		clone.Own = append(clone.Own, c.DeepCopyObject().(*object.CR))
	}
	for _, c := range node.Foreign {
		clone.Foreign = append(clone.Foreign, c.DeepCopyObject().(*object.CR))
	}
	clone.Unreadable = append(clone.Unreadable, node.Unreadable...)
	clone.DeletionRequested = maps.Clone(node.DeletionRequested)
	return clone
}

// carryOut returns the node as it is after the actions. What a cache may show late
// is shown late or not.
func carryOut(random *rand.Rand, node Node, actions []Action) Node {
	after := cloneNode(node)
	find := func(uid types.UID) int {
		for i, own := range after.Own {
			if own.UID == uid {
				return i
			}
		}
		return -1
	}
	for _, own := range node.Own {
		if own.TimedOut() && !own.Deleting() && node.recordedTimeout(own) == nil {
			recordedAs(own)(&after) // Status is rebuilt from the CRs.
		}
	}
	for _, action := range actions {
		switch action := action.(type) {
		case Create:
			created := object.ParseCR(action.Object)
			created.UID = "created-uid"
			created.CreationTimestamp = metav1.NewTime(epoch)
			after.Own = append(after.Own, created)
		case MarkTimedOut:
			i := find(action.CR.UID)
			if action.EndsStep {
				recordedAs(action.CR)(&after)
			}
			if after.Own[i].MayTimeOut() && (!action.EndsStep || random.IntN(2) == 0) {
				timedOut(after.Own[i]) // Or else the live object has succeeded, or the write was denied.
			}
		case WriteLease:
			after.Lease = action.Lease
		case ReleaseLease:
			after.Lease = nil
		case RemoveConfirmation:
			after.ConfirmedHealthy = false
		case Delete:
			i := find(action.CR.UID)
			if random.IntN(2) == 0 {
				after.DeletionRequested[action.CR.UID] = true
			} else {
				after.Own[i].DeletionTimestamp = new(metav1.NewTime(epoch))
			}
		}
	}
	return after
}

// TestPlanProperties holds for every node, under a classic and under an escalating
// NodeHealthCheck.
func TestPlanProperties(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Policy{"classic": classicPolicy(reboot()), "escalating": escalation(), "a delay": delayed(classicPolicy(reboot()))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2))
			acted := map[string]int{}
			for range 30000 {
				node := randomNode(random)
				Sort(s.Steps, node.Own)
				before := cloneNode(node)
				plan := planBy(s, node, epoch)

				require.Equal(t, before, cloneNode(node), "the arguments stay as they are")
				for _, action := range plan.Actions {
					acted[fmt.Sprintf("%T", action)]++
				}
				requirePermitted(t, s, &plan)
				if len(plan.Actions) > 0 {
					later := carryOut(random, node, plan.Actions)
					Sort(s.Steps, later.Own)
					again := planBy(s, later, epoch)
					require.Empty(t, describe(again.Actions), "P9: a plan that was carried out is followed by an empty one: %v\n%+v", describe(plan.Actions), node)
				}
			}
			for _, action := range []Action{Create{}, Delete{}, MarkTimedOut{}, WriteLease{}, ReleaseLease{}, RemoveConfirmation{}} {
				require.Greater(t, acted[fmt.Sprintf("%T", action)], 50, "the test itself: %T", action)
			}
		})
	}
}

func delayed(s *Policy) *Policy {
	s.HealthyDelay = 5 * time.Minute
	return s
}

// requirePermitted states what no plan may ever do.
func requirePermitted(t *testing.T, s *Policy, plan *NodePlan) {
	t.Helper()
	node := plan.Node
	permitted := node.Constraints.Permissions()
	own, marked := map[*object.CR]bool{}, map[*object.CR]bool{}
	for _, c := range node.Own {
		own[c] = true
	}
	unhealthy := !node.Constraints.NodeDeleted && node.Verdict.State == health.Unhealthy
	healthy := !node.Constraints.NodeDeleted && node.Verdict.State == health.Healthy
	leaseWritten, confirmed := node.holds(ownerNamed("workers")), false
	for i, action := range plan.Actions {
		if _, renewal := action.(WriteLease); !renewal || begins(*plan) {
			require.False(t, epoch.Before(node.RetryAt), "P1: the backoff is kept")
		}
		require.False(t, node.Constraints.Conflict, "6.7: nothing is written")
		switch action := action.(type) {
		case Confirm:
			confirmed = true
		case Create:
			require.True(t, confirmed, "13.3: the Node is read live first")
			require.True(t, unhealthy, "7.5: only for an unhealthy node")
			require.True(t, permitted.CreateNext && (permitted.CreateFirst || len(node.Own) > 0), "5.2")
			require.Empty(t, node.Unreadable, "6.8")
			require.True(t, leaseWritten, "14.2: only while the lease is held")
			require.Equal(t, len(node.Own) == 0, plan.Candidate, "12.2: limits may refuse what is the first CR")
			require.Equal(t, len(plan.Actions)-1, i, "it comes last, and there is one")
			if len(s.Steps) == 1 {
				require.Empty(t, node.Own, "11.6: what it replaces is gone completely")
			}
		case Delete:
			require.True(t, own[action.CR], "16.1: foreign CRs stay")
			require.False(t, node.deleting(action.CR), "16.1: a CR already being deleted gets none")
			require.False(t, unhealthy || plan.Delayed, "7.5 16.1: never for an unhealthy node that exists")
			require.False(t, node.Constraints.NodeDeleted && action.CR.AwaitsReplacement(), "17.3")
			require.True(t, confirmed, "16.7: the Node is read live first")
			require.Equal(t, node.Constraints.NodeDeleted && action.CR.MayTimeOut(), marked[action.CR], "17.2: told to stop first")
		case MarkTimedOut:
			require.True(t, own[action.CR], "11.4: foreign CRs are not touched")
			require.True(t, unhealthy || node.Constraints.NodeDeleted, "7.5")
			if action.EndsStep {
				require.True(t, confirmed, "13.3: the Node is read live first")
				require.True(t, permitted.EndStep, "5.2")
				require.True(t, plan.Exhausted || begins(*plan), "5.3: never while its successor may not be created")
			} else {
				require.True(t, action.CR.MayTimeOut(), "13.8: written once, never on a success")
			}
			marked[action.CR] = true
		case WriteLease:
			require.False(t, confirmed && unhealthy, "13.3: the lease is made to last first")
			require.True(t, leaseWritten || begins(*plan), "14.8: not acquired again before another CR is created")
			require.False(t, !leaseWritten && node.Lease != nil && LeaseValid(node.Lease, epoch), "14.3")
			leaseWritten = true
		case ReleaseLease:
			require.Contains(t, []string{ours, ""}, LeaseHolder(node.Lease), "14.9")
			require.False(t, begins(*plan))
		case RemoveConfirmation:
			require.True(t, healthy && len(node.Own) == 0 && !node.OthersRemediate, "16.6")
		}
	}
	if plan.Refusal() != "" {
		require.True(t, unhealthy && !begins(*plan))
	}
	if unhealthy && len(node.Own) == 0 && len(node.Unreadable) == 0 {
		require.NotEqual(t, begins(*plan), plan.Refusal() != "", "5.4: it gets a CR or hears why not")
	}
	require.Equal(t, plan.Refusal() == v1alpha1.DecidedForeignRemediation, plan.Blocker != nil)
}
