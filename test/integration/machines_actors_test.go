// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

var (
	actorsFor  = flag.Duration("actors.for", 8*time.Second, "how long TestOneActorPerNode changes things at random")
	actorsSeed = flag.Uint64("actors.seed", 0, "the seed of that, 0 for another one in each run")
)

// TestOneActorPerNode: a NodeHealthCheck, and MachineHealthChecks that delete, that hand over, and that
// only replace what terminates, are about the same Nodes, while conditions, labels, pauses, the
// MachineHealthChecks themselves and the feature gate change at random. Never do two of them act on a
// Node, and nothing is written about Machines while another controller looks after them (spec M4.2,
// M15.2).
func TestOneActorPerNode(t *testing.T) {
	t.Parallel()
	seed := *actorsSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the same changes again: -actors.seed=%d", seed)
	for _, api := range machineAPIs {
		t.Run(api.name, func(t *testing.T) {
			t.Parallel()
			newActors(t, exclusiveCluster(t), api, rand.New(rand.NewPCG(seed, 0))).run()
		})
	}
}

// run changes everything at random, and judges the actions.
func (a *actors) run() {
	for begin := time.Now(); time.Since(begin) < *actorsFor; {
		for range 3 {
			a.disturb()
		}
		a.standIns()
		if a.random.IntN(150) == 0 {
			a.rest()
		}
	}
	a.rest()
	for range 20 { // Something happens after the last rest, too.
		a.disturb()
		a.standIns()
	}
	a.withoutChecks()
	a.judge()
}

// withoutChecks leaves the Nodes to the NodeHealthCheck in the end, which chance may have kept from all of them.
func (a *actors) withoutChecks() {
	a.t.Helper()
	require.NoError(a.t, a.mhcs().DeleteCollection(a.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	for _, machine := range a.listMachines() {
		a.tryCondition(machine.GetName(), readyCondition(corev1.ConditionUnknown, time.Now()))
	}
	a.nhc.eventually("a remediation object", func() bool { return len(a.nhc.crs()) > 0 })
}

// actors are a cluster with all of them, and what the test itself knows of their remediations.
type actors struct {
	*machineScenario
	nhc        *scenario
	controller *localkube.Process
	random     *rand.Rand
	made       int
	// ends are when remediations were ended by the test, by kind and name of the Machine, and
	// rests when another controller looked after MachineHealthChecks.
	ends  map[string][]time.Time
	rests [][2]time.Time
}

const actorMachines = 8

func newActors(t *testing.T, c *cluster, api machineAPI, random *rand.Rand) *actors {
	t.Helper()
	c.installOptional(t, featureGate)
	c.createOptional(t, featureGate, "", "cluster", featureGates(true))
	controller := c.startMachineHealthChecks(t, ownOverlay)
	a := &actors{machineScenario: newMachineScenario(t, c, api.machine), controller: controller, random: random, ends: map[string][]time.Time{}}
	a.nhc = newEmptyScenario(t, c, t.Name()+"-nhc", powerCycle)
	a.nhc.createTemplate(usualTemplate())
	a.nhc.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: a.name}}
		spec.MinHealthy = new(intOrString("0%"))
	})
	for range actorMachines {
		a.addMachine()
	}
	for name := range a.checks() {
		a.createMHC(name)
	}
	return a
}

// featureGates is a FeatureGate that turns the other controller off, or does not.
func featureGates(off bool) map[string]any {
	enabled := []any{}
	if off {
		enabled = append(enabled, map[string]any{"name": "MachineAPIOperatorDisableMachineHealthCheckController"})
	}
	return map[string]any{"status": map[string]any{"featureGates": []any{map[string]any{"version": "4.20", "enabled": enabled}}}}
}

// checks are the MachineHealthChecks. A check selects the Machines of one actor and, among those
// of the others, only Machines that terminate.
func (a *actors) checks() map[string]func(*v1beta1.MachineHealthCheck) {
	return map[string]func(*v1beta1.MachineHealthCheck){
		"deletes": func(*v1beta1.MachineHealthCheck) {},
		"hands-over": func(check *v1beta1.MachineHealthCheck) {
			check.Spec.Selector.MatchLabels = map[string]string{"role": "metal"}
			if a.api.handsOver {
				annotated(v1beta1.AnnotationRemediationStrategy, v1beta1.StrategyExternalBaremetal)(check)
			}
		},
		"terminating": func(check *v1beta1.MachineHealthCheck) {
			check.Spec.Selector = metav1.LabelSelector{}
			check.Spec.UnhealthyConditions = []v1beta1.UnhealthyCondition{{Type: "Terminating", Status: corev1.ConditionTrue, Timeout: "0s"}}
		},
	}
}

func (a *actors) createMHC(name string) {
	a.t.Helper()
	check := a.check(a.checks()[name])
	check.Name = name
	_, err := a.nhc.cluster.nhc.MachineV1beta1().MachineHealthChecks(a.name).Create(a.t.Context(), check, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(a.t, err)
	}
}

func (a *actors) addMachine() {
	a.t.Helper()
	a.made++
	name := fmt.Sprintf("m%d", a.made)
	a.createMachine(name, finalized, machineLabelled(map[string]string{"role": []string{"worker", "metal"}[a.made%2]}))
	a.join(name)
}

func (a *actors) listMachines() []unstructured.Unstructured {
	a.t.Helper()
	list, err := a.machines().List(a.t.Context(), metav1.ListOptions{})
	require.NoError(a.t, err)
	return list.Items
}

// disturb changes one thing.
func (a *actors) disturb() {
	a.t.Helper()
	machines := a.listMachines()
	machine := machines[a.random.IntN(len(machines))].GetName()
	status := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown, corev1.ConditionFalse}[a.random.IntN(3)]
	names := []string{"deletes", "hands-over", "terminating"}
	check := names[a.random.IntN(len(names))]
	switch a.random.IntN(12) {
	case 0, 1, 2, 3, 4, 5:
		a.tryCondition(machine, readyCondition(status, time.Now()))
	case 6:
		a.tryCondition(machine, corev1.NodeCondition{Type: "Terminating", Status: status, LastTransitionTime: metav1.Now()})
	case 7, 8:
		role := []string{"worker", "metal", "none"}[a.random.IntN(3)]
		a.tryPatchMachine(machine, `{"metadata":{"labels":{"role":"`+role+`"}}}`)
	case 9:
		paused := []string{`""`, "null"}[a.random.IntN(2)]
		_, err := a.mhcs().Patch(a.t.Context(), check, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1beta1.AnnotationPaused+`":`+paused+`}}}`), metav1.PatchOptions{})
		a.requireDone(err)
	case 10:
		a.requireDone(a.mhcs().Delete(a.t.Context(), check, metav1.DeleteOptions{}))
	case 11:
		a.createMHC(check)
	}
}

// requireDone takes it that an object may be gone, or may change at the same time.
func (a *actors) requireDone(err error) {
	a.t.Helper()
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		require.NoError(a.t, err)
	}
}

func (a *actors) tryCondition(machine string, condition corev1.NodeCondition) {
	a.t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"lastTransitionTime":%q}]}}`, condition.Type, condition.Status, condition.LastTransitionTime.UTC().Format(time.RFC3339))
	_, err := a.kube.CoreV1().Nodes().Patch(a.t.Context(), a.nodeName(machine), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	a.requireDone(err)
}

func (a *actors) tryPatchMachine(machine, patch string) {
	a.t.Helper()
	_, err := a.machines().Patch(a.t.Context(), machine, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	a.requireDone(err)
}

// standIns go on with some remediations: they end instances, make Machines, and reboot hosts.
func (a *actors) standIns() {
	a.t.Helper()
	living := 0
	for _, machine := range a.listMachines() {
		name := machine.GetName()
		_, asked := machine.GetAnnotations()[v1beta1.AnnotationExternalRemediation]
		switch {
		case machine.GetDeletionTimestamp() != nil && a.random.IntN(6) == 0:
			a.ended(deletion, name)
			a.requireDone(a.kube.CoreV1().Nodes().Delete(a.t.Context(), a.nodeName(name), metav1.DeleteOptions{}))
			a.tryPatchMachine(name, `{"metadata":{"finalizers":null}}`)
		case asked && a.random.IntN(6) == 0:
			a.ended(handOver, name)
			a.tryCondition(name, readyCondition(corev1.ConditionTrue, time.Now()))
			a.tryPatchMachine(name, `{"metadata":{"annotations":{"`+v1beta1.AnnotationExternalRemediation+`":null}}}`)
		}
		if machine.GetDeletionTimestamp() == nil {
			living++
		}
	}
	for ; living < actorMachines; living++ {
		a.addMachine()
	}
}

// rest has another controller look after MachineHealthChecks for a while.
func (a *actors) rest() {
	a.t.Helper()
	active := func(want bool) {
		a.patchOptional(a.t, featureGate, "cluster", featureGates(want))
		patience.Eventually(a.t, "the gate is noticed", func() bool {
			lines := logged(a.t, a.controller, "Looking after MachineHealthChecks")
			return lines[len(lines)-1]["active"] == want
		})
	}
	active(false)
	for range 20 { // What is under way ends meanwhile.
		a.disturb()
	}
	begin := time.Now()
	for range 40 {
		a.disturb()
		a.standIns()
	}
	a.rests = append(a.rests, [2]time.Time{begin, time.Now()})
	active(true)
}

// actor is who does something to a Node.
type actor string

const (
	nodeRemediation actor = "remediation object"
	deletion        actor = "deletion"
	handOver        actor = "external remediation"
)

func (a *actors) ended(by actor, machine string) {
	a.ends[string(by)+machine] = append(a.ends[string(by)+machine], time.Now())
}

// act is what one actor has done to a Node.
type act struct {
	by actor
	// requested is when the request arrived that began it, accepted when it was answered, and end
	// when what ended it was requested, zero if nothing did.
	requested, accepted, end time.Time
}

// judge finds two actors on a Node in the audit log, and writes that should not be.
func (a *actors) judge() {
	a.t.Helper()
	requests := a.audited(a.t, func(r localkube.Request) bool {
		return r.User == deploy.User && isWrite(r) && r.Code/100 == 2 && (r.Namespace == a.name || r.Namespace == a.nhc.name)
	})
	byNode := map[string][]*act{}
	count := map[actor]int{}
	begun := func(by actor, node string, r localkube.Request, end time.Time) {
		count[by]++
		byNode[node] = append(byNode[node], &act{by: by, requested: r.Time, accepted: r.Answered, end: end})
	}
	for i, r := range requests {
		switch {
		case r.Resource == powerCycle.remediations.Resource && r.Verb == "create":
			end := slices.IndexFunc(requests[i:], func(other localkube.Request) bool {
				return other.Resource == r.Resource && other.Verb == "delete" && other.Name == r.Name
			})
			begun(nodeRemediation, r.Name, r, timeOf(requests[i:], end))
		case r.Resource == "machines" && r.Verb == "delete":
			begun(deletion, a.nodeName(r.Name), r, a.endOf(deletion, r))
		case r.Resource == "machines" && r.Verb == "patch" && a.handsOver(requests[i:]):
			begun(handOver, a.nodeName(r.Name), r, a.endOf(handOver, r))
		}
	}
	a.t.Logf("%v", count)
	for node, acts := range byNode {
		for _, first := range acts {
			for _, second := range acts {
				both := first != second && !first.accepted.After(second.requested) && (first.end.IsZero() || second.requested.Before(first.end))
				require.False(a.t, both, "M15.2: on %s %s began at %s during %s from %s to %s", node, second.by, second.requested, first.by, first.accepted, first.end)
			}
		}
	}
	for _, rest := range a.rests {
		for _, r := range requests {
			ours := r.Resource == "machines" || r.Resource == v1beta1.Plural
			require.False(a.t, ours && r.Time.After(rest[0]) && r.Time.Before(rest[1]), "M4.2: %s %s at %s", r.Verb, r.URI, r.Time)
		}
	}
	require.NotZero(a.t, count[nodeRemediation], "the test itself")
	require.NotZero(a.t, count[deletion]+count[handOver], "the test itself")
}

func timeOf(requests []localkube.Request, i int) time.Time {
	if i < 0 {
		return time.Time{}
	}
	return requests[i].Time
}

// endOf returns when the test has ended what a request began.
func (a *actors) endOf(by actor, r localkube.Request) time.Time {
	for _, end := range a.ends[string(by)+r.Name] {
		if end.After(r.Time) {
			return end
		}
	}
	return time.Time{}
}

// handsOver reports whether the first of these requests, a patch of a Machine, adds the first key: it
// is the last patch before the test removes that key. Another one removes the second key.
func (a *actors) handsOver(requests []localkube.Request) bool {
	patch := requests[0]
	end := a.endOf(handOver, patch)
	if end.IsZero() {
		machine, err := a.machines().Get(context.WithoutCancel(a.t.Context()), patch.Name, metav1.GetOptions{})
		if err != nil {
			return false // The test has removed the key before it ended the Machine.
		}
		if _, asked := machine.GetAnnotations()[v1beta1.AnnotationExternalRemediation]; !asked {
			return false
		}
	}
	return !slices.ContainsFunc(requests[1:], func(r localkube.Request) bool {
		return r.Resource == "machines" && r.Verb == "patch" && r.Name == patch.Name && (end.IsZero() || r.Time.Before(end))
	})
}
