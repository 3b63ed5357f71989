// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
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
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

var now = time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)

func before(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }

func beforeRef(age time.Duration) *metav1.Time { return new(before(age)) }

// source is a Source whose state a test sets.
type source struct {
	mu      sync.Mutex
	state   State
	changed chan struct{}
	details view.Details
	missing []view.Missing
}

func newSource(snapshot *view.Snapshot) *source {
	s := &source{}
	s.set(snapshot, time.Time{})
	return s
}

func (s *source) set(snapshot *view.Snapshot, lost time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		defer close(s.changed)
	}
	s.changed = make(chan struct{})
	s.state = State{Snapshot: snapshot, Version: s.state.Version + 1, Lost: lost, Outdated: s.changed}
}

func (s *source) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *source) Details(context.Context, *view.Snapshot, string) (*view.Details, []view.Missing) {
	return &s.details, s.missing
}

func newDashboard(s *source) *Dashboard {
	return New(Config{Source: s, Now: func() time.Time { return now }, Cluster: "test"})
}

// get returns the answer to a request.
func get(tb testing.TB, handler http.Handler, target string) *httptest.ResponseRecorder {
	tb.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, target, nil))
	return answer
}

// read returns a page, which is there.
func read(tb testing.TB, handler http.Handler, target string) string {
	tb.Helper()
	answer := get(tb, handler, target)
	require.Equal(tb, http.StatusOK, answer.Code, "%s: %s", target, answer.Body)
	return answer.Body.String()
}

func decision(reason v1alpha1.DecisionReason, message string, until *metav1.Time) *v1alpha1.Decision {
	return &v1alpha1.Decision{Type: reason.Type(), Reason: reason, Message: message, Since: before(5 * time.Minute), NextCheckTime: until}
}

func unhealthy(name string, age time.Duration, decision *v1alpha1.Decision, remediations ...v1alpha1.Remediation) v1alpha1.UnhealthyNode {
	return v1alpha1.UnhealthyNode{
		Name: name, Detected: beforeRef(age), Decision: decision, Remediations: remediations,
		Trigger: &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"},
	}
}

func remediationOf(name string) v1alpha1.Remediation {
	return v1alpha1.Remediation{Resource: corev1.ObjectReference{Kind: "PowerCycleRemediation", Name: name}, Started: before(2 * time.Minute)}
}

func node(name string, status corev1.ConditionStatus, age time.Duration) *corev1.Node {
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: before(age), Reason: "NodeStatusUnknown"}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "workers"}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition}}}
}

// workers is a NodeHealthCheck in a storm.
func workers() *v1alpha1.NodeHealthCheck {
	returned := unhealthy("node-5", 20*time.Minute, decision(v1alpha1.DecidedHealthyDelay, "The node must stay healthy for 10m0s", new(metav1.NewTime(now.Add(7*time.Minute)))), remediationOf("node-5"))
	returned.ConditionsHealthyTimestamp = beforeRef(3 * time.Minute)
	return &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "workers", Generation: 3},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:               metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}},
			MaxUnhealthy:           new(intstr.FromString("40%")),
			UnhealthyConditions:    []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: 5 * time.Minute}}},
			StormRecoveryThreshold: new(int32(2)), StormCooldownDuration: &metav1.Duration{Duration: 10 * time.Minute},
			EscalatingRemediations: []v1alpha1.EscalatingRemediation{
				{Order: 1, Timeout: metav1.Duration{Duration: 5 * time.Minute}, RemediationTemplate: corev1.ObjectReference{APIVersion: "x/v1", Kind: "PowerCycleRemediationTemplate", Namespace: "default", Name: "power-cycle"}},
				{Order: 2, Timeout: metav1.Duration{Duration: 15 * time.Minute}, RemediationTemplate: corev1.ObjectReference{APIVersion: "x/v1", Kind: "ReprovisionTemplate", Namespace: "default", Name: "image"}},
			},
		},
		Status: v1alpha1.NodeHealthCheckStatus{
			ObservedGeneration: 3, Phase: v1alpha1.PhaseRemediating, Reason: "NHC is remediating 2 nodes",
			ObservedNodes: new(int32(10)), HealthyNodes: new(int32(6)), UnhealthyNodeCount: new(int32(3)), RemediatingNodes: new(int32(2)), SoonUnhealthyNodes: new(int32(2)),
			UnhealthyNodes: []v1alpha1.UnhealthyNode{
				unhealthy("node-1", 12*time.Minute, decision(v1alpha1.DecidedStepRunning, "PowerCycleRemediation node-1 (step 1 of 2) is running", new(metav1.NewTime(now.Add(3*time.Minute)))), remediationOf("node-1")),
				unhealthy("node-2", 11*time.Minute, decision(v1alpha1.DecidedStormActive, "", nil)),
				unhealthy("node-3", 10*time.Minute, decision(v1alpha1.DecidedBudgetExhausted, "zones eu-1a: 1 of at most 1 nodes are under remediation. Ask the platform team", nil)),
				returned,
			},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionRemediationAllowed, Status: metav1.ConditionFalse, Reason: string(v1alpha1.DecidedStormActive), Message: "Storm recovery is active until 2026-03-04T03:08:00Z, if it stays calm"},
				{Type: v1alpha1.ConditionStormActive, Status: metav1.ConditionTrue, LastTransitionTime: before(25 * time.Minute)},
				{Type: v1alpha1.ConditionStormCooldownActive, Status: metav1.ConditionTrue, LastTransitionTime: before(2 * time.Minute)},
				{Type: v1alpha1.ConditionSelectorOverlap, Status: metav1.ConditionTrue, Message: "2 nodes are also selected by gpu"},
			},
			RemediationHistory: episodes(),
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

// snapshot has something of everything.
func snapshot() *view.Snapshot {
	return &view.Snapshot{
		NodeHealthChecks: []*v1alpha1.NodeHealthCheck{
			simple("control-plane", v1alpha1.PhaseEnabled, 3, 1, "51%"), {ObjectMeta: metav1.ObjectMeta{Name: "fresh", Generation: 1}}, simple("gpu", v1alpha1.PhaseEnabled, 4, 4, "50%"), workers(),
		},
		Nodes: []*corev1.Node{
			node("node-1", corev1.ConditionUnknown, 12*time.Minute), node("node-3", corev1.ConditionUnknown, 10*time.Minute), node("node-6", corev1.ConditionUnknown, 170*time.Second),
			node("node-8", corev1.ConditionUnknown, 7*time.Minute), node("node-9", corev1.ConditionTrue, time.Hour),
		},
		MachineHealthChecks: []*machinev1beta1.MachineHealthCheck{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "pool-a"},
			Spec:       machinev1beta1.MachineHealthCheckSpec{MaxUnhealthy: new(machinev1beta1.IntOrString(intstr.FromString("40%")))},
			Status: machinev1beta1.MachineHealthCheckStatus{
				ExpectedMachines: new(2), CurrentHealthy: new(1), RemediationsAllowed: new(int32(0)),
				UnhealthyMachines: []machinev1beta1.UnhealthyMachine{{
					Name: "machine-1", Node: "node-a", Detected: beforeRef(time.Hour), Trigger: &machinev1beta1.MachineTrigger{Reason: machinev1beta1.TriggerMachineFailed},
					Decision: v1alpha1.Decision{Type: v1alpha1.DecisionWaiting, Reason: machinev1beta1.DecidedBackOff, Message: "3 Machines of this owner have failed one after the other", NextCheckTime: new(metav1.NewTime(now.Add(26 * time.Hour)))},
				}},
				RemediationHistory: []machinev1beta1.Remediation{{
					TargetKind: "Machine", TargetName: "machine-0", Machine: "machine-0", Reason: "MachineFailed", Detected: before(20 * time.Hour), Started: beforeRef(19 * time.Hour),
					Finished: beforeRef(18 * time.Hour), Replacement: "machine-2", RemediationType: machinev1beta1.RemediationMachineDeletion,
				}},
			},
		}},
		Budgets: []*nhcv1alpha1.RemediationBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "zones"}, Spec: nhcv1alpha1.RemediationBudgetSpec{TopologyKey: "zone", MaxConcurrent: new(intstr.FromInt32(1)), Reason: "Ask the platform team"},
			Status: nhcv1alpha1.RemediationBudgetStatus{
				ObservedNodes: new(int32(10)), NotHealthyNodes: new(int32(4)), RemediatingNodes: new(int32(2)), RemediationsAllowed: new(int32(0)),
				Groups: []nhcv1alpha1.BudgetGroup{
					{Name: "eu-1a", ObservedNodes: 5, NotHealthyNodes: 3, RemediatingNodes: 1, RemediationsAllowed: new(int32(0)), LastStarted: beforeRef(2 * time.Minute)},
					{Name: "", ObservedNodes: 5, NotHealthyNodes: 1, RemediatingNodes: 1},
				},
				Conditions: []metav1.Condition{{Type: nhcv1alpha1.ConditionBudgetExhausted, Status: metav1.ConditionTrue, Message: "1 node waits: node-3"}},
			},
		}},
	}
}

func step(kind string, started, took time.Duration, result v1alpha1.StepResult) v1alpha1.EpisodeStep {
	s := v1alpha1.EpisodeStep{Kind: kind, TemplateName: "power-cycle", Started: before(started), Result: result}
	if result != "" {
		s.Ended = beforeRef(started - took)
	}
	return s
}

func episode(name string, detected, waited, took time.Duration, outcome v1alpha1.EpisodeOutcome, steps ...v1alpha1.EpisodeStep) v1alpha1.Episode {
	e := v1alpha1.Episode{Node: name, Detected: before(detected), Outcome: outcome, Steps: steps, Trigger: &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	if len(steps) > 0 {
		e.Started, e.Fenced = beforeRef(detected-waited), beforeRef(detected-waited-2*time.Minute)
	}
	if outcome != "" {
		e.Finished = beforeRef(detected - took)
	}
	return e
}

// episodes have every outcome.
func episodes() (history []v1alpha1.Episode) {
	hours := func(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }
	history = []v1alpha1.Episode{
		episode("node-1", 12*time.Minute, 5*time.Minute, 0, "", step("PowerCycleRemediation", 7*time.Minute, 5*time.Minute, v1alpha1.StepTimedOut), step("Reprovision", 2*time.Minute, 0, "")),
		episode("node-2", hours(9), hours(0.5), hours(3), v1alpha1.OutcomeRecovered, step("PowerCycleRemediation", hours(8.5), hours(1), v1alpha1.StepTimedOut), step("Reprovision", hours(7.5), hours(1.5), v1alpha1.StepRecovered)),
	}
	for i, outcome := range append(outcomes, "Abducted") {
		history = append(history, episode(fmt.Sprintf("node-%d", i+3), hours(float64(22-2*i)), hours(0.3), hours(1.5), outcome, step("PowerCycleRemediation", hours(float64(22-2*i)-0.3), hours(1), v1alpha1.StepRecovered)))
	}
	return history
}

// details are those of node-1.
func details() view.Details {
	return view.Details{
		Lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-node-1"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("NodeHealthCheck-workers"), RenewTime: new(metav1.NewMicroTime(now.Add(-2 * time.Minute))), LeaseDurationSeconds: new(int32(360)),
		}},
		Remediations: map[types.UID]view.Remediation{"": {Known: true, Conditions: []view.Condition{{Type: "Processing", Status: "True", Reason: "Started", Since: beforeRef(2 * time.Minute)}}}},
		Events:       []corev1.Event{{Type: "Warning", Reason: "RemediationSkipped", Message: "[remediation] no", Count: 3, LastTimestamp: before(time.Minute)}},
	}
}
