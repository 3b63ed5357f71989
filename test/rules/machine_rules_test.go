// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	first, none := &Rounds{Count: 1, Last: at(10)}, (*Rounds)(nil)
	for name, tc := range map[string]struct {
		rounds track[Rounds]
		made   time.Time
		broken string
	}{
		"M14.3 of the last round":                {track[Rounds]{{rv: 1, seen: at(10), object: first}}, at(5), ""},
		"M14.3 made after it":                    {track[Rounds]{{rv: 1, seen: at(10), object: first}}, at(11), "M14.3"},
		"M14.4 there was none":                   {nil, at(5), "M14.4"},
		"M14.4 they were forgotten long ago":     {track[Rounds]{{rv: 1, seen: at(10), object: first}, {rv: 2, seen: at(20), object: none}}, at(5), "M14.4"},
		"M14.4 another sync forgets them":        {track[Rounds]{{rv: 1, seen: at(10), object: first}, {rv: 2, seen: at(35), object: none}}, at(5), ""},
		"M14.3 another sync forgets, made later": {track[Rounds]{{rv: 1, seen: at(10), object: first}, {rv: 2, seen: at(35), object: none}}, at(11), "M14.3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := NewJudge(Config{})
			j.rounds["owner"], j.backOff = tc.rounds, BackOff{Base: 5 * time.Minute, Cap: 20 * time.Minute}
			found := j.oldEnough(beginning{window: window{known: at(30), rv: 9, at: at(40)}}, &Machine{Owner: "owner", Phase: "Failed", Created: tc.made})
			require.Equal(t, tc.broken != "", found.text != "", "%v", found)
			if tc.broken != "" {
				require.Equal(t, tc.broken, found.rule)
			}
		})
	}
}
