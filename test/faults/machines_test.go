// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/test/machineset"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// moduleRoot is the directory of go.mod, from here.
const moduleRoot = "../.."

// machineAPI is an API whose Machines MachineHealthChecks remediate.
type machineAPI struct {
	// name is that of the namespace, the MachineHealthCheck and the budget of its Machines, and the prefix of these.
	name     string
	resource schema.GroupVersionResource
	// crd is the file of its CRD in moduleRoot.
	crd string
	// annotations are those of a MachineHealthCheck that is about Machines of this API (spec M5.2).
	annotations map[string]string
}

const machineCRDs = "test/integration/testdata/remediators/"

// machineAPIs are all of them.
var machineAPIs = []machineAPI{
	{name: "openshift-machines", resource: rules.Machines, crd: machineCRDs + "openshift/crd/0000_10_machine-api_01_machines-Default.crd.yaml"},
	{
		name: "cluster-api-machines", resource: rules.ClusterAPIMachines, crd: machineCRDs + "capi/crd/cluster.x-k8s.io_machines.yaml",
		annotations: map[string]string{v1beta1.AnnotationMachineAPI: v1beta1.MachineAPICluster},
	},
}

// budgetOfNodes is the name of the budget for all nodes.
const budgetOfNodes = "nodes"

// machineManifest has the CRDs of all Machines, and their namespaces.
func machineManifest() (string, error) {
	var all strings.Builder
	for _, api := range machineAPIs {
		crd, err := os.ReadFile(filepath.Join(moduleRoot, api.crd))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "\n---\n%s\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", crd, api.name)
	}
	return all.String(), nil
}

// machineConfig says how the judge judges Machines.
func machineConfig() *rules.MachineConfig {
	return &rules.MachineConfig{BackOff: rules.BackOff{Base: machinehealth.DefaultBackOffBase, Cap: machinehealth.DefaultBackOffCap}}
}

// createMachines creates a number of Machines of each API, with an owner that replaces them, and a MachineHealthCheck
// for them. NodeHealthChecks select their Nodes, too. Budgets limit the remediations of Machines, and those of all
// nodes.
func (e *environment) createMachines(n int) {
	e.t.Helper()
	for _, api := range machineAPIs {
		owner, err := e.kube.CoreV1().ConfigMaps(api.name).Create(e.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "owner-"}}, metav1.CreateOptions{})
		require.NoError(e.t, err)
		machines := &machineset.Machines{
			Kube: e.kube, Dynamic: e.dynamic, Resource: api.resource, Namespace: api.name,
			Owner:    metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)},
			NodeName: func(machine string) string { return machine },
		}
		require.NoError(e.t, machines.CreateHome(e.t.Context(), api.name+"-home"))
		e.machines = append(e.machines, machines)
		_, err = e.nhc.MachineV1beta1().MachineHealthChecks(api.name).Create(e.t.Context(), api.check(), metav1.CreateOptions{FieldManager: loader})
		require.NoError(e.t, err)
		e.createBudget(api.name, nhcv1alpha1.RemediationBudgetSpec{
			MachineSelector: &nhcv1alpha1.BudgetMachineSelector{Namespace: api.name}, MaxConcurrent: new(intstr.FromInt32(1)),
		})
		e.runSet(machines, n)
	}
	e.createBudget(budgetOfNodes, nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromString("50%"))})
}

// check returns the MachineHealthCheck for the Machines of an API. It deletes them.
func (a *machineAPI) check() *v1beta1.MachineHealthCheck {
	return &v1beta1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Annotations: a.annotations},
		Spec: v1beta1.MachineHealthCheckSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}},
			UnhealthyConditions: []v1beta1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: "300ms"}, {Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: "600ms"},
			},
		},
	}
}

// runSet keeps this number of Machines until the end of the test. Each joins at once.
func (e *environment) runSet(machines *machineset.Machines, n int) {
	e.t.Helper()
	set := &machineset.Set{
		Machines: machines, Replicas: n,
		Name: func(n int) string { return fmt.Sprintf("%s-%d", machines.Namespace, n) },
		Provide: func(ctx context.Context, machine string) error {
			return machines.Join(ctx, machine, func(node *corev1.Node) { node.Labels[poolLabel] = pools[0] })
		},
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(e.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- set.Run(ctx) }()
	e.t.Cleanup(func() {
		stop()
		require.NoError(e.t, <-ended)
	})
	patience.Eventually(e.t, "the Machines", func() bool { return len(set.Created()) >= n })
}

func (e *environment) createBudget(name string, spec nhcv1alpha1.RemediationBudgetSpec) {
	e.t.Helper()
	_, err := e.nhc.NHCV1alpha1().RemediationBudgets().Create(e.t.Context(), &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{FieldManager: loader})
	require.NoError(e.t, err)
}

// someMachineNode calls f with the Node of one of the Machines.
func (l *load) someMachineNode(ctx context.Context, f func(node string) error) error {
	machines := l.e.machines[l.e.random.IntN(len(l.e.machines))]
	list, err := machines.Client().List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	return f(machines.NodeName(list.Items[l.e.random.IntN(len(list.Items))].GetName()))
}

func (l *load) failMachine(ctx context.Context) error {
	return l.someMachineNode(ctx, func(node string) error { return l.e.setReady(ctx, node, "False", l.transition()) })
}

func (l *load) healMachine(ctx context.Context) error {
	return l.someMachineNode(ctx, func(node string) error { return l.e.setReady(ctx, node, "True", l.transition()) })
}

// editCheck changes how many Machines may be unhealthy.
func (l *load) editCheck(ctx context.Context) error {
	name := machineAPIs[l.e.random.IntN(len(machineAPIs))].name
	return l.e.changeCheck(ctx, name, map[string]any{"maxUnhealthy": []any{0, 1, "60%", nil, nil}[l.e.random.IntN(5)]})
}

func (l *load) editBudget(ctx context.Context) error {
	edits := []map[string]any{
		{"maxConcurrent": 0, "minInterval": nil}, {"maxConcurrent": 1, "minInterval": nil}, {"maxConcurrent": "50%", "minInterval": nil},
		{"maxConcurrent": nil, "minInterval": "1s"}, {"maxConcurrent": nil, "minInterval": nil, "maxUnhealthy": "60%"}, {"maxUnhealthy": nil, "maxConcurrent": "30%", "minInterval": "1s"},
	}
	names := []string{budgetOfNodes, machineAPIs[0].name, machineAPIs[1].name}
	return l.e.changeBudget(ctx, names[l.e.random.IntN(len(names))], edits[l.e.random.IntN(len(edits))])
}

// changeCheck merges a patch into the spec of a MachineHealthCheck, and changeBudget into that of a budget.
func (e *environment) changeCheck(ctx context.Context, name string, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = e.nhc.MachineV1beta1().MachineHealthChecks(name).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
	return err
}

func (e *environment) changeBudget(ctx context.Context, name string, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = e.nhc.NHCV1alpha1().RemediationBudgets().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
	return err
}

// calmMachines has MachineHealthChecks and budgets let everything begin.
func (e *environment) calmMachines() {
	e.t.Helper()
	if e.machines == nil {
		return
	}
	everything := map[string]any{"maxConcurrent": "100%", "maxUnhealthy": nil, "minInterval": nil}
	require.NoError(e.t, e.changeBudget(e.t.Context(), budgetOfNodes, everything))
	for _, machines := range e.machines {
		require.NoError(e.t, e.changeBudget(e.t.Context(), machines.Namespace, everything))
		require.NoError(e.t, e.changeCheck(e.t.Context(), machines.Namespace, map[string]any{"maxUnhealthy": nil}))
	}
}

// removeMachines removes all of it.
func (e *environment) removeMachines(ctx context.Context) {
	if e.machines == nil {
		return
	}
	require.NoError(e.t, e.nhc.NHCV1alpha1().RemediationBudgets().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	for _, machines := range e.machines {
		require.NoError(e.t, e.nhc.MachineV1beta1().MachineHealthChecks(machines.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		list, err := machines.Client().List(ctx, metav1.ListOptions{})
		require.NoError(e.t, err)
		for i := range list.Items {
			name := list.Items[i].GetName()
			require.NoError(e.t, machines.Terminate(ctx, name))
			if err := machines.Client().Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				require.NoError(e.t, err)
			}
		}
	}
}

// requireSeenMachines requires that the referee has seen enough of Machines and budgets, and that no process took
// the MachineHealthChecks that it looks after for those of another controller (spec 6.9).
func (e *environment) requireSeenMachines(deletions int) {
	e.t.Helper()
	events, err := e.kube.EventsV1().Events("").List(e.t.Context(), metav1.ListOptions{FieldSelector: "reason=Disabled"})
	require.NoError(e.t, err)
	for i := range events.Items {
		require.NotContains(e.t, events.Items[i].Note, "MachineHealthCheck", "M15.1: no NodeHealthCheck is Disabled by one")
	}
	figures := e.referee.Figures()
	require.GreaterOrEqual(e.t, figures.MachineDeletions, deletions, "Machines deleted: %s", figures.JSON())
	for _, rule := range []string{"B3.2", "B5.2", "M6.2", "M7.1", "M8.4", "M10.3", "M15.1", "M15.2", "M16.1"} {
		require.Positive(e.t, figures.Checks[rule], "%s was not checked: %s", rule, figures.JSON())
	}
}
