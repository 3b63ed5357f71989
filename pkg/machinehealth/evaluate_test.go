// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// observed returns a selected Machine as it was read, with a healthy Node if it names one.
func observed(m *Machine, changes ...func(*Observed)) Observed {
	o := Observed{Machine: m}
	if m.Node != "" {
		o.NodeState = NodeExists
		o.Node = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: m.Node, UID: types.UID(m.Node + "-uid"), Labels: map[string]string{}, Annotations: map[string]string{}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch)}}},
		}
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func nodeNotReady(o *Observed) { o.Node.Status.Conditions[0].Status = corev1.ConditionFalse }
func missing(o *Observed)      { o.Node, o.NodeState = nil, NodeMissing }

// evaluate evaluates these Machines an hour after epoch. A Node has to be Ready again within five minutes.
func evaluate(in *Input, changes ...func(*Policy)) (*Policy, []Target) {
	p := policy(func(p *Policy) {
		p.Criteria.Conditions = []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Duration: metav1.Duration{Duration: 5 * time.Minute}}}
		p.Criteria.MaxUnhealthy = intstr.FromInt32(1)
	})
	for _, change := range changes {
		change(p)
	}
	if in.Lease == nil {
		in.Lease = func(string) *coordinationv1.Lease { return nil }
	}
	in.Seen = func(*corev1.Node) []health.Sighting { return nil }
	return p, p.Evaluate(in, epoch.Add(time.Hour))
}

// TestTargets: a healthy Machine is no target, unless there is something to decide about it: a lease to release,
// a key to remove.
func TestTargets(t *testing.T) {
	t.Parallel()
	m := machine("m")
	for name, tc := range map[string]struct {
		observed Observed
		input    Input
		want     bool
	}{
		"healthy":                 {observed: observed(m)},
		"unhealthy":               {observed: observed(m, nodeNotReady), want: true},
		"its Node is missing":     {observed: observed(m, missing), want: true},
		"without a Node":          {observed: observed(machine("m", noNode)), want: true},
		"under remediation":       {observed: observed(m, func(o *Observed) { o.Own = []*object.CR{cr("m")} }), want: true},
		"being deleted":           {observed: observed(machine("m", deletingMachine)), want: true},
		"no longer selected":      {observed: observed(m, func(o *Observed) { o.Unselected = true }), want: true},
		"deletion requested":      {observed: observed(m), input: Input{DeletionRequested: map[types.UID]bool{"m-uid": true}}, want: true},
		"M11.2 the second key":    {observed: observed(machine("m", secondKey)), want: true},
		"M10.3 its lease is held": {observed: observed(m), input: Input{Held: sets.New("node-m-node")}, want: true},
		"the lease of another":    {observed: observed(m), input: Input{Held: sets.New("node-other")}},
	} {
		tc.input.Observed = []Observed{tc.observed}
		_, targets := evaluate(&tc.input)
		require.Equal(t, tc.want, len(targets) == 1, name)
	}
}

// TestEvaluateCounts: targets that are not selected do not count (spec M7.1).
func TestEvaluateCounts(t *testing.T) {
	t.Parallel()
	p, targets := evaluate(&Input{
		Observed: []Observed{
			observed(machine("a")),
			observed(machine("b"), nodeNotReady),
			observed(machine("c"), nodeNotReady, func(o *Observed) { o.Unselected = true }),
			{Machine: machine("d"), Gone: true, Unselected: true, Own: []*object.CR{cr("d")}},
		},
		Ignored: 4,
	})
	require.Equal(t, Summary{Expected: 2, Healthy: 1, Ignored: 4, MaxUnhealthy: intstr.FromInt32(1), Limit: 1}, p.Summary)
	names := make([]string, 0, len(targets))
	for i := range targets {
		names = append(names, targets[i].Machine.Name)
	}
	require.Equal(t, []string{"b", "c", "d"}, names)
	require.Equal(t, cr("d").CreationTimestamp.Time, targets[2].Begun)
}

// TestTargetOf: what a Machine, its Node, status and the lease of the Node show of a target.
func TestTargetOf(t *testing.T) {
	t.Parallel()
	updated := func(o *Observed) {
		nodeNotReady(o)
		o.Node.Annotations[remediation.AnnotationCurrentConfig], o.Node.Annotations[remediation.AnnotationDesiredConfig] = "rendered-1", "rendered-2"
	}
	labelled := func(key, value string) func(*Observed) {
		return func(o *Observed) { nodeNotReady(o); o.Node.Labels[key] = value }
	}
	failed := machine("m", failedPhase)
	lease := func(string) *coordinationv1.Lease { return nodeLease(ours, epoch, 300) }
	now := epoch.Add(time.Hour)
	for name, tc := range map[string]struct {
		observed Observed
		input    Input
		change   func(*Policy)
		want     func(*Target)
	}{
		"nothing else":                          {observed: observed(failed), want: func(t *Target) { t.UnhealthySince = now }},
		"M9.2 paused":                           {observed: observed(failed.of(annotated(v1beta1.AnnotationPaused))), want: func(t *Target) { t.Obstacles.MachinePaused = true }},
		"M9.2 another API is authoritative":     {observed: observed(failed.of(func(m *Machine) { m.Unmanaged = true })), want: func(t *Target) { t.Obstacles.MachinePaused = true }},
		"M9.2 excluded":                         {observed: observed(failed.of(annotated(v1beta1.AnnotationSkipRemediation))), want: func(t *Target) { t.Obstacles.Excluded = true }},
		"M9.2 its Node is excluded":             {observed: observed(failed, labelled(v1alpha1.LabelExclude, "true")), want: func(t *Target) { t.Obstacles.Excluded = true }},
		"15.1 only by the value true":           {observed: observed(failed, labelled(v1alpha1.LabelExclude, "")), want: func(*Target) {}},
		"12.1 its Node is of the control plane": {observed: observed(failed, labelled("node-role.kubernetes.io/control-plane", "")), want: func(t *Target) { t.ControlPlane = true }},
		"M9.1 its Node is updated": {observed: observed(failed, updated), input: Input{Entries: Entries{"m": {Detected: new(metav1.NewTime(now.Add(-time.Minute)))}}}, want: func(t *Target) {
			t.UnhealthySince, t.Obstacles.UpdateEnds = now.Add(-time.Minute), now.Add(29*time.Minute)
		}},
		"M9.1 only terminating Machines":           {observed: observed(failed, updated), change: func(p *Policy) { p.Criteria.onlyTermination = true }, want: func(*Target) {}},
		"since the deadline of its condition":      {observed: observed(machine("m"), nodeNotReady), want: func(t *Target) { t.UnhealthySince = epoch.Add(5 * time.Minute) }},
		"the lease of its Node":                    {observed: observed(failed), input: Input{Lease: lease}, want: func(t *Target) { t.Lease = nodeLease(ours, epoch, 300) }},
		"the lease of a missing Node":              {observed: observed(failed, missing), input: Input{Lease: lease}, want: func(t *Target) { t.Lease, t.NodeUID = nodeLease(ours, epoch, 300), "" }},
		"a deletion by the history":                {observed: observed(machine("m", deletingMachine)), input: Input{History: []v1beta1.Remediation{{Machine: "m", Started: new(metav1.NewTime(epoch)), RemediationType: v1beta1.RemediationMachineDeletion}}}, want: func(t *Target) { t.Begun = epoch.Add(10 * time.Minute) }},
		"healthy, and the history does not say it": {observed: observed(machine("m")), input: Input{History: []v1beta1.Remediation{{Machine: "m", Started: new(metav1.NewTime(epoch)), RemediationType: v1beta1.RemediationExternal}}}, want: func(t *Target) { t.Requested = epoch }},
		"a deletion by others":                     {observed: observed(machine("m", deletingMachine)), input: Input{History: []v1beta1.Remediation{{Machine: "m", Started: new(metav1.NewTime(epoch)), Finished: new(metav1.NewTime(epoch)), RemediationType: v1beta1.RemediationMachineDeletion}}}, want: func(*Target) {}},
		"CRs that cannot be read":                  {observed: observed(failed), input: Input{Incomplete: true}, want: func(t *Target) { t.Incomplete = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.input.Observed = []Observed{tc.observed}
			if tc.change == nil {
				tc.change = func(*Policy) {}
			}
			_, targets := evaluate(&tc.input, tc.change)
			require.Len(t, targets, 1)
			got := targets[0]
			want := Target{Observed: tc.observed, NodeUID: "m-node-uid", Verdict: got.Verdict, UnhealthySince: now}
			tc.want(&want)
			require.Equal(t, want, got)
		})
	}
}

// TestMachines: Machines are found by name, and none is not the same as Machines that have not been read (spec M16.2).
func TestMachines(t *testing.T) {
	t.Parallel()
	read := []*Machine{machine("c"), machine("a"), machine("b")}
	machines := NewMachines(read)
	require.Equal(t, "c", read[0].Name, "what was read stays as it was")
	require.NotNil(t, NewMachines(nil))
	for _, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, machines.Named(name).Name)
	}
	require.Nil(t, machines.Named("d"))
	require.Nil(t, Machines(nil).Named("a"))
}
