// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	const mark = "mark n at 01:00:00"
	unreadable := func(n *Node) { n.Unreadable = []v1alpha1.Remediation{{}} }
	retryAt := func(at time.Time) func(*Node) { return func(n *Node) { n.RetryAt = at } }
	now := epoch.Add(time.Hour)
	tests := map[string]struct {
		node    Node
		want    []string
		refusal v1alpha1.DecisionReason
	}{
		"8.4 an unhealthy node gets its CR":                     {node: sick("n"), want: []string{"lease node-n", "confirm", "create n"}},
		"12.3 a control plane node gets its CR as well":         {node: sick("n", func(n *Node) { n.ControlPlane = true }), want: []string{"lease node-n", "confirm", "create n"}},
		"7.3 a healthy node gets none":                          {node: sick("n", well)},
		"7.5 a soon-unhealthy node gets none":                   {node: sick("n", soon)},
		"7.5 nor is its CR deleted":                             {node: sick("n", soon, with(cr("n")))},
		"7.5 nor told to stop while it is deleted":              {node: sick("n", soon, with(cr("n", deleting)))},
		"11.2 a CR is only read while the node is unhealthy":    {node: sick("n", with(cr("n")))},
		"13.7 classic: a failure has no effect":                 {node: sick("n", with(cr("n", failed)))},
		"11.2 nor has a success":                                {node: sick("n", with(cr("n", succeeded)))},
		"6.8 what cannot be read counts as existing":            {node: sick("n", unreadable)},
		"6.8 nor is it deleted":                                 {node: sick("n", well, unreadable)},
		"11.6 a CR that is being deleted is waited for":         {node: sick("n", with(cr("n", deleting, timedOut)))},
		"13.8 and told to stop, once":                           {node: sick("n", with(cr("n", deleting))), want: []string{mark}},
		"13.8 also if its deletion was only requested":          {node: sick("n", with(cr("n")), requested("n-uid")), want: []string{mark}},
		"13.8 also a failed one":                                {node: sick("n", with(cr("n", deleting, failed))), want: []string{mark}},
		"13.8 never a successful one":                           {node: sick("n", with(cr("n", deleting, succeeded)))},
		"11.6 what vanished is replaced":                        {node: sick("n", requested("n-uid")), want: []string{"lease node-n", "confirm", "create n"}},
		"16.1 recovery deletes all own CRs":                     {node: sick("n", well, with(cr("n"), cr("m", timedOut), cr("o", succeeded))), want: []string{"confirm", "delete n", "delete m", "delete o"}},
		"16.1 those already being deleted are left alone":       {node: sick("n", well, with(cr("n", deleting), cr("m")), requested("x")), want: []string{"confirm", "delete m"}},
		"16.1 nor is a request repeated":                        {node: sick("n", well, with(cr("n"), cr("m")), requested("n-uid")), want: []string{"confirm", "delete m"}},
		"16.1 foreign CRs stay":                                 {node: sick("n", well, near(cr("n", foreign)))},
		"17.5 healthy though no longer selected":                {node: sick("n", well, with(cr("n")), under(func(c *Constraints) { c.Unselected = true })), want: []string{"confirm", "delete n"}},
		"17.5 unhealthy and no longer selected: the CR stays":   {node: sick("n", with(cr("n")), under(func(c *Constraints) { c.Unselected = true }))},
		"17.5 and no new one follows":                           {node: sick("n", under(func(c *Constraints) { c.Unselected = true })), refusal: v1alpha1.DecidedUnselected},
		"5.2 recovery ignores everything that blocks":           {node: sick("n", well, with(cr("n")), under(everythingElse)), want: []string{"confirm", "delete n"}},
		"15.3 excluded while under remediation: the CR stays":   {node: sick("n", with(cr("n")), under(func(c *Constraints) { c.Excluded = true }))},
		"17.2 Node deleted: told to stop first, then deleted":   {node: sick("n", gone, with(cr("n"))), want: []string{"confirm", mark, "delete n"}},
		"17.2 all of them":                                      {node: sick("n", gone, with(cr("n", timedOut), cr("m", succeeded))), want: []string{"confirm", "delete n", "delete m"}},
		"5.2 cleaning up ignores everything that blocks":        {node: sick("n", gone, with(cr("n")), under(everythingElse)), want: []string{"confirm", mark, "delete n"}},
		"17.2 on its way already: only told to stop":            {node: sick("n", gone, with(cr("n", deleting))), want: []string{mark}},
		"17.2 request made, not seen yet":                       {node: sick("n", gone, with(cr("n", timedOut)), requested("n-uid"))},
		"17.3 a replacement is on its way":                      {node: sick("n", gone, with(cr("n", awaitsDelete)))},
		"17.3 also after a failure":                             {node: sick("n", gone, with(cr("n", awaitsDelete, failed)))},
		"17.3 until it has succeeded":                           {node: sick("n", gone, with(cr("n", awaitsDelete, succeeded))), want: []string{"confirm", "delete n"}},
		"17.3 each CR for itself":                               {node: sick("n", gone, with(cr("m", awaitsDelete), cr("n"))), want: []string{"confirm", mark, "delete n"}},
		"17.3 the expectation may be Unknown":                   {node: sick("n", gone, with(cr("n", func(c *object.CR) { c.PermanentNodeDeletionExpected = "Unknown" }))), want: []string{"confirm", mark, "delete n"}},
		"13.8 17.3 deleted by others meanwhile":                 {node: sick("n", gone, with(cr("n", awaitsDelete, deleting))), want: []string{mark}},
		"17.4 nothing of ours is left of a deleted Node":        {node: sick("n", gone)},
		"17.2 what cannot be read cannot be cleaned up":         {node: sick("n", gone, unreadable)},
		"P1 a failed attempt is not repeated before its time":   {node: sick("n", retryAt(now.Add(1))), refusal: v1alpha1.DecidedUpdateFailed},
		"P1 but at its time":                                    {node: sick("n", retryAt(now)), want: []string{"lease node-n", "confirm", "create n"}},
		"P1 a deletion waits as well, and is no refusal":        {node: sick("n", well, with(cr("n")), retryAt(now.Add(1)))},
		"5.4 the circumstance is reported rather than the wait": {node: sick("n", retryAt(now.Add(1)), under(func(c *Constraints) { c.Paused = true })), refusal: v1alpha1.DecidedPaused},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(tc.node, now)
			require.Equal(t, tc.want, describe(plan.Actions))
			require.Equal(t, tc.refusal, plan.Refusal())
			require.Nil(t, plan.Blocker)
			require.Equal(t, tc.node, *plan.Node)
		})
	}
}

// TestPlanOfADryRun: what runs is finished, and nothing begins or ends by time (spec 5.7).
func TestPlanOfADryRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node Node
		want []string
	}{
		"5.7 the CRs of a recovered node are deleted": {sick("n", well, with(soft(timedOut), fence())), []string{"confirm", "delete soft", "delete fence"}},
		"5.7 those of a deleted Node as well":         {sick("n", gone, with(soft(timedOut))), []string{"confirm", "delete soft"}},
		"5.7 a step that is over is not ended":        {sick("n", with(soft())), nil},
		"5.7 nor the last one":                        {sick("n", with(soft(timedOut), fence(timedOut), hard())), nil},
		"5.7 no next step begins":                     {sick("n", with(soft(timedOut))), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := planBy(dryRun(escalation()), tc.node, epoch.Add(time.Hour))
			require.Equal(t, tc.want, describe(plan.Actions))
		})
	}
}

// everythingElse sets everything that blocks, except what keeps the controller from doing
// anything at all.
func everythingElse(c *Constraints) {
	deleted := c.NodeDeleted
	for _, column := range columns {
		column.set(c)
	}
	c.NodeDeleted, c.Conflict = deleted, false
}

// Under a conflict nothing is written, whatever the node is like.
func TestPlanUnderConflict(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]Node{
		"6.7 unhealthy":            sick("n"),
		"6.7 with a lease":         sick("n", leased(held(ours, epoch.Add(-time.Hour)))),
		"6.7 under remediation":    sick("n", with(cr("n")), leased(held(ours, epoch.Add(-time.Hour)))),
		"6.7 overdue":              sick("n", with(cr("n")), leased(held(ours, epoch, acquired(epoch.Add(-time.Hour))))),
		"6.7 deleted by others":    sick("n", with(cr("n", deleting))),
		"6.7 recovered":            sick("n", well, with(cr("n")), leased(held(ours, epoch))),
		"6.7 confirmed by hand":    sick("n", well, func(n *Node) { n.ConfirmedHealthy = true }),
		"6.7 a lease that is left": sick("n", well, leased(held(ours, epoch))),
		"6.7 the Node is deleted":  sick("n", gone, with(cr("n")), leased(held(ours, epoch))),
		"6.7 and nothing stays":    sick("n", gone, with(cr("n", deleting))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node.Constraints.Conflict = true
			require.Empty(t, describe(planFor(node, epoch).Actions), "CRs, leases and node annotations stay as they are")
			require.Empty(t, describe(planBy(escalation(), node, epoch).Actions))
		})
	}
}

// Where the templates cannot be used there may be none.
func TestPlanWithoutTemplate(t *testing.T) {
	t.Parallel()
	unusable := under(func(c *Constraints) { c.TemplatesUnusable = true })
	plan := planBy(classicPolicy(nil), sick("n", unusable), epoch)
	require.Empty(t, plan.Actions)
	require.Equal(t, v1alpha1.DecidedDisabled, plan.Refusal(), "6.7: nothing is started")
	plan = planBy(classicPolicy(nil), sick("n", well, with(cr("n")), unusable), epoch)
	require.Equal(t, []string{"confirm", "delete n"}, describe(plan.Actions), "6.7: running remediations finish")
	none := &Policy{Owner: object.OwnerOf(check())}
	plan = planBy(none, sick("n", under(func(c *Constraints) { c.InvalidSpec = true })), epoch)
	require.Equal(t, v1alpha1.DecidedInvalidSpec, plan.Refusal(), "4.7: a stored spec without templates")
	require.False(t, plan.Exhausted)
}

// The CR to create is the rendered one.
func TestPlanIsCarriedOutAsRendered(t *testing.T) {
	t.Parallel()
	plan := planFor(sick("n"), epoch)
	require.Len(t, plan.Actions, 3)
	require.Equal(t, Create{Object: rendered(sick("n"), reboot())}, plan.Actions[2], "11.1 14.2: the lease comes first")
}

func TestPlanBlockedByForeignCR(t *testing.T) {
	t.Parallel()
	const hashed = "n-92b241e8"
	tests := map[string]struct {
		foreign  *object.CR
		multiple bool
		blocks   bool
	}{
		"11.4 it has the name that is needed":                       {foreign: cr("n", foreign), blocks: true},
		"11.4 even for another node and template":                   {foreign: cr("n", foreign, forNode("m"), from("fence")), blocks: true},
		"11.4 even our own, for another node":                       {foreign: cr("n", forNode("m")), blocks: true},
		"11.4 even while it is being deleted":                       {foreign: cr("n", foreign, deleting), blocks: true},
		"11.4 same node and template, another name":                 {foreign: cr("x", foreign, forNode("n"), from("reboot")), blocks: true},
		"11.4 same node and template, hashed names":                 {foreign: cr("x", foreign, forNode("n"), from("reboot")), multiple: true, blocks: true},
		"11.4 hashed name that is needed":                           {foreign: cr(hashed, foreign, forNode("m")), multiple: true, blocks: true},
		"1.4 no template annotation, named like the node":           {foreign: cr("n", foreign), multiple: true, blocks: true},
		"1.4 same node, another template":                           {foreign: cr("x", foreign, forNode("n"), from("fence"))},
		"1.4 same node, another template, although named like it":   {foreign: cr("n", foreign, from("fence")), multiple: true},
		"1.4 no template annotation, another name: of no template":  {foreign: cr("x", foreign, forNode("n"))},
		"1.4 another node":                                          {foreign: cr("x", foreign, forNode("m"), from("reboot"))},
		"P9 another kind, the same name":                            {foreign: cr("n", foreign, ofKind("FenceRemediation"))},
		"P9 another group, the same kind and name":                  {foreign: cr("n", foreign, ofGroup("example.org/v1"))},
		"P9 another version of the same kind is the same object":    {foreign: cr("n", foreign, ofGroup("example.com/v2")), blocks: true},
		"1.4 the same kind and template name, in another namespace": {foreign: cr("x", foreign, forNode("n"), from("reboot"), inNamespace("other"))},
		"P9 another namespace, the same name":                       {foreign: cr("n", foreign, inNamespace("other"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := reboot()
			if tc.multiple {
				supportsMultiple(template)
			}
			plan := planBy(classicPolicy(template), sick("n", near(cr("unrelated", foreign, forNode("z")), tc.foreign)), epoch)
			if tc.blocks {
				require.Empty(t, plan.Actions, "14.2: nor is there a lease")
				require.Equal(t, v1alpha1.DecidedForeignRemediation, plan.Refusal())
				require.Same(t, tc.foreign, plan.Blocker)
				return
			}
			require.True(t, begins(plan))
			require.Empty(t, plan.Refusal())
			require.Nil(t, plan.Blocker)
		})
	}
}

func begins(plan NodePlan) bool {
	return slices.ContainsFunc(plan.Actions, func(action Action) bool { _, ok := action.(Create); return ok })
}

// TestPlanRefusals: the first refusal is the one reported.
func TestPlanRefusals(t *testing.T) {
	t.Parallel()
	takenLease := held("NodeHealthCheck-others", epoch)
	combinations(func(c Constraints, refusal v1alpha1.DecisionReason, _ Permissions) {
		if c.NodeDeleted {
			return
		}
		node := sick("n", near(cr("n", foreign)), func(n *Node) { n.ControlPlane, n.Lease = true, takenLease })
		node.Constraints = c
		if refusal == "" {
			refusal = v1alpha1.DecidedControlPlaneBusy
		}
		plan := planWithheld(classicPolicy(reboot()), node, v1alpha1.DecidedControlPlaneBusy, epoch)
		require.Equal(t, refusal, plan.Refusal(), "5.4 %+v", c)
		require.Equal(t, refusal == v1alpha1.DecidedControlPlaneBusy, plan.Blocker != nil, "what would be refused next")
		require.Empty(t, plan.Actions)
	})
	free := sick("n", near(cr("n", foreign)), func(n *Node) { n.Lease = takenLease })
	require.Equal(t, v1alpha1.DecidedForeignRemediation, planFor(free, epoch).Refusal(), "5.4 12.2: no control plane node, so the foreign CR is next")
	free.Foreign = nil
	require.Equal(t, v1alpha1.DecidedLeaseTaken, planFor(free, epoch).Refusal(), "5.4: the lease is last")
	free.Lease = nil
	require.Empty(t, planFor(free, epoch).Refusal())
}

// A refusal that may end without an event is looked at again within a minute.
func TestPlanRechecksRefusals(t *testing.T) {
	t.Parallel()
	plan := planWithheld(classicPolicy(reboot()), sick("n"), v1alpha1.DecidedControlPlaneBusy, epoch)
	require.Equal(t, epoch.Add(time.Minute), plan.Recheck, "12.4")
	plan = planFor(sick("n", func(n *Node) { n.Lease = held("NodeHealthCheck-others", epoch) }), epoch)
	require.Equal(t, epoch.Add(time.Minute), plan.Recheck, "14.3")
	plan = planFor(sick("n", leased(held("NodeHealthCheck-others", epoch, lasting(20)))), epoch)
	require.Equal(t, epoch.Add(20*time.Second+1), plan.Recheck, "14.3: within 1 min, but as soon as it is in the past")
	require.Equal(t, []string{"lease node-n", "confirm", "create n"}, describe(planFor(*plan.Node, plan.Recheck).Actions), "14.4")
	plan = planFor(sick("n", leased(held("", epoch, noHolder, lasting(20)))), epoch)
	require.Equal(t, epoch.Add(20*time.Second+1), plan.Recheck, "14.3: without holder it counts as foreign")
	plan = planWithheld(classicPolicy(reboot()), sick("n"), v1alpha1.DecidedEtcdQuorum, epoch)
	require.Equal(t, v1alpha1.DecidedEtcdQuorum, plan.Refusal(), "12.3")
	require.Equal(t, epoch.Add(time.Minute), plan.Recheck, "12.4")
	upgrading := under(func(c *Constraints) { c.Upgrading = true })
	plan = planFor(sick("n", upgrading), epoch)
	require.Equal(t, epoch.Add(time.Minute), plan.Recheck, "10.3")
	overdue := held(ours, epoch, acquired(epoch.Add(-time.Hour)))
	plan = planFor(sick("n", with(cr("n")), leased(overdue), upgrading), epoch)
	require.Empty(t, plan.Actions, "5.2 10.2: no timeout is acted on")
	require.Equal(t, epoch.Add(time.Minute), plan.Recheck, "10.3: nor is it forgotten")
}

// TestPlanWaitsForMachine: a CR gets its owners when it is created, so a Machine that
// cannot be read is waited for, and not for ever (spec 11.3).
func TestPlanWaitsForMachine(t *testing.T) {
	t.Parallel()
	deadline := epoch.Add(30 * time.Second)
	begin := []string{"lease node-n", "confirm", "create n"}
	for name, tc := range map[string]struct {
		machines Machines
		group    string
		now      time.Time
		want     []string
	}{
		"11.3 it would own the CR":                         {machines: Machines{UnreadOpenShift: testNamespace}, now: deadline.Add(-1)},
		"11.3 not for ever":                                {machines: Machines{UnreadOpenShift: testNamespace}, now: deadline, want: begin},
		"11.3 in another namespace it would not":           {machines: Machines{UnreadOpenShift: "other"}, now: epoch, want: begin},
		"11.3 of Cluster API, for a kind of its own group": {machines: Machines{UnreadClusterAPI: testNamespace}, group: infrastructureGroup, now: epoch},
		"11.3 of Cluster API, for another group":           {machines: Machines{UnreadClusterAPI: testNamespace}, now: epoch, want: begin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := classicPolicy(reboot(func(template *object.Template) {
				if tc.group != "" {
					template.APIVersion = tc.group + "/v1"
				}
			}))
			plan := planBy(s, sick("n", func(n *Node) { n.Machines = new(tc.machines); n.Machines.Deadline = deadline }), tc.now)
			require.Equal(t, tc.want, describe(plan.Actions))
			if tc.want == nil {
				require.Equal(t, v1alpha1.DecidedMachineUnreadable, plan.Refusal())
				require.Equal(t, deadline, plan.Recheck, "P2")
			}
		})
	}
}

// TestPlanByAnUntrustedClock: nothing begins, no step ends; what ends by itself goes on.
func TestPlanByAnUntrustedClock(t *testing.T) {
	t.Parallel()
	untrusted := under(func(c *Constraints) { c.ClockUntrusted = true })
	plan := planFor(sick("n", untrusted), epoch)
	require.Equal(t, v1alpha1.DecidedClockUntrusted, plan.Refusal())
	require.Empty(t, plan.Actions)
	overdue := held(ours, epoch, acquired(epoch.Add(-time.Hour)))
	plan = planFor(sick("n", with(cr("n")), leased(overdue), untrusted), epoch)
	require.Equal(t, v1alpha1.DecidedClockUntrusted, plan.Reason)
	require.Empty(t, plan.Actions, "the step does not end")
	plan = planFor(sick("n", well, with(cr("n")), untrusted), epoch)
	require.Equal(t, []string{"confirm", "delete n"}, describe(plan.Actions), "16.1")
	plan = planFor(sick("n", gone, with(cr("n")), untrusted), epoch)
	require.Contains(t, describe(plan.Actions), "delete n", "17.2")
}

func TestDeletionRequestedIsByUID(t *testing.T) {
	t.Parallel()
	namesake := cr("n", func(c *object.CR) { c.UID = "of-the-next-life" })
	plan := planFor(sick("n", well, with(namesake), requested(types.UID("n-uid"))), epoch)
	require.Equal(t, []string{"confirm", "delete n"}, describe(plan.Actions), "P9")
}

func TestPlanHealthyDelay(t *testing.T) {
	t.Parallel()
	confirmed := func(n *Node) { n.ConfirmedHealthy = true }
	since := func(at time.Time) func(*Node) { return func(n *Node) { n.HealthySince = at } }
	remove := []string{"confirm", "delete n"}
	tests := map[string]struct {
		delay   *metav1.Duration
		node    Node
		now     time.Time
		want    []string
		delayed bool
		recheck time.Time
	}{
		"16.4 none: at once":                                   {node: sick("n", well, with(cr("n"))), now: epoch, want: remove},
		"16.4 zero: at once":                                   {delay: new(metav1.Duration{}), node: sick("n", well, with(cr("n"))), now: epoch, want: remove},
		"16.4 positive: first seen healthy now":                {delay: minutes(5), node: sick("n", well, with(cr("n"))), now: epoch.Add(500 * time.Millisecond), delayed: true, recheck: epoch.Add(5 * time.Minute)},
		"16.4 positive: from the timestamp on":                 {delay: minutes(5), node: sick("n", well, with(cr("n")), since(epoch)), now: epoch.Add(5*time.Minute - 1), delayed: true, recheck: epoch.Add(5 * time.Minute)},
		"16.4 positive: over":                                  {delay: minutes(5), node: sick("n", well, with(cr("n")), since(epoch)), now: epoch.Add(5 * time.Minute), want: remove},
		"16.5 extended: the current value applies":             {delay: minutes(9), node: sick("n", well, with(cr("n")), since(epoch)), now: epoch.Add(5 * time.Minute), delayed: true, recheck: epoch.Add(9 * time.Minute)},
		"16.5 shortened":                                       {delay: minutes(1), node: sick("n", well, with(cr("n")), since(epoch)), now: epoch.Add(5 * time.Minute), want: remove},
		"16.4 negative: never":                                 {delay: minutes(-1), node: sick("n", well, with(cr("n")), since(epoch)), now: epoch.Add(1000 * time.Hour), delayed: true},
		"16.6 confirmed by hand: the request comes first":      {delay: minutes(5), node: sick("n", well, confirmed, with(cr("n")), since(epoch)), now: epoch, want: remove},
		"16.6 also a negative delay":                           {delay: minutes(-1), node: sick("n", well, confirmed, with(cr("n"))), now: epoch, want: remove},
		"16.6 the annotation stays while a CR is left":         {node: sick("n", well, confirmed, with(cr("n", deleting))), now: epoch},
		"16.6 and goes with the last one":                      {node: sick("n", well, confirmed), now: epoch, want: []string{"unconfirm n"}},
		"16.6 also of another NHC":                             {node: sick("n", well, confirmed, func(n *Node) { n.OthersRemediate = true }), now: epoch},
		"16.6 6.8 what cannot be read may be left":             {node: sick("n", well, confirmed, func(n *Node) { n.Unreadable = []v1alpha1.Remediation{{}} }), now: epoch},
		"16.6 no effect while the node is unhealthy":           {delay: minutes(5), node: sick("n", confirmed, with(cr("n"))), now: epoch},
		"16.6 nor while it is soon-unhealthy":                  {delay: minutes(5), node: sick("n", soon, confirmed, with(cr("n"))), now: epoch},
		"16.1 a delay does not hold up what goes by itself":    {delay: minutes(5), node: sick("n", well, with(cr("n", deleting))), now: epoch},
		"16.4 17.2 there is no delay for a deleted Node's CRs": {delay: minutes(5), node: sick("n", gone, with(cr("n", timedOut))), now: epoch, want: remove},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := classicPolicy(reboot())
			if tc.delay != nil {
				s.HealthyDelay = tc.delay.Duration
			}
			plan := planBy(s, tc.node, tc.now)
			require.Equal(t, tc.want, describe(plan.Actions))
			require.Equal(t, tc.delayed, plan.Delayed)
			require.Equal(t, tc.recheck, plan.Recheck, "P2")
		})
	}
}

func minutes(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Minute}
}
