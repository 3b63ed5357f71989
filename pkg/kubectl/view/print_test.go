// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/golden"
)

func before(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }

// compare compares the output with files.
func compare(t *testing.T, name string, show func(*Printer)) {
	t.Helper()
	golden.Check(t, name, func(out io.Writer, width int, colour bool) {
		show(NewPrinter(out, Options{Width: width, Colour: colour}))
	})
}

func decision(reason v1alpha1.DecisionReason, message string, until *metav1.Time) *v1alpha1.Decision {
	return &v1alpha1.Decision{Type: reason.Type(), Reason: reason, Message: message, Since: before(5 * time.Minute), NextCheckTime: until}
}

func unhealthy(name string, age time.Duration, decision *v1alpha1.Decision, remediations ...v1alpha1.Remediation) v1alpha1.UnhealthyNode {
	return v1alpha1.UnhealthyNode{
		Name: name, Detected: ago(age), Decision: decision, Remediations: remediations,
		Trigger: &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"},
	}
}

func remediationOf(name string) v1alpha1.Remediation {
	return v1alpha1.Remediation{Resource: corev1.ObjectReference{Kind: "PowerCycleRemediation", Name: name}, Started: before(2 * time.Minute)}
}

func statusNode(name string, status corev1.ConditionStatus, age time.Duration) *corev1.Node {
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: before(age), Reason: "NodeStatusUnknown"}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "workers"}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition}}}
}

// workers is a NodeHealthCheck in trouble, whose names and messages are hostile.
func workers() *v1alpha1.NodeHealthCheck {
	hostile := unhealthy("node-4", 9*time.Minute, decision(v1alpha1.DecidedCreateFailed, "admission webhook says \x1b[2J\x1b]0;owned\x07\nno\u202e", nil))
	returned := unhealthy("node-5", 20*time.Minute, decision(v1alpha1.DecidedHealthyDelay, "The node must stay healthy for 10m0s", new(metav1.NewTime(now.Add(7*time.Minute)))), remediationOf("node-5"))
	returned.ConditionsHealthyTimestamp = ago(3 * time.Minute)
	return &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "workers", Generation: 3},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:               metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}},
			MaxUnhealthy:           new(intstr.FromString("40%")),
			UnhealthyConditions:    []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: 5 * time.Minute}}},
			StormRecoveryThreshold: new(int32(2)), StormCooldownDuration: &metav1.Duration{Duration: 10 * time.Minute},
		},
		Status: v1alpha1.NodeHealthCheckStatus{
			ObservedGeneration: 3, Phase: v1alpha1.PhaseRemediating, Reason: "NHC is remediating 2 nodes",
			ObservedNodes: new(int32(10)), HealthyNodes: new(int32(6)), UnhealthyNodeCount: new(int32(3)), RemediatingNodes: new(int32(2)), SoonUnhealthyNodes: new(int32(2)),
			UnhealthyNodes: []v1alpha1.UnhealthyNode{
				unhealthy("node-1", 12*time.Minute, decision(v1alpha1.DecidedStepRunning, "PowerCycleRemediation node-1 (step 1 of 2) is running", new(metav1.NewTime(now.Add(3*time.Minute)))), remediationOf("node-1")),
				unhealthy("node-2", 11*time.Minute, decision(v1alpha1.DecidedStormActive, "", nil)),
				unhealthy("node-3", 10*time.Minute, decision(v1alpha1.DecidedBudgetExhausted, "zones eu-1a: 1 of at most 1 nodes are under remediation. Ask the platform team", nil)),
				hostile, returned,
			},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionRemediationAllowed, Status: metav1.ConditionFalse, Reason: string(v1alpha1.DecidedStormActive), Message: "Storm recovery is active until 2026-03-04T03:08:00Z, if it stays calm"},
				{Type: v1alpha1.ConditionStormActive, Status: metav1.ConditionTrue, LastTransitionTime: before(25 * time.Minute)},
				{Type: v1alpha1.ConditionStormCooldownActive, Status: metav1.ConditionTrue, LastTransitionTime: before(2 * time.Minute)},
				{Type: v1alpha1.ConditionSelectorOverlap, Status: metav1.ConditionTrue, Message: "2 nodes are also selected by gpu"},
			},
		},
	}
}

func simple(name string, phase v1alpha1.Phase, observed, healthy int32, minHealthy string) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NodeHealthCheckSpec{MinHealthy: new(intstr.FromString(minHealthy)), Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}},
		Status:     v1alpha1.NodeHealthCheckStatus{Phase: phase, ObservedNodes: new(observed), HealthyNodes: new(healthy), UnhealthyNodeCount: new(observed - healthy), RemediatingNodes: new(int32(0))},
	}
}

func snapshot() *Snapshot {
	gpu := simple("gpu", v1alpha1.PhasePaused, 4, 4, "50%")
	gpu.Spec.Mode, gpu.Generation = v1alpha1.ModeDryRun, 2
	gpu.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRemediationAllowed, Status: metav1.ConditionFalse, Reason: string(v1alpha1.DecidedPaused), Message: "Paused: freeze 4711, ask Kim"}}
	fresh := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "fresh", Generation: 1}}
	two := 2
	return &Snapshot{
		NodeHealthChecks: []*v1alpha1.NodeHealthCheck{simple("control-plane", v1alpha1.PhaseEnabled, 3, 1, "51%"), fresh, gpu, workers()},
		Nodes: []*corev1.Node{
			statusNode("node-1", corev1.ConditionUnknown, 12*time.Minute), statusNode("node-6", corev1.ConditionUnknown, 170*time.Second), statusNode("node-7", corev1.ConditionUnknown, 290*time.Second),
			statusNode("node-8", corev1.ConditionUnknown, 7*time.Minute), statusNode("node-9", corev1.ConditionTrue, time.Hour),
		},
		MachineHealthChecks: []*machinev1beta1.MachineHealthCheck{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "pool-a"},
			Spec:       machinev1beta1.MachineHealthCheckSpec{MaxUnhealthy: new(machinev1beta1.IntOrString(intstr.FromString("40%")))},
			Status: machinev1beta1.MachineHealthCheckStatus{
				ExpectedMachines: &two, CurrentHealthy: new(1), RemediationsAllowed: new(int32(0)),
				UnhealthyMachines: []machinev1beta1.UnhealthyMachine{{
					Name: "machine-1", Node: "node-a", Detected: ago(time.Hour), Trigger: &machinev1beta1.MachineTrigger{Reason: machinev1beta1.TriggerMachineFailed},
					Decision: v1alpha1.Decision{Type: v1alpha1.DecisionWaiting, Reason: machinev1beta1.DecidedBackOff, Message: "3 Machines of this owner have failed one after the other", NextCheckTime: new(metav1.NewTime(now.Add(26 * time.Hour)))},
				}},
			},
		}},
		Budgets: []*nhcv1alpha1.RemediationBudget{
			{
				ObjectMeta: metav1.ObjectMeta{Name: "zones"}, Spec: nhcv1alpha1.RemediationBudgetSpec{TopologyKey: "zone", MaxConcurrent: new(intstr.FromInt32(1)), Reason: "Ask the platform team"},
				Status: nhcv1alpha1.RemediationBudgetStatus{
					ObservedNodes: new(int32(10)), NotHealthyNodes: new(int32(4)), RemediatingNodes: new(int32(2)), RemediationsAllowed: new(int32(0)),
					Groups: []nhcv1alpha1.BudgetGroup{
						{Name: "eu-1a", ObservedNodes: 5, NotHealthyNodes: 3, RemediatingNodes: 1, RemediationsAllowed: new(int32(0)), LastStarted: ago(2 * time.Minute)},
						{Name: "", ObservedNodes: 5, NotHealthyNodes: 1, RemediatingNodes: 1},
					},
					Conditions: []metav1.Condition{{Type: nhcv1alpha1.ConditionBudgetExhausted, Status: metav1.ConditionTrue, Message: "1 node waits: node-3"}},
				},
			},
			{ObjectMeta: metav1.ObjectMeta{Name: "night"}, Status: nhcv1alpha1.RemediationBudgetStatus{
				ObservedNodes: new(int32(1)), Conditions: []metav1.Condition{{Type: nhcv1alpha1.ConditionBudgetValid, Status: metav1.ConditionFalse, Message: "timeZone: unknown time zone Mars"}},
			}},
			{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: nhcv1alpha1.RemediationBudgetSpec{MinInterval: &metav1.Duration{Duration: time.Minute}}},
		},
		Missing: []Missing{{Resource: "nodes", Reason: "You may not list nodes: ask for the ClusterRole nhc-view."}},
	}
}

func TestOverview(t *testing.T) {
	t.Parallel()
	overview := NewOverview(snapshot(), now)
	compare(t, "overview", func(p *Printer) { overview.Print(p, false) })
	compare(t, "overview-wide", func(p *Printer) { overview.Print(p, true) })
	require.True(t, overview.Select("workers"))
	compare(t, "overview-selected", func(p *Printer) { overview.Print(p, false) })
	compare(t, "overview-empty", func(p *Printer) { NewOverview(&Snapshot{}, now).Print(p, false) })
}

func episode(name string, detected, waited, took time.Duration, outcome v1alpha1.EpisodeOutcome, steps ...v1alpha1.EpisodeStep) v1alpha1.Episode {
	e := v1alpha1.Episode{Node: name, Detected: before(detected), Outcome: outcome, Steps: steps, Trigger: &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	if len(steps) > 0 {
		e.Started = ago(detected - waited)
	}
	if outcome != "" {
		e.Finished, e.Fenced, e.Released = ago(detected-took), ago(detected-waited-time.Minute), ago(detected-took-time.Minute)
	}
	return e
}

func step(started, took time.Duration, result v1alpha1.StepResult) v1alpha1.EpisodeStep {
	s := v1alpha1.EpisodeStep{Kind: "PowerCycleRemediation", Started: before(started), Result: result}
	if result != "" {
		s.Ended = ago(started - took)
	}
	return s
}

func pastSnapshot() *Snapshot {
	check := simple("workers", v1alpha1.PhaseEnabled, 3, 3, "51%")
	for day := range 6 { // Every night at 2.
		detected := time.Duration(day)*24*time.Hour + time.Hour
		check.Status.RemediationHistory = append(check.Status.RemediationHistory,
			episode("node-1", detected, 5*time.Minute, 15*time.Minute, v1alpha1.OutcomeRecovered, step(detected-5*time.Minute, 9*time.Minute, v1alpha1.StepRecovered)))
	}
	check.Status.RemediationHistory = append(check.Status.RemediationHistory,
		episode("node-2", 40*time.Minute, 5*time.Minute, 0, "", step(35*time.Minute, 10*time.Minute, v1alpha1.StepTimedOut), step(25*time.Minute, 0, "")),
		episode("node-2", 50*time.Hour, 5*time.Minute, 4*time.Hour, v1alpha1.OutcomeNodeDeleted, step(49*time.Hour, 2*time.Hour, v1alpha1.StepNodeDeleted)),
		episode("node-3", 70*time.Hour, 5*time.Minute, 20*time.Hour, v1alpha1.OutcomeRecoveredWithoutRemediation),
		episode("node-3\x1b[2J", 30*time.Hour, 5*time.Minute, 10*time.Minute, "Abducted"),
	)
	mhc := &machinev1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "pool"}}
	mhc.Status.RemediationHistory = []machinev1beta1.Remediation{{
		TargetKind: "Machine", TargetName: "machine-1", Machine: "machine-1", Reason: "MachineFailed", Detected: before(20 * time.Hour), Started: ago(19 * time.Hour),
		Finished: ago(18 * time.Hour), Replacement: "machine-2", RemediationType: machinev1beta1.RemediationMachineDeletion,
	}, {TargetKind: "Node", TargetName: "node-9", Machine: "machine-9", ConditionType: corev1.NodeReady, ConditionStatus: corev1.ConditionFalse, Detected: before(90 * time.Hour), Closed: ago(60 * time.Hour)}}
	return &Snapshot{NodeHealthChecks: []*v1alpha1.NodeHealthCheck{check}, MachineHealthChecks: []*machinev1beta1.MachineHealthCheck{mhc}}
}

// TestWhyNext: what the list of the nodes that are next says about each of them.
func TestWhyNext(t *testing.T) {
	t.Parallel()
	const condition, since = "Ready=Unknown", 3 * time.Minute
	in := func(d time.Duration) *metav1.Time { return ago(-d) }
	for name, tc := range map[string]struct {
		node NextNode
		want string
	}{
		"becomes unhealthy":          {NextNode{Since: ago(since), Unhealthy: in(time.Minute)}, "Ready=Unknown for 3m"},
		"with a reason":              {NextNode{Since: ago(since), Unhealthy: in(time.Minute), Reason: "NodeStatusUnknown"}, "Ready=Unknown for 3m (NodeStatusUnknown)"},
		"under remediation":          {NextNode{Since: ago(since), Unhealthy: in(time.Minute), Remediating: true}, "Ready=Unknown for 3m, still under remediation"},
		"unhealthy from now on":      {NextNode{Since: ago(since), Unhealthy: in(0), Remediating: true}, "Ready=Unknown for 3m, not reported by the controller yet"},
		"unhealthy, not yet overdue": {NextNode{Since: ago(since), Unhealthy: ago(unreported - 1)}, "Ready=Unknown for 3m, not reported by the controller yet"},
		"a clock that is ahead":      {NextNode{Since: ago(0), Doubt: "its reporter's clock is 60s ahead", Unhealthy: ago(-since)}, "Ready=Unknown for 0s (its reporter's clock is 60s ahead)"},
		"unhealthy, overdue":         {NextNode{Since: ago(since), Unhealthy: ago(unreported)}, "Ready=Unknown for 3m, unhealthy for 60s, but not reported: no controller is at work, or it has seen the clock of the reporter go back"},
		"7.2 no lastTransitionTime":  {NextNode{}, "Ready=Unknown, without lastTransitionTime: the controller cannot know how long it has lasted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.node.Condition = condition
			require.Equal(t, tc.want, WhyNext(&tc.node, now))
		})
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	history := NewHistory(pastSnapshot(), Filter{}, now)
	compare(t, "history", func(p *Printer) { history.Print(p, false) })
	compare(t, "history-wide", func(p *Printer) { history.Print(p, true) })
	compare(t, "history-empty", func(p *Printer) { NewHistory(&Snapshot{}, Filter{}, now).Print(p, false) })
	compare(t, "history-node", func(p *Printer) {
		NewHistory(pastSnapshot(), Filter{Node: "node-2", Since: now.Add(-time.Hour)}, now).Print(p, false)
	})
}

// TestNoControlCharacters: no text of the cluster controls the terminal, except by line breaks.
func TestNoControlCharacters(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	printer := NewPrinter(&text, Options{Width: 80})
	NewOverview(snapshot(), now).Print(printer, true)
	history := NewHistory(pastSnapshot(), Filter{}, now)
	history.Print(printer, true)
	require.NoError(t, printer.Err())
	require.Equal(t, strings.ReplaceAll(text.String(), "\n", " "), Clean(text.String()))
}

// TestPausedNodes: status says who has paused which node, also of a healthy one, and how to end it.
func TestPausedNodes(t *testing.T) {
	t.Parallel()
	s := &Snapshot{}
	for i := range shownNames + 2 {
		node := statusNode(fmt.Sprintf("node-%02d", i), corev1.ConditionTrue, time.Hour)
		node.Labels[v1alpha1.LabelExclude] = "true"
		s.Nodes = append(s.Nodes, node, statusNode("other", corev1.ConditionTrue, time.Hour))
	}
	s.Nodes[0].Annotations = map[string]string{v1alpha1.AnnotationPauseReason: "disk, ask Kim."}
	var text strings.Builder
	NewOverview(s, now).Print(NewPrinter(&text, Options{}), false)
	require.Contains(t, text.String(), "12 nodes paused, to go on with kubectl nhc resume node/NAME: node-00: disk, ask Kim; node-01; ")
	require.Contains(t, text.String(), "node-09; 2 more\n")
}

// TestPrintExplanation: a node that waits, one that is under remediation, and one without a health check.
func TestPrintExplanation(t *testing.T) {
	t.Parallel()
	s := snapshot()
	s.NodeHealthChecks = []*v1alpha1.NodeHealthCheck{simple("gpu", v1alpha1.PhaseEnabled, 3, 3, "51%"), workers()}
	workers := s.NodeHealthChecks[1]
	workers.Spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
		{Order: 2, Timeout: metav1.Duration{Duration: 15 * time.Minute}, RemediationTemplate: corev1.ObjectReference{APIVersion: "x/v1", Kind: "ReprovisionTemplate", Namespace: "default", Name: "image"}},
		{Order: 1, Timeout: metav1.Duration{Duration: 5 * time.Minute}, RemediationTemplate: corev1.ObjectReference{APIVersion: "x/v1", Kind: "PowerCycleRemediationTemplate", Namespace: "default", Name: "power-cycle"}},
	}
	workers.Status.UnhealthyNodes[0].Remediations[0].Resource.UID = "1"
	waits := statusNode("node-3", corev1.ConditionUnknown, 10*time.Minute)
	waits.Labels[v1alpha1.LabelExclude], waits.Labels["node-role.kubernetes.io/control-plane"] = "true", ""
	waits.Annotations = map[string]string{v1alpha1.AnnotationPauseReason: "disk, ask Kim."}
	waits.Status.Conditions = append(waits.Status.Conditions, corev1.NodeCondition{Type: "Disk\x1b[2J", Status: corev1.ConditionTrue, Message: "a\nb"})
	alone := statusNode("node-a", corev1.ConditionTrue, time.Hour)
	alone.Labels = map[string]string{"pool": "other"}
	s.Nodes = append(s.Nodes, waits, alone)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-node-1"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("NodeHealthCheck-workers"), RenewTime: new(metav1.NewMicroTime(now.Add(-2 * time.Minute))), LeaseDurationSeconds: new(int32(360)),
	}}
	details := &Details{
		Lease:        lease,
		Remediations: map[types.UID]Remediation{"1": {Known: true, Conditions: []Condition{{Type: "Processing", Status: "True", Reason: "Started", Message: "\x1b]0;owned\x07", Since: ago(2 * time.Minute)}}}},
		Events:       []corev1.Event{{Type: "Warning", Reason: "RemediationSkipped", Message: "[remediation] \x1b[31mno", Count: 3, LastTimestamp: before(time.Minute)}},
	}
	compare(t, "explain-remediating", func(p *Printer) { NewExplanation("node-1", s, details, now).Print(p) })
	lease.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-time.Hour)))
	compare(t, "explain-held", func(p *Printer) { NewExplanation("node-3", s, details, now).Print(p) })
	s.Missing = nil
	compare(t, "explain-soon", func(p *Printer) {
		NewExplanation("node-6", s, &Details{}, now).Print(p)
	})
	compare(t, "explain-unselected", func(p *Printer) {
		NewExplanation("node-a", s, &Details{}, now).Print(p)
	})
	s.Nodes = nil
	compare(t, "explain-deleted", func(p *Printer) {
		NewExplanation("node-2", s, &Details{}, now).Print(p)
	})
}

// TestGate: FR-301 a gate that counts no node is not open (spec 18.5).
func TestGateOf(t *testing.T) {
	t.Parallel()
	for want, gate := range map[string]*Gate{
		Unknown:                                   nil,
		"no nodes selected":                       {NoNodes: true, MaxNotHealthy: -2},
		"open: 3 of at most 4 not healthy":        {Open: true, NotHealthy: 3, MaxNotHealthy: 4},
		"closed: 5 not healthy, at most 4 may be": {NotHealthy: 5, MaxNotHealthy: 4},
		"closed: more healthy nodes are needed than there are nodes": {MaxNotHealthy: -2},
	} {
		require.Equal(t, want, GateOf(&Check{Gate: gate}).Text)
		for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseDisabled, v1alpha1.PhasePaused} {
			require.Equal(t, Unknown, GateOf(&Check{Phase: phase, Gate: gate}).Text, "O13: nothing begins")
		}
	}
}
