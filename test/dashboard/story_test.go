// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/dashboard"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// now is when the story happens.
var now = time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)

func before(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }

func beforeRef(age time.Duration) *metav1.Time { return new(before(age)) }

// source is a source whose state a test sets.
type source struct {
	mu      sync.Mutex
	state   dashboard.State
	changed chan struct{}
}

func (s *source) set(snapshot *view.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		defer close(s.changed)
	}
	s.changed = make(chan struct{})
	s.state = dashboard.State{Snapshot: snapshot, Version: s.state.Version + 1, Outdated: s.changed}
}

func (s *source) State() dashboard.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *source) Details(_ context.Context, snapshot *view.Snapshot, _ string) (*view.Details, []view.Missing) {
	var gone []string
	if snapshot.Leader != nil {
		gone = []string{"Machine openshift-machine-api/pool-9 of machine.openshift.io"}
	}
	return &view.Details{GoneMachines: gone, Events: []corev1.Event{
		{Type: "Normal", Reason: "RemediationCreated", Message: "[remediation] Created remediation object for node", LastTimestamp: before(4 * time.Minute)},
		{Type: "Normal", Reason: "NodeNotReady", Message: "Node status is now: NodeNotReady", Count: 2, LastTimestamp: before(9 * time.Minute)},
	}}, nil
}

// serve serves a snapshot, and returns the address of the pages.
func serve(t *testing.T, snapshot *view.Snapshot) (*source, string) {
	t.Helper()
	s := &source{}
	s.set(snapshot)
	server := httptest.NewServer(dashboard.New(dashboard.Config{Source: s, Now: func() time.Time { return now }, Cluster: "production"}))
	t.Cleanup(func() {
		server.CloseClientConnections() // Which ends the streams of events.
		server.Close()
	})
	return s, server.URL + "/"
}

func check(name, pool, minHealthy string, observed, healthy int) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}, MinHealthy: new(intstr.FromString(minHealthy)),
			UnhealthyConditions: []v1alpha1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Duration: metav1.Duration{Duration: 5 * time.Minute}},
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: 5 * time.Minute}},
			},
			EscalatingRemediations: []v1alpha1.EscalatingRemediation{
				{Order: 1, Timeout: metav1.Duration{Duration: 10 * time.Minute}, RemediationTemplate: template("PowerCycle")},
				{Order: 2, Timeout: metav1.Duration{Duration: 30 * time.Minute}, RemediationTemplate: template("Reprovision")},
			},
		},
		Status: v1alpha1.NodeHealthCheckStatus{
			Phase: v1alpha1.PhaseEnabled, ObservedNodes: new(int32(observed)), HealthyNodes: new(int32(healthy)), UnhealthyNodeCount: new(int32(observed - healthy)), RemediatingNodes: new(int32(0)),
		},
	}
}

func template(kind string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "example.org/v1", Kind: kind + "RemediationTemplate", Namespace: "default", Name: "rack"}
}

func node(name, pool string, status corev1.ConditionStatus, age time.Duration) *corev1.Node {
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: before(age), Reason: "KubeletReady"}
	if status == corev1.ConditionUnknown {
		condition.Reason, condition.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": pool}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition}}}
}

func unhealthy(name string, age time.Duration, reason v1alpha1.DecisionReason, message string, until *metav1.Time) v1alpha1.UnhealthyNode {
	entry := v1alpha1.UnhealthyNode{
		Name: name, Detected: beforeRef(age), Trigger: &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
		Decision: &v1alpha1.Decision{Type: reason.Type(), Reason: reason, Message: message, Since: before(age / 2), NextCheckTime: until},
	}
	if t := reason.Type(); t == v1alpha1.DecisionRemediating || t == v1alpha1.DecisionDelayed {
		entry.Remediations = []v1alpha1.Remediation{{Resource: corev1.ObjectReference{Kind: "PowerCycleRemediation", Name: name}, Started: before(age / 2)}}
	}
	return entry
}

func in(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(d))) }

// story is a bad night: a zone has failed, and one node reboots every night.
func story() *view.Snapshot {
	workers, gpu, control := check("workers", "workers", "70%", 40, 34), check("gpu", "gpu", "51%", 8, 7), check("control-plane", "control-plane", "51%", 3, 3)
	workers.Status.Phase, workers.Status.RemediatingNodes = v1alpha1.PhaseRemediating, new(int32(2))
	recovered := unhealthy("worker-22", 31*time.Minute, v1alpha1.DecidedHealthyDelay, "The node must stay healthy for 10m0s", in(6*time.Minute))
	recovered.ConditionsHealthyTimestamp = beforeRef(4 * time.Minute)
	workers.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{
		unhealthy("worker-07", 9*time.Minute, v1alpha1.DecidedStepRunning, "PowerCycleRemediation worker-07 (step 1 of 2) is running", in(6*time.Minute)), recovered,
		unhealthy("worker-11", 8*time.Minute, v1alpha1.DecidedBudgetExhausted, "zones eu-1b: 2 of at most 2 nodes are under remediation", nil),
		unhealthy("worker-12", 8*time.Minute, v1alpha1.DecidedBudgetExhausted, "zones eu-1b: 2 of at most 2 nodes are under remediation", nil),
	}
	workers.Status.RemediationHistory = history()
	gpu.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{unhealthy("gpu-3", 6*time.Minute, v1alpha1.DecidedPaused, "Paused: driver update, ask Kim", nil)}
	gpu.Status.Phase, gpu.Spec.PauseRequests = v1alpha1.PhasePaused, []string{"driver update, ask Kim"}
	gpu.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRemediationAllowed, Status: metav1.ConditionFalse, Reason: string(v1alpha1.DecidedPaused), Message: "Paused: driver update, ask Kim"}}
	return &view.Snapshot{
		NodeHealthChecks: []*v1alpha1.NodeHealthCheck{control, gpu, workers},
		Nodes: []*corev1.Node{
			node("worker-07", "workers", corev1.ConditionUnknown, 9*time.Minute), node("worker-13", "workers", corev1.ConditionUnknown, 3*time.Minute),
			node("worker-31", "workers", corev1.ConditionUnknown, 40*time.Second), node("worker-40", "workers", corev1.ConditionTrue, 90*time.Hour),
		},
		Budgets: []*nhcv1alpha1.RemediationBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "zones"}, Spec: nhcv1alpha1.RemediationBudgetSpec{TopologyKey: "topology.kubernetes.io/zone", MaxConcurrent: new(intstr.FromInt32(2))},
			Status: nhcv1alpha1.RemediationBudgetStatus{
				ObservedNodes: new(int32(51)), NotHealthyNodes: new(int32(7)), RemediatingNodes: new(int32(2)), RemediationsAllowed: new(int32(0)),
				Conditions: []metav1.Condition{{Type: nhcv1alpha1.ConditionBudgetExhausted, Status: metav1.ConditionTrue, Message: "2 nodes wait: worker-11, worker-12"}},
			},
		}},
	}
}

// troubled is the story with what else goes wrong: no controller is at work, a template is missing, a gate is closed, a rack fails, a node has two
// names, Machines wait, and something may not be read.
func troubled() *view.Snapshot {
	s := story()
	s.Leader = &view.Leader{Namespace: "nhc-system", Holder: "nhc-controller-0", Renewed: beforeRef(4 * time.Minute), Until: beforeRef(3 * time.Minute)}
	s.Missing = []view.Missing{{Resource: "leases", Reason: "You may not list leases: ask for the ClusterRole nhc-view."}}
	control := &s.NodeHealthChecks[0].Status
	control.Phase = v1alpha1.PhaseDisabled
	message := "Remediation template not found: there is no PowerCycleRemediationTemplate default/rack"
	control.Reason = "NHC is disabled: RemediationTemplateNotFound: " + message
	control.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRemediationAllowed, Status: metav1.ConditionFalse, Reason: string(v1alpha1.DecidedDisabled), Message: message}}
	s.Nodes[0].Labels["rack"] = "r7"
	for _, name := range []string{"worker-11", "worker-12", "worker-13"} {
		failing := node(name, "workers", corev1.ConditionUnknown, 8*time.Minute)
		failing.Labels["rack"] = "r7"
		s.Nodes = append(s.Nodes, failing)
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(node *corev1.Node) bool { return node.Name == "worker-13" && node.Labels["rack"] == "" })
	renamed, other := s.Nodes[len(s.Nodes)-1], s.Nodes[2]
	renamed.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	renamed.Status.NodeInfo.SystemUUID, other.Status.NodeInfo.SystemUUID = "4C4C4544", "4C4C4544"
	s.MachineHealthChecks = []*machinev1beta1.MachineHealthCheck{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "pool"},
		Spec:       machinev1beta1.MachineHealthCheckSpec{MaxUnhealthy: new(machinev1beta1.IntOrString(intstr.FromString("40%")))},
		Status: machinev1beta1.MachineHealthCheckStatus{
			ExpectedMachines: new(6), CurrentHealthy: new(3), RemediationsAllowed: new(int32(0)),
			Conditions: []machinev1beta1.Condition{{Type: v1alpha1.ConditionRemediationAllowed, Status: "False", Reason: "TooManyUnhealthy", Message: "Remediation is not allowed: 3 of 6 are unhealthy. 40% of 6 allows 2."}},
			UnhealthyMachines: []machinev1beta1.UnhealthyMachine{{
				Name: "pool-1", Node: "worker-11", Detected: beforeRef(8 * time.Minute), Trigger: &machinev1beta1.MachineTrigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
				Decision: v1alpha1.Decision{Type: v1alpha1.DecisionHeld, Reason: v1alpha1.DecidedGateClosed},
			}},
		},
	}}
	return s
}

// history has every outcome.
func history() (episodes []v1alpha1.Episode) {
	add := func(name string, detected, waited, took time.Duration, outcome v1alpha1.EpisodeOutcome, steps ...string) {
		e := v1alpha1.Episode{Node: name, Detected: before(detected), Outcome: outcome, Trigger: &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		end := detected - took
		if outcome != "" {
			e.Finished, e.Released = beforeRef(end), beforeRef(end-10*time.Minute)
		}
		each := (took - waited) / time.Duration(max(1, len(steps)))
		for i, kind := range steps {
			begin := detected - waited - time.Duration(i)*each
			step := v1alpha1.EpisodeStep{Kind: kind + "Remediation", TemplateName: "rack", Started: before(begin)}
			if last := i == len(steps)-1; !last || outcome != "" {
				step.Ended, step.Result = beforeRef(begin-each), v1alpha1.StepTimedOut
				if last {
					step.Result = v1alpha1.StepRecovered
				}
			}
			e.Steps = append(e.Steps, step)
		}
		if len(steps) > 0 {
			e.Started, e.Fenced = beforeRef(detected-waited), beforeRef(detected-waited-(took-waited)/5)
		}
		episodes = append(episodes, e)
	}
	for night := range 3 { // Every night at 2.
		add("worker-02", time.Duration(night)*24*time.Hour+time.Hour, 10*time.Minute, 50*time.Minute, v1alpha1.OutcomeRecovered, "PowerCycle")
	}
	add("worker-07", 9*time.Minute, 5*time.Minute, 9*time.Minute, "", "PowerCycle")
	add("worker-22", 31*time.Minute, 5*time.Minute, 27*time.Minute, v1alpha1.OutcomeRecovered, "PowerCycle")
	add("worker-15", 44*time.Hour, time.Hour, 7*time.Hour, v1alpha1.OutcomeReplaced, "PowerCycle", "Reprovision")
	add("worker-18", 30*time.Hour, time.Hour, 3*time.Hour, v1alpha1.OutcomeRecoveredWithoutRemediation)
	add("worker-19", 22*time.Hour, time.Hour, 6*time.Hour, v1alpha1.OutcomeNodeDeleted, "PowerCycle", "Reprovision")
	add("worker-27", 16*time.Hour, time.Hour, 4*time.Hour, v1alpha1.OutcomeCancelled, "PowerCycle")
	add("worker-33", 38*time.Hour, time.Hour, 2*time.Hour, v1alpha1.OutcomeDryRun)
	return episodes
}
