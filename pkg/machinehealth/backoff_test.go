// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

var defaultBackOff = BackOff{Base: DefaultBackOffBase, Cap: DefaultBackOffCap}

func TestDelay(t *testing.T) {
	t.Parallel()
	for rounds, want := range map[int32]time.Duration{
		-1: 0, 0: 0, 1: 5 * time.Minute, 2: 10 * time.Minute, 3: 20 * time.Minute, 4: 20 * time.Minute, 100: 20 * time.Minute, math.MaxInt32: 20 * time.Minute,
	} {
		require.Equal(t, want, defaultBackOff.Delay(rounds), "M14.1: %d", rounds)
	}
	require.Equal(t, 7*time.Second, BackOff{Base: 7 * time.Second, Cap: 7 * time.Second}.Delay(1), "M14.1: the cap is the base")
	require.Equal(t, 25*time.Minute, BackOff{Base: 10 * time.Minute, Cap: 25 * time.Minute}.Delay(3), "M14.1: the cap is no multiple of the base")
	require.Equal(t, time.Duration(math.MaxInt64), BackOff{Base: time.Hour, Cap: math.MaxInt64}.Delay(math.MaxInt32), "M14.1: no overflow")
}

func TestRoundsOf(t *testing.T) {
	t.Parallel()
	last := epoch.Add(time.Minute)
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		want  Rounds
	}{
		"M14.4 no lease":          {nil, Rounds{}},
		"M14.4 rounds":            {roundsLease(3, last), Rounds{Count: 3, Last: last}},
		"M14.4 none":              {roundsLease(0, last), Rounds{}},
		"M14.4 a negative number": {roundsLease(-3, last), Rounds{}},
		"M14.4 an empty lease":    {&coordinationv1.Lease{}, Rounds{}},
		"M14.4 no last round":     {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseTransitions: new(int32(3))}}, Rounds{}},
		"M14.4 no number":         {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(last))}}, Rounds{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, RoundsOf(tc.lease))
		})
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	last := epoch.Add(700 * time.Millisecond)
	for name, tc := range map[string]struct {
		rounds  Rounds
		created time.Time
		want    time.Duration // After the creation.
	}{
		"M14.2 the first":       {Rounds{}, epoch, 0},
		"M14.2 after one round": {Rounds{1, last}, epoch.Add(time.Minute), 5 * time.Minute},
		"M14.2 after two":       {Rounds{2, last}, epoch.Add(time.Minute), 10 * time.Minute},
		"M14.2 after many":      {Rounds{99, last}, epoch.Add(time.Minute), 20 * time.Minute},
		"M14.3 made before the round, it belongs to it":   {Rounds{1, last}, epoch.Add(-time.Second), 0},
		"M14.3 made before the second one":                {Rounds{2, last}, epoch.Add(-time.Second), 5 * time.Minute},
		"M14.3 made in the same second, by whole seconds": {Rounds{1, last}, epoch, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.created.Add(tc.want), defaultBackOff.Due(tc.rounds, tc.created))
		})
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	rounds := Rounds{Count: 2, Last: epoch.Add(500 * time.Millisecond)}
	for name, tc := range map[string]struct {
		rounds  Rounds
		healthy time.Time
		after   time.Duration
		want    bool
	}{
		"M14.3 none has begun":                  {rounds: Rounds{}, healthy: epoch, after: 100 * time.Hour},
		"M14.3 nothing is healthy":              {rounds: rounds, after: time.Minute},
		"M14.3 a healthy one of before":         {rounds: rounds, healthy: epoch.Add(-time.Second), after: time.Minute},
		"M14.3 a healthy one created since":     {rounds: rounds, healthy: epoch.Add(time.Second), after: time.Minute, want: true},
		"M14.3 a healthy one, by whole seconds": {rounds: rounds, healthy: epoch, after: time.Minute, want: true},
		"M14.3 shortly before three caps":       {rounds: rounds, after: time.Hour + 500*time.Millisecond - 1},
		"M14.3 after three caps":                {rounds: rounds, after: time.Hour + 500*time.Millisecond, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, defaultBackOff.Over(tc.rounds, tc.healthy, epoch.Add(tc.after)))
		})
	}
}

// TestBackOffLease: what the lease of an owner says (spec M2, M14.4).
func TestBackOffLease(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Hour + 300*time.Millisecond)
	whole := new(metav1.NewMicroTime(epoch.Add(time.Hour)))
	describe := map[string]string{"nhc-controller.io/owner": "MachineSet.machine.openshift.io/machines/set"}
	lease := func(count, seconds int32, acquired *metav1.MicroTime) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "machine-owner-set-uid", Annotations: describe},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(ours), LeaseTransitions: &count, AcquireTime: acquired, RenewTime: whole, LeaseDurationSeconds: &seconds},
		}
	}
	stored := func(count, seconds int32, acquired *metav1.MicroTime) *coordinationv1.Lease {
		l := lease(count, seconds, acquired)
		l.UID, l.ResourceVersion = "rounds-uid", "6"
		return l
	}
	first := new(metav1.NewMicroTime(epoch))
	noAcquireTime := roundsLease(1, epoch)
	noAcquireTime.Spec.AcquireTime = nil
	for name, tc := range map[string]struct {
		old     *coordinationv1.Lease
		machine *Machine
		want    *coordinationv1.Lease
	}{
		"M14.4 the first round":                         {nil, machine("m"), lease(1, 300, whole)},
		"M14.4 the second one":                          {roundsLease(1, epoch), machine("m", createdAt(epoch.Add(time.Minute))), stored(2, 600, first)},
		"M14.4 the fourth one":                          {roundsLease(3, epoch), machine("m", createdAt(epoch.Add(time.Minute))), stored(4, 1200, first)},
		"M14.4 a last one that cannot be counted":       {roundsLease(math.MaxInt32, epoch), machine("m", createdAt(epoch.Add(time.Minute))), stored(math.MaxInt32, 1200, first)},
		"M14.4 a lease of no rounds begins anew":        {roundsLease(0, epoch), machine("m"), stored(1, 300, whole)},
		"M14.4 without acquireTime":                     {noAcquireTime, machine("m"), stored(2, 600, whole)},
		"M14.3 a Machine of the last round begins none": {roundsLease(1, epoch.Add(time.Second)), machine("m"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.old.DeepCopy()
			require.Equal(t, tc.want, defaultBackOff.begin(tc.old, testOwner, tc.machine, now))
			require.Equal(t, before, tc.old, "what is cached is not changed")
		})
	}
	require.True(t, IsBackOffLease("machine-owner-set-uid"))
	require.False(t, IsBackOffLease("node-m"))
	tiny := BackOff{Base: time.Millisecond, Cap: time.Millisecond}
	require.Equal(t, int32(1), *tiny.begin(nil, testOwner, machine("m"), now).Spec.LeaseDurationSeconds, "M14.4: a lease that the API accepts")
	core := machine("m", func(m *Machine) { m.OwnerReferences[0].APIVersion = "v1" })
	require.Equal(t, "MachineSet/machines/set", defaultBackOff.begin(nil, testOwner, core, now).Annotations["nhc-controller.io/owner"])
}

// TestBackOffDecides: which deletions are slowed down, and how.
func TestBackOffDecides(t *testing.T) {
	t.Parallel()
	rounds := func(count int32) func(*Target) {
		return func(t *Target) { t.Rounds = roundsLease(count, epoch.Add(-time.Minute)) }
	}
	confirmAndDelete := []string{"Confirm", "DeleteMachine m"}
	counted := []string{"Confirm", "WriteLease machine-owner-set-uid", "DeleteMachine m"}
	for name, tc := range map[string]struct {
		policy  func(*Policy)
		target  Target
		now     time.Duration
		refused bool
		actions []string
	}{
		"M14.1 the first one that failed":        {target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed)), actions: counted},
		"M14.1 the first one that never started": {target: target(machine("m", noNode), because(v1beta1.TriggerNodeStartupTimeout)), actions: counted},
		"M14.2 a nanosecond too young":           {target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed), rounds(1)), now: 5*time.Minute - 1, refused: true},
		"M14.2 old enough":                       {target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed), rounds(1)), now: 5 * time.Minute, actions: counted},
		"M14.2 too young to have started":        {target: target(machine("m", noNode), because(v1beta1.TriggerNodeStartupTimeout), rounds(2)), now: 10*time.Minute - 1, refused: true},
		"M14.1 a missing Node is not slowed":     {target: target(machine("m"), because(v1beta1.TriggerNodeMissing), rounds(9), func(t *Target) { t.NodeUID = "" }), actions: confirmAndDelete},
		"M14.1 a condition is not slowed":        {target: target(machine("m"), rounds(9), func(t *Target) { t.NodeUID = "" }), actions: confirmAndDelete},
		"M14.1 nor is an annotation":             {policy: annotates, target: target(machine("m", noNode), because(v1beta1.TriggerNodeStartupTimeout), rounds(9)), actions: []string{"Confirm", "RequestExternal m"}},
		"M14.1 nor is a CR":                      {policy: byTemplate, target: target(machine("m", noNode, failedPhase), because(v1beta1.TriggerMachineFailed), rounds(9)), actions: []string{"Confirm", "Create m"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			if tc.policy != nil {
				tc.policy(p)
			}
			now := epoch.Add(tc.now)
			plan := planFor(p, tc.target, now)
			require.Equal(t, tc.actions, describeActions(plan.Actions))
			require.Equal(t, tc.refused, plan.Refused)
			if !tc.refused {
				return
			}
			due := defaultBackOff.Due(RoundsOf(tc.target.Rounds), epoch)
			require.Equal(t, v1beta1.DecidedBackOff, plan.Reason)
			require.Equal(t, []time.Time{due, due}, []time.Time{plan.Until, plan.Recheck}, "M14.2: nextCheckTime, and the sync wakes up for it")
		})
	}
}
