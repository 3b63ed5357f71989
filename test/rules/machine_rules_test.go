// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// checkOf returns a MachineHealthCheck of Machines whose Node is not Ready for a minute.
func checkOf(change ...func(*v1beta1.MachineHealthCheck)) *MHC {
	object := &v1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "check"}}
	object.Spec.UnhealthyConditions = []v1beta1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: "1m"}}
	for _, c := range change {
		c(object)
	}
	return NewMHC(object)
}

func TestMachineThreshold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ targets, limit int }{
		"50%": {10, 5}, "40%": {7, 2}, "49%": {3, 1}, "0%": {5, 0}, "1": {3, 1}, "9": {5, 9},
	} {
		m := checkOf(func(c *v1beta1.MachineHealthCheck) {
			c.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(new(intstr.Parse(text)))
		})
		limit, valid := m.limit(want.targets)
		require.True(t, valid)
		require.Equal(t, want.limit, limit, "M7.2 %s of %d", text, want.targets)
		require.True(t, machineCounts{targetsMax: want.targets, unhealthyMin: want.limit}.mayAllow(m), "M7.1 %s", text)
		require.False(t, machineCounts{targetsMax: want.targets, unhealthyMin: want.limit + 1}.mayAllow(m), "M7.1 %s", text)
	}
}

func TestMachineCriteria(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := func(status corev1.ConditionStatus, since time.Duration) *Node {
		return &Node{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-since))}}}
	}
	young, old := now.Add(-time.Minute), now.Add(-10*time.Minute)
	for name, tc := range map[string]struct {
		machine Machine
		node    *Node
		trigger string
		state   MachineState
	}{
		"failed":       {Machine{Phase: "Failed", Created: young}, nil, v1beta1.TriggerMachineFailed, MachineUnhealthy},
		"missing":      {Machine{Node: "n", Created: young}, nil, v1beta1.TriggerNodeMissing, MachineUnhealthy},
		"late":         {Machine{Created: old}, nil, v1beta1.TriggerNodeStartupTimeout, MachineUnhealthy},
		"not yet":      {Machine{Created: young}, nil, "", MachineNotStarted},
		"changed":      {Machine{Created: old, Updated: young}, nil, "", MachineNotStarted},
		"not ready":    {Machine{Node: "n"}, node(corev1.ConditionUnknown, time.Minute), v1beta1.TriggerUnhealthyCondition, MachineUnhealthy},
		"soon":         {Machine{Node: "n"}, node(corev1.ConditionUnknown, time.Second), "", MachineSoonUnhealthy},
		"healthy":      {Machine{Node: "n"}, node(corev1.ConditionTrue, time.Second), "", MachineHealthy},
		"deleting":     {Machine{Node: "n", Deleting: true}, node(corev1.ConditionTrue, time.Second), "", MachineDeleting},
		"under repair": {Machine{Node: "n", Annotations: map[string]string{v1beta1.AnnotationExternalRemediation: ""}}, node(corev1.ConditionTrue, time.Second), "", MachineUnderRemediation},
	} {
		require.Equal(t, tc.trigger, checkOf().criterion(&tc.machine, tc.node, now), "M6.2 %s", name)
		require.Equal(t, tc.state, checkOf().State(&tc.machine, tc.node, false, now), "M6.1 %s", name)
	}
}

func TestBrokenMachineHealthChecks(t *testing.T) {
	t.Parallel()
	require.False(t, checkOf().broken)
	for name, change := range map[string]func(*v1beta1.MachineHealthCheck){
		"maxUnhealthy": func(c *v1beta1.MachineHealthCheck) {
			c.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(new(intstr.FromString("many")))
		},
		"timeout": func(c *v1beta1.MachineHealthCheck) { c.Spec.UnhealthyConditions[0].Timeout = "" },
		"startup": func(c *v1beta1.MachineHealthCheck) { c.Spec.NodeStartupTimeout = new("-1m") },
		"strategy": func(c *v1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{v1beta1.AnnotationRemediationStrategy: "x"}
		},
		"API": func(c *v1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{v1beta1.AnnotationMachineAPI: "x"}
		},
		"template": func(c *v1beta1.MachineHealthCheck) {
			c.Spec.RemediationTemplate = &corev1.ObjectReference{Kind: "Template"}
		},
	} {
		require.True(t, checkOf(change).broken, "M3.4 %s", name)
	}
}

// TestChecksOfEachAPI: a MachineHealthCheck is about Machines of one API, which begin to start when their status says so.
func TestChecksOfEachAPI(t *testing.T) {
	t.Parallel()
	const updated = "2026-01-01T00:00:00Z"
	apis := map[string]map[string]any{
		v1beta1.MachineAPIOpenShift: {"lastUpdated": updated},
		v1beta1.MachineAPICluster:   {"conditions": []any{map[string]any{"type": "InfrastructureReady", "status": "True", "lastTransitionTime": updated}}},
	}
	for api := range apis {
		check := checkOf(func(c *v1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{v1beta1.AnnotationMachineAPI: api}
		})
		require.False(t, check.broken)
		handsOver := checkOf(func(c *v1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{v1beta1.AnnotationMachineAPI: api, v1beta1.AnnotationRemediationStrategy: v1beta1.StrategyExternalBaremetal}
		})
		require.Equal(t, api == v1beta1.MachineAPICluster, handsOver.broken, "M3.4")
		for of, status := range apis {
			machine := parseMachine(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": of + "/v1", "kind": "Machine", "metadata": map[string]any{"namespace": "ns", "name": "m"}, "status": status,
			}})
			require.Equal(t, of == api, check.Selects(machine), "M5.2 %s for %s", of, api)
			require.Equal(t, updated, machine.Updated.Format(time.RFC3339), "M6.3 %s", of)
		}
	}
}

func TestOnlyKeysOfMachines(t *testing.T) {
	t.Parallel()
	machine := func(annotation, label string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetAnnotations(map[string]string{annotation: ""})
		object.SetLabels(map[string]string{label: ""})
		return object
	}
	before := machine("x", "l")
	require.Empty(t, onlyKeys(machine(v1beta1.AnnotationExternalRemediation, "l"), machine(v1beta1.AnnotationRemediationStrategy, "l")).text)
	require.NotEmpty(t, onlyKeys(before, machine("y", "l")).text, "M20.3: another annotation")
	require.NotEmpty(t, onlyKeys(before, machine("x", "m")).text, "M20.3: a label")
}

func TestHistoryKept(t *testing.T) {
	t.Parallel()
	at := func(minute int) *metav1.Time {
		return new(metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)))
	}
	entry := func(change func(*v1beta1.Remediation)) v1beta1.Remediation {
		e := v1beta1.Remediation{Machine: "m", Detected: *at(1), Started: at(2), RemediationType: v1beta1.RemediationMachineDeletion}
		if change != nil {
			change(&e)
		}
		return e
	}
	with := func(entries ...v1beta1.Remediation) *MHC {
		return checkOf(func(c *v1beta1.MachineHealthCheck) { c.Status.RemediationHistory = entries })
	}
	finished := entry(func(e *v1beta1.Remediation) { e.Finished = at(3) })
	for name, tc := range map[string]struct {
		before, after *MHC
		broken        bool
	}{
		"it finishes":          {with(entry(nil)), with(finished), false},
		"it finishes again":    {with(finished), with(entry(func(e *v1beta1.Remediation) { e.Finished = at(4) })), true},
		"it is open again":     {with(finished), with(entry(nil)), true},
		"deleted twice":        {with(finished), with(finished, entry(func(e *v1beta1.Remediation) { e.Started = at(5) })), true},
		"open twice":           {with(), with(entry(nil), entry(func(e *v1beta1.Remediation) { e.RemediationType = v1beta1.RemediationExternal })), true},
		"ended, never started": {with(), with(entry(func(e *v1beta1.Remediation) { e.Started, e.Closed = nil, at(3) })), true},
	} {
		require.Equal(t, tc.broken, broken(historyKept(tc.before, tc.after)), "M16.2 %s", name)
	}
}

func TestOldEnough(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last, made, deleted time.Duration
		otherProcess        bool
		broken              bool
	}{
		"M14.3 of the last round":         {last: 10 * time.Second, made: 5 * time.Second, deleted: time.Minute},
		"M14.2 made after it, and young":  {last: 10 * time.Second, made: 11 * time.Second, deleted: time.Minute, broken: true},
		"M14.2 made after it, old enough": {last: 10 * time.Second, made: 11 * time.Second, deleted: 6 * time.Minute},
		"M14.3 that was long ago":         {last: 10 * time.Second, made: 61 * time.Minute, deleted: 62 * time.Minute},
		"M14.4 of which it does not know": {last: 10 * time.Second, made: 11 * time.Second, deleted: time.Minute, otherProcess: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := NewJudge(Config{})
			j.rounds["owner"], j.backOff = []round{{1, epoch.Add(tc.last)}}, BackOff{Base: 5 * time.Minute, Cap: 20 * time.Minute}
			if tc.otherProcess {
				j.terms = append(j.terms, epoch.Add(tc.last+time.Second))
			}
			at := epoch.Add(tc.deleted)
			found := j.oldEnough(beginning{window: window{known: at, rv: 9, at: at}}, &Machine{Owner: "owner", Phase: "Failed", Created: epoch.Add(tc.made)})
			require.Equal(t, tc.broken, found.text != "", "%v", found)
		})
	}
}

// TestStepHasTheOlderCR: of two CRs of one step the older one counts, and some order has to be among those
// of the same second.
func TestStepHasTheOlderCR(t *testing.T) {
	t.Parallel()
	first, second := &CR{UID: "b", Created: at(1)}, &CR{UID: "a", Created: at(2)}
	require.True(t, first.olderThan(second), "11.8")
	require.False(t, second.olderThan(first), "11.8")
	twin := &CR{UID: "c", Created: at(1)}
	require.True(t, first.olderThan(twin))
	require.False(t, twin.olderThan(first))
}

// TestMachineDeletedBeforeItsNode: a Machine that was being deleted when its Node appeared.
func TestMachineDeletedBeforeItsNode(t *testing.T) {
	t.Parallel()
	deleting := &Machine{Node: "n", Deleting: true, DeletionRequested: at(10)}
	require.False(t, deleting.deletedBefore(nil), "M15.2 it has no Node")
	require.False(t, deleting.deletedBefore(&Node{Created: at(9)}), "M15.2 its Node was there, and has a lease")
	require.True(t, deleting.deletedBefore(&Node{Created: at(10)}), "M15.2")
	require.False(t, (&Machine{Node: "n"}).deletedBefore(&Node{Created: at(10)}), "M15.2 it is not being deleted")
}

// TestCRsOfAFormerCheck: a MachineHealthCheck that was created anew leaves the CRs of the one before.
func TestCRsOfAFormerCheck(t *testing.T) {
	t.Parallel()
	anew := checkOf(func(mhc *v1beta1.MachineHealthCheck) { mhc.CreationTimestamp = metav1.NewTime(at(20)) })
	require.True(t, anew.leaves(&CR{Created: at(10)}), "M3.5")
	require.False(t, anew.leaves(&CR{Created: at(20)}), "M12.5")
}

// TestFormerChecks: garbage collection removes the reference of a CR to a deleted object. That does not make the
// CR foreign.
func TestFormerChecks(t *testing.T) {
	t.Parallel()
	last, cr := &CR{Checks: []string{"ns/east"}, Machine: "ns/m"}, &CR{}
	cr.inheritChecks(last)
	require.Equal(t, &CR{FormerChecks: []string{"ns/east"}, Machine: "ns/m"}, cr)
	next := &CR{}
	next.inheritChecks(cr)
	require.Equal(t, []string{"ns/east"}, next.everChecks(), "M3.5")
}

// TestLeaseSpoiled: if another client has deleted a lease of a MachineHealthCheck, it protects no Node (spec
// 14.8). If the controller gives up a lease too early, that excuses nothing.
func TestLeaseSpoiled(t *testing.T) {
	t.Parallel()
	const machine = "machines/m"
	deleting := func(machine *Machine) bool { return machine.Deleting }
	lease := leaseOf(checkHolderPrefix+"machines/east", 10)
	deletion := Change{Key: "leases/" + lease.Name, ResourceVersion: 3, Time: at(20)}
	for name, tc := range map[string]struct {
		by     *Request
		begins time.Time
		want   bool
	}{
		"by another client":                         {begins: at(10), want: true},
		"by another client, before the remediation": {begins: at(21)},
		"by the controller":                         {by: &Request{}, begins: at(10)},
	} {
		j := NewJudge(Config{})
		add(j.machines, machine, 1, tc.begins, &Machine{Deleting: true})
		j.addLease(deletion.Key, 2, at(10), lease)
		j.judgeLease(deletion, tc.by)
		require.Equal(t, tc.want, j.leaseSpoiled(machine, deleting, window{node: nodeOfLease(lease), known: at(30), rv: 4, at: at(30)}), name)
	}
}

// TestLeaseRanOut: a lease runs out while another controller looks after MachineHealthChecks, and is not
// renewed then (spec M3.5). It lasts until second 310.
func TestLeaseRanOut(t *testing.T) {
	t.Parallel()
	const machine = "machines/m"
	deleting := func(machine *Machine) bool { return machine.Deleting }
	for name, tc := range map[string]struct {
		otherLeads, now time.Time
		want            bool
	}{
		"no other controller":               {now: at(320)},
		"another one when it was to be":     {otherLeads: at(245), now: at(320), want: true},
		"another one long before":           {otherLeads: at(100), now: at(320)},
		"another one, and it has not ended": {otherLeads: at(245), now: at(300)},
	} {
		j := NewJudge(Config{})
		add(j.machines, machine, 1, at(10), &Machine{Deleting: true})
		lease := leaseOf(checkHolderPrefix+"machines/east", 10, lasting(5*time.Minute))
		j.addLease("leases/"+lease.Name, 2, at(10), lease)
		if !tc.otherLeads.IsZero() {
			j.activity.leaders = map[string]track[coordinationv1.Lease]{}
			add(j.activity.leaders, "elsewhere/other", 3, tc.otherLeads, leaseOf("other", tc.otherLeads.Sub(epoch).Seconds(), lasting(time.Minute)))
			add(j.activity.leaders, "elsewhere/other", 4, tc.otherLeads.Add(time.Minute), nil)
		}
		require.Equal(t, tc.want, j.leaseSpoiled(machine, deleting, window{node: nodeOfLease(lease), known: tc.now, rv: 5, at: tc.now}), name)
	}
}

// TestNodeWhenDeleted: a Machine may name another Node while it is being deleted.
func TestNodeWhenDeleted(t *testing.T) {
	t.Parallel()
	j := NewJudge(Config{})
	for i, version := range []*Machine{{Node: "a"}, {Node: "b", Deleting: true}, {Node: "c", Deleting: true}, nil, {Node: "d"}, {Node: "e", Deleting: true}} {
		add(j.machines, "machines/m", uint64(i+1), at(float64(i)), version)
	}
	require.Equal(t, "b", j.nodeWhenDeleted("machines/m", 3))
	require.Equal(t, "e", j.nodeWhenDeleted("machines/m", 6))
}

// TestFormerKind: a process that has started after the template was changed to another kind knows a CR of
// the former kind if status lists it.
func TestFormerKind(t *testing.T) {
	t.Parallel()
	of := func(kind string, listed ...v1beta1.RemediationKind) *MHC {
		return checkOf(func(c *v1beta1.MachineHealthCheck) {
			c.Spec.RemediationTemplate = &corev1.ObjectReference{Kind: kind}
			c.Status.RemediationKinds = listed
		})
	}
	cr := &CR{APIVersion: "example.com/v1", Kind: "Reboot", Namespace: "ns", Name: "m", Machine: "ns/m", Checks: []string{"ns/check"}}
	for name, tc := range map[string]struct {
		changed *MHC
		started bool
		stale   bool
	}{
		"the same kind":                   {of("RebootTemplate"), true, false},
		"no other process":                {of("FenceTemplate"), false, false},
		"M12.5 unlisted":                  {of("FenceTemplate"), true, true},
		"M16.3 listed":                    {of("FenceTemplate", v1beta1.RemediationKind{APIVersion: "example.com/v1", Kind: "Reboot"}), true, false},
		"M16.3 another one listed":        {of("FenceTemplate", v1beta1.RemediationKind{APIVersion: "example.com/v1", Kind: "Fence"}), true, true},
		"M16.3 listed in another version": {of("FenceTemplate", v1beta1.RemediationKind{APIVersion: "example.com/v2", Kind: "Reboot"}), true, true},
	} {
		s := machineFixture()
		s.mhc(at(1), of("RebootTemplate"))
		s.mhc(at(20), tc.changed)
		s.activity.starts = nil
		if tc.started {
			s.activity.starts = []time.Time{at(30)}
		}
		p := &snapshot{history: s.history, rv: s.next(), now: at(40)}
		require.Equal(t, tc.stale, p.stale(cr), name)
	}
}
