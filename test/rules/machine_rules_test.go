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
	for name, tc := range map[string]struct {
		last, made, deleted time.Duration
		otherProcess        bool
		broken              bool
	}{
		"M14.3 of the last round":         {last: 10 * time.Second, made: 5 * time.Second, deleted: time.Minute},
		"M14.2 made after it, and young":  {last: 10 * time.Second, made: 11 * time.Second, deleted: time.Minute, broken: true},
		"M14.2 made after it, old enough": {last: 10 * time.Second, made: 11 * time.Second, deleted: 6 * time.Minute},
		"M14.3 that was long ago":         {last: 10 * time.Second, made: 61 * time.Minute, deleted: 62 * time.Minute},
		"M14.4 by another process":        {last: 10 * time.Second, made: 11 * time.Second, deleted: time.Minute, otherProcess: true},
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
