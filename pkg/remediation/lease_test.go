// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// held returns a lease of node n for 660 s.
func held(holder string, renewed time.Time, changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "medik8s-leases", Name: "node-n", UID: "lease-uid", ResourceVersion: "5",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n-uid"}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, AcquireTime: new(metav1.NewMicroTime(renewed)), RenewTime: new(metav1.NewMicroTime(renewed)),
			LeaseDurationSeconds: new(int32(660)), LeaseTransitions: new(int32(3)),
		},
	}
	for _, change := range changes {
		change(lease)
	}
	return lease
}

const ours = "NodeHealthCheck-workers"

func leased(lease *coordinationv1.Lease) func(*Node) { return func(n *Node) { n.Lease = lease } }
func noHolder(l *coordinationv1.Lease)               { l.Spec.HolderIdentity = nil }
func emptyHolder(l *coordinationv1.Lease)            { l.Spec.HolderIdentity = new("") }
func noRenewTime(l *coordinationv1.Lease)            { l.Spec.RenewTime = nil }
func noAcquireTime(l *coordinationv1.Lease)          { l.Spec.AcquireTime = nil }
func noDuration(l *coordinationv1.Lease)             { l.Spec.LeaseDurationSeconds = nil }
func noTransitions(l *coordinationv1.Lease)          { l.Spec.LeaseTransitions = nil }
func lasting(seconds int32) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = &seconds }
}
func acquired(at time.Time) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.AcquireTime = new(metav1.NewMicroTime(at)) }
}
func transited(n int32) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = &n }
}

// written returns the lease that a plan writes, nil if it writes none.
func written(plan NodePlan) *coordinationv1.Lease {
	for _, action := range plan.Actions {
		if write, ok := action.(WriteLease); ok {
			return write.Lease
		}
	}
	return nil
}

func TestLeaseName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "node-worker-1.example.com", object.LeaseName("Worker-1.example.COM"), "3")
	long := strings.Repeat("n", 239) + "..-." + strings.Repeat("m", 10)
	for _, node := range []string{strings.Repeat("n", 253), long} {
		name := object.LeaseName(node)
		require.Empty(t, validation.IsDNS1123Subdomain(name), "%q", name)
		require.NotEqual(t, name, object.LeaseName(node[:252]+"x"))
	}
	require.Equal(t, "node-"+strings.Repeat("n", 248), object.LeaseName(strings.Repeat("n", 248)), "3: as long as it fits")
}

func TestNodeOfLease(t *testing.T) {
	t.Parallel()
	node, ok := object.NodeOfLease(held(ours, epoch))
	require.True(t, ok)
	require.Equal(t, "n", node)
	node, ok = object.NodeOfLease(held(ours, epoch, func(l *coordinationv1.Lease) { l.OwnerReferences, l.Name = nil, "node-m" }))
	require.True(t, ok)
	require.Equal(t, "m", node, "17.2: by name")
	_, ok = object.NodeOfLease(held(ours, epoch, func(l *coordinationv1.Lease) { l.OwnerReferences, l.Name = nil, "m" }))
	require.False(t, ok)
	nhc, ok := object.NHCOfHolder(ownerNamed("workers").LeaseHolder())
	require.True(t, ok)
	require.Equal(t, "workers", nhc)
	_, ok = object.NHCOfHolder("node-maintenance")
	require.False(t, ok)
}

// TestMachineHealthCheckOfHolder: only holders with a namespace are those of this controller (spec M2, M4.3).
func TestMachineHealthCheckOfHolder(t *testing.T) {
	t.Parallel()
	for holder, want := range map[string]string{
		"MachineHealthCheck-machines/workers": "machines/workers",
		"MachineHealthCheck-foo":              "", // F6: the upstream operator's own controller.
		"MachineHealthCheck-/foo":             "",
		"MachineHealthCheck-machines/":        "",
		"MachineHealthCheck-a/b/c":            "",
		"MachineHealthCheck-":                 "",
		"NodeHealthCheck-workers":             "",
		"":                                    "",
	} {
		key, ok := object.MachineHealthCheckOfHolder(holder)
		require.Equal(t, want, key, holder)
		require.Equal(t, want != "", ok, holder)
	}
}

// TestLeaseForFirstCR: what stands in the cluster, and what is written before the
// first CR.
func TestLeaseForFirstCR(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Hour + 300*time.Millisecond)
	second := epoch.Add(time.Hour)
	fresh := held(ours, second, transited(0), func(l *coordinationv1.Lease) { l.Namespace, l.UID, l.ResourceVersion = "", "", "" })
	tests := map[string]struct {
		lease *coordinationv1.Lease
		want  *coordinationv1.Lease
	}{
		"14.1 there is none":                                {want: fresh},
		"14.2 left over by ourselves: it starts anew":       {lease: held(ours, epoch, acquired(epoch.Add(-time.Hour))), want: held(ours, second)},
		"14.2 left over by ourselves and still valid":       {lease: held(ours, second.Add(-time.Minute)), want: held(ours, second)},
		"14.2 left over, incomplete":                        {lease: held(ours, epoch, noAcquireTime, noDuration, noTransitions), want: held(ours, second, transited(0))},
		"14.1 14.2 left over for a Node that was replaced":  {lease: held(ours, epoch, func(l *coordinationv1.Lease) { l.OwnerReferences[0].UID = "of-the-former-node" }), want: held(ours, second)},
		"14.4 expired: taken over":                          {lease: held("other", epoch), want: held(ours, second, transited(4))},
		"14.4 expired by a moment":                          {lease: held("other", now.Add(-660*time.Second-1)), want: held(ours, second, transited(4))},
		"14.4 the owner is replaced":                        {lease: held("other", epoch, func(l *coordinationv1.Lease) { l.OwnerReferences = nil }), want: held(ours, second, transited(4))},
		"14.3 no renewTime is not valid":                    {lease: held("other", second, noRenewTime), want: held(ours, second, transited(4))},
		"14.3 no duration is not valid":                     {lease: held("other", second, noDuration), want: held(ours, second, transited(4))},
		"14.3 renewed in the future is not valid":           {lease: held("other", now.Add(time.Minute+1)), want: held(ours, second, transited(4))},
		"14.3 renewed by a clock that is ahead":             {lease: held("other", now.Add(time.Minute))},
		"14.4 transitions were missing":                     {lease: held("other", epoch, noTransitions), want: held(ours, second, transited(1))},
		"14.4 expired and without holder":                   {lease: held("", epoch, noHolder), want: held(ours, second, transited(4))},
		"14.3 valid":                                        {lease: held("other", second)},
		"14.3 valid until now":                              {lease: held("other", now.Add(-660*time.Second))},
		"14.3 renewed now":                                  {lease: held("other", now)},
		"14.3 of another NodeHealthCheck":                   {lease: held("NodeHealthCheck-others", second)},
		"14.3 without acquireTime it is valid all the same": {lease: held("other", second, noAcquireTime)},
		"14.3 without holder it counts as foreign":          {lease: held("", second, noHolder)},
		"14.3 with an empty holder as well":                 {lease: held("", second, emptyHolder)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.lease.DeepCopy()
			plan := planFor(sick("n", leased(tc.lease)), now)
			require.Equal(t, before, tc.lease, "the cached one stays as it is")
			if tc.want == nil {
				require.Equal(t, v1alpha1.DecidedLeaseTaken, plan.Refusal())
				require.Empty(t, describe(plan.Actions), "14.3 14.9: nothing is done, and a foreign lease is not touched")
				return
			}
			require.Empty(t, plan.Refusal())
			require.Equal(t, []string{"lease node-n", "confirm", "create n"}, describe(plan.Actions), "14.2")
			require.Equal(t, tc.want, written(plan))
			require.Equal(t, second.Add(10*time.Minute), plan.Recheck, "14.5: the next wake-up for it is T later")
		})
	}
}

// TestLeaseByAnotherClock: the clock of another holder is ahead of ours.
func TestLeaseByAnotherClock(t *testing.T) {
	t.Parallel()
	for renewed, refused := range map[time.Time]bool{
		epoch.Add(time.Minute):     true,
		epoch.Add(time.Minute + 1): false,
	} {
		plan := planFor(sick("n", leased(held("other", renewed))), epoch)
		require.Equal(t, refused, plan.Refusal() == v1alpha1.DecidedLeaseTaken, "14.3: %s", renewed.Sub(epoch))
	}
}

// TestLeaseRenewal: the node has a CR.
func TestLeaseRenewal(t *testing.T) {
	t.Parallel()
	const t10 = 10 * time.Minute
	tests := map[string]struct {
		lease   *coordinationv1.Lease
		now     time.Time
		want    *coordinationv1.Lease
		recheck time.Time
	}{
		"14.5 long enough":                             {lease: held(ours, epoch), now: epoch.Add(time.Minute), recheck: epoch.Add(t10)},
		"14.5 T later":                                 {lease: held(ours, epoch), now: epoch.Add(t10), want: held(ours, epoch.Add(t10), acquired(epoch)), recheck: epoch.Add(2 * t10)},
		"14.5 too short a moment later":                {lease: held(ours, epoch), now: epoch.Add(time.Minute + 1), want: held(ours, epoch.Add(time.Minute), acquired(epoch)), recheck: epoch.Add(time.Minute + t10)},
		"14.5 expired":                                 {lease: held(ours, epoch), now: epoch.Add(29 * time.Minute), want: held(ours, epoch.Add(29*time.Minute), acquired(epoch)), recheck: epoch.Add(30 * time.Minute)},
		"14.5 the end never moves to an earlier time":  {lease: held(ours, epoch, lasting(7200)), now: epoch.Add(time.Minute), recheck: epoch.Add(30 * time.Minute)},
		"14.5 renewTime was missing":                   {lease: held(ours, epoch, noRenewTime), now: epoch.Add(time.Minute), want: held(ours, epoch.Add(time.Minute), transited(4)), recheck: epoch.Add(time.Minute + t10)},
		"14.5 duration was missing":                    {lease: held(ours, epoch, noDuration), now: epoch.Add(time.Minute), want: held(ours, epoch.Add(time.Minute), transited(4)), recheck: epoch.Add(time.Minute + t10)},
		"14.5 acquireTime was missing":                 {lease: held(ours, epoch, noAcquireTime), now: epoch.Add(t10), want: held(ours, epoch.Add(t10), transited(4)), recheck: epoch.Add(2 * t10)},
		"14.5 acquireTime was missing in a longer one": {lease: held(ours, epoch, noAcquireTime, lasting(7200)), now: epoch.Add(time.Minute), want: held(ours, epoch, lasting(7200), acquired(epoch.Add(time.Minute)), transited(4)), recheck: epoch.Add(11 * time.Minute)},
		"14.8 there is none: the CR carries on":        {now: epoch},
		"14.8 foreign: the CR carries on":              {lease: held("other", epoch.Add(-time.Hour)), now: epoch},
		"14.8 without holder: the CR carries on":       {lease: held("", epoch.Add(-time.Hour), noHolder), now: epoch},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.lease.DeepCopy()
			plan := planFor(sick("n", with(cr("n")), leased(tc.lease)), tc.now)
			require.Equal(t, before, tc.lease, "the cached one stays as it is")
			require.Equal(t, tc.want, written(plan))
			require.Equal(t, tc.recheck, plan.Recheck, "P2")
			if tc.want == nil {
				require.Empty(t, plan.Actions)
			}
		})
	}
}

// TestLeaseIsKeptAndReleased walks through the states of a node.
func TestLeaseIsKeptAndReleased(t *testing.T) {
	t.Parallel()
	now := epoch.Add(11 * time.Minute)
	old := func(holder string) func(*Node) { return leased(held(holder, epoch)) }
	paused := under(func(c *Constraints) { c.Paused = true })
	unselected := under(func(c *Constraints) { c.Unselected = true })
	shown := func(n *Node) { n.Recorded = []v1alpha1.Remediation{{Resource: cr("n").Reference()}} }
	recoveryDelayed := func(s *Policy) { s.HealthyDelay = time.Hour }
	tests := map[string]struct {
		node   Node
		change func(*Policy)
		want   []string
	}{
		"5.2 renewed while paused":                             {node: sick("n", with(cr("n")), old(ours), paused), want: []string{"lease node-n"}},
		"5.2 17.5 renewed while no longer selected":            {node: sick("n", with(cr("n")), old(ours), unselected), want: []string{"lease node-n"}},
		"5.2 renewed while everything else blocks":             {node: sick("n", with(cr("n")), old(ours), under(everythingElse)), want: []string{"lease node-n"}},
		"14.5 renewed while the deletion is pending":           {node: sick("n", well, with(cr("n", deleting)), old(ours)), want: []string{"lease node-n"}},
		"14.5 16.2 renewed during the delay":                   {node: sick("n", well, with(cr("n")), old(ours)), change: recoveryDelayed, want: []string{"lease node-n"}},
		"7.5 renewed while soon-unhealthy":                     {node: sick("n", soon, with(cr("n")), old(ours)), want: []string{"lease node-n"}},
		"6.8 renewed for what cannot be read":                  {node: sick("n", func(n *Node) { n.Unreadable = []v1alpha1.Remediation{{}} }, old(ours)), want: []string{"lease node-n"}},
		"17.3 renewed while a replacement is awaited":          {node: sick("n", gone, with(cr("n", awaitsDelete)), old(ours)), want: []string{"lease node-n"}},
		"14.9 released with the last CR":                       {node: sick("n", well, shown, old(ours)), want: []string{"release node-n"}},
		"14.9 whatever time is left":                           {node: sick("n", well, shown, leased(held(ours, now))), want: []string{"release node-n"}},
		"14.9 P4 no matter who removed the CR":                 {node: sick("n", paused, old(ours)), want: []string{"release node-n"}},
		"14.9 P8 left over by a process that has crashed":      {node: sick("n", well, old(ours)), want: []string{"release node-n"}},
		"14.9 also while the node is soon-unhealthy":           {node: sick("n", soon, old(ours)), want: []string{"release node-n"}},
		"14.9 of an empty holder, after a remediation":         {node: sick("n", well, shown, leased(held("", epoch, emptyHolder))), want: []string{"release node-n"}},
		"14.9 of no holder, after a remediation":               {node: sick("n", well, shown, leased(held("", epoch, noHolder))), want: []string{"release node-n"}},
		"14.3 not of no holder, without a remediation of ours": {node: sick("n", paused, leased(held("", now, noHolder)))},
		"14.9 a lease of another holder stays":                 {node: sick("n", well, shown, old("other"))},
		"14.9 17.2 released with the CRs of a deleted Node":    {node: sick("n", gone, with(cr("n", timedOut)), old(ours)), want: []string{"confirm", "delete n", "release node-n"}},
		"14.9 17.4 without waiting for finalizers":             {node: sick("n", gone, with(cr("n", deleting, timedOut)), old(ours)), want: []string{"release node-n"}},
		"17.2 not that of another holder":                      {node: sick("n", gone, with(cr("n", timedOut)), old("other")), want: []string{"confirm", "delete n"}},
		"14.2 it stays for the next attempt after a failure":   {node: sick("n", leased(held(ours, now)), func(n *Node) { n.RetryAt = now.Add(time.Second) })},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := classicPolicy(reboot())
			if tc.change != nil {
				tc.change(s)
			}
			require.Equal(t, tc.want, describe(planBy(s, tc.node, now).Actions))
		})
	}
}

// A timeout may be longer than a lease can say.
func TestLeaseDurationOfAnyStep(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 660, *leaseDuration(10 * time.Minute), "14.1")
	require.EqualValues(t, 122, *leaseDuration(61*time.Second + 1), "14.1: at least as long")
	for _, timeout := range []time.Duration{math.MaxInt32 * time.Second, math.MaxInt64} {
		require.EqualValues(t, math.MaxInt32, *leaseDuration(timeout), "%s", timeout)
	}
}

// FuzzLease: whatever a lease says, nothing panics, a valid lease of somebody else is
// neither taken nor released, and what is written can be stored.
func FuzzLease(f *testing.F) {
	const second = int64(time.Second)
	f.Add(ours, uint8(0), int64(0), int64(0), int32(660), int32(0), uint8(0), int64(60))
	f.Add("other", uint8(0), int64(0), int64(0), int32(660), int32(3), uint8(0), int64(600))
	f.Add("other", uint8(0), -661*second, -660*second, int32(660), int32(math.MaxInt32), uint8(0), int64(600))
	f.Add("other", uint8(0), -661*second, -660*second-1, int32(660), int32(math.MaxInt32), uint8(0), int64(600))
	f.Add("other", uint8(0), int64(0), int64(1), int32(math.MaxInt32), int32(0), uint8(0), int64(60))
	f.Add("", uint8(1), int64(0), int64(0), int32(1), int32(0), uint8(1), int64(60))
	f.Add(ours, uint8(2), int64(0), int64(0), int32(-1), int32(-1), uint8(1), int64(60))
	f.Add(ours, uint8(4), int64(math.MinInt64), int64(math.MinInt64), int32(math.MinInt32), int32(math.MinInt32), uint8(1), int64(math.MaxInt64))
	f.Add(ours, uint8(8), int64(math.MaxInt64), int64(math.MaxInt64), int32(0), int32(0), uint8(2), int64(0))
	f.Add(ours, uint8(16), -1800*second, -600*second, int32(660), int32(0), uint8(5), int64(-1))
	f.Add("NodeHealthCheck-", uint8(31), int64(0), int64(0), int32(0), int32(0), uint8(3), int64(61))
	f.Fuzz(func(t *testing.T, holder string, missing uint8, acquiredAgo, renewedAgo int64, seconds, transitions int32, state uint8, timeout int64) {
		now := epoch.Add(time.Hour)
		lease := held(holder, now.Add(time.Duration(renewedAgo)), acquired(now.Add(time.Duration(acquiredAgo))), lasting(seconds), transited(transitions))
		for i, drop := range []func(*coordinationv1.Lease){noHolder, noAcquireTime, noRenewTime, noDuration, noTransitions} {
			if missing&(1<<i) != 0 {
				drop(lease)
			}
		}
		before := lease.DeepCopy()
		s := escalation()
		s.Steps[0].Timeout = max(v1alpha1.MinimumTimeout, time.Duration(timeout)) // Admission sees to it.
		node := []Node{
			sick("n"), sick("n", with(soft())), sick("n", well, with(soft(deleting))), sick("n", soon, with(soft())),
			sick("n", well), sick("n", with(soft(timedOut), fence())), sick("n", gone),
		}[state%7]
		if state%2 == 0 && len(node.Own) == 0 { // A classic one, now and then.
			s = classicPolicy(reboot())
		}
		leased(lease)(&node)
		plan := planBy(s, node, now)
		require.Equal(t, before, lease, "the cached one stays as it is")
		require.False(t, !plan.Recheck.IsZero() && !plan.Recheck.After(now), "P2: %s", plan.Recheck)

		us := LeaseHolder(lease) == ours
		require.Equal(t, leaseValidReference(lease, now), LeaseValid(lease, now), "14.3")
		if !us && LeaseValid(lease, now) {
			require.Nil(t, written(plan), "14.3: never stolen")
			require.False(t, begins(plan), "14.2")
			require.NotContains(t, describe(plan.Actions), "release node-n", "14.9")
			if len(node.Own) == 0 && node.Verdict.State == health.Unhealthy {
				require.Equal(t, v1alpha1.DecidedLeaseTaken, plan.Refusal())
			}
		}
		next := written(plan)
		if next == nil {
			return
		}
		require.Equal(t, ours, LeaseHolder(next))
		if seconds > 0 || !us {
			require.Positive(t, *next.Spec.LeaseDurationSeconds, "it could not be stored")
		}
		require.NotNil(t, next.Spec.AcquireTime)
		if transitions >= 0 && next.Spec.LeaseTransitions != nil {
			require.GreaterOrEqual(t, *next.Spec.LeaseTransitions, int32(0), "it could not be stored")
		}
		end, complete := LeaseEnd(next)
		require.True(t, complete)
		require.False(t, end.Before(now.Add(v1alpha1.MinimumTimeout)), "14.5")
		if old, complete := LeaseEnd(lease); us && complete && len(node.Own) > 0 {
			require.False(t, end.Before(old), "14.5: the end never moves to an earlier time")
		}
	})
}

// leaseValidReference is leaseValid in other words (spec 14.3).
func leaseValidReference(lease *coordinationv1.Lease, now time.Time) bool {
	renewed, seconds := lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds
	if renewed == nil || seconds == nil || now.Sub(renewed.Time) < -leaseTolerance {
		return false
	}
	return now.Sub(renewed.Time) <= time.Duration(*seconds)*time.Second
}

// TestLeaseOfUnreadable: what cannot be read has T of its step, which status names (spec
// 14.5).
func TestLeaseOfUnreadable(t *testing.T) {
	t.Parallel()
	steps := []Step{
		{Order: 1, Reference: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "FirstTemplate", Namespace: "a", Name: "one"}, Timeout: time.Minute},
		{Order: 2, Reference: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "SecondTemplate", Namespace: "a", Name: "two"}, Timeout: time.Hour},
	}
	recorded := func(kind, template string) v1alpha1.Remediation {
		return v1alpha1.Remediation{Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind, Namespace: "a", Name: "n"}, TemplateName: template}
	}
	require.Equal(t, 0, recordedStep(steps, "n", new(recorded("First", "one"))))
	require.Equal(t, -1, recordedStep(steps, "n", new(recorded("First", "two"))))
	require.Equal(t, -1, recordedStep(steps, "n", new(recorded("Third", "one"))))
	require.Equal(t, 1, recordedStep(steps, "n", new(recorded("Second", ""))), "1.4 by its name, as other software creates it")
	require.Equal(t, -1, recordedStep(steps, "m", new(recorded("Second", ""))))
	p := &planner{Policy: &Policy{Steps: steps}, NodePlan: NodePlan{Node: &Node{}}, progress: progress{reached: -1}}
	require.Equal(t, v1alpha1.ClassicDuration, p.renewalDuration(), "of no step")
	p.Node.Unreadable = []v1alpha1.Remediation{recorded("First", "one"), recorded("Second", "two")}
	require.Equal(t, time.Hour, p.renewalDuration())
}
