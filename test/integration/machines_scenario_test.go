// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/machineset"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// machineScenario is one MachineHealthCheck with its Machines, their Nodes and their owner, in a
// namespace of its own.
type machineScenario struct {
	*cluster
	t *testing.T
	// name is that of the namespace, the MachineHealthCheck and the owner, and the prefix of the
	// Machines and Nodes.
	name string
	// api is that of the Machines.
	api   machineAPI
	owner metav1.OwnerReference
	// provided creates Machines and gives them Nodes.
	provided *machineset.Machines
}

func newMachineScenario(t *testing.T, c *cluster, kind optionalKind) *machineScenario {
	t.Helper()
	s := &machineScenario{cluster: c, t: t, name: uniqueName(t.Name()), api: apiOf(kind)}
	_, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Logf("scenario %s", s.name)
	// Any controller may own Machines: this one is a ConfigMap, and the test plays its controller.
	owner, err := c.kube.CoreV1().ConfigMaps(s.name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}
	s.provided = &machineset.Machines{
		Kube: c.kube, Dynamic: c.dynamic, Resource: kind.resource, Namespace: s.name, Owner: s.owner, NodeName: s.nodeName,
	}
	t.Cleanup(func() {
		if t.Failed() {
			output, err := s.Kubectl(context.WithoutCancel(t.Context()), "get", "machinehealthchecks.machine.openshift.io", "-n", s.name, "-o", "yaml")
			t.Logf("MachineHealthChecks at the end:\n%s%v", output, err)
		}
	})
	require.NoError(t, s.provided.CreateHome(t.Context(), s.nodeName("home")))
	return s
}

func (s *machineScenario) machines() dynamic.ResourceInterface { return s.provided.Client() }

// eventually waits until something holds.
func (s *machineScenario) eventually(what string, holds func() bool) {
	s.t.Helper()
	patience.Eventually(s.t, what, holds)
}

// check returns a MachineHealthCheck that finds a Machine unhealthy as soon as its Node is not
// ready; change changes it.
func (s *machineScenario) check(change ...func(*v1beta1.MachineHealthCheck)) *v1beta1.MachineHealthCheck {
	check := &v1beta1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: v1beta1.MachineHealthCheckSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}},
			UnhealthyConditions: []v1beta1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: "0s"},
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: "0s"},
			},
			NodeStartupTimeout: new("0"),
		},
	}
	check.Annotations = maps.Clone(s.api.annotations)
	for _, c := range change {
		c(check)
	}
	return check
}

// createCheck creates a MachineHealthCheck and waits until it was synced once.
func (s *machineScenario) createCheck(change ...func(*v1beta1.MachineHealthCheck)) *v1beta1.MachineHealthCheck {
	s.t.Helper()
	created, err := s.nhc.MachineV1beta1().MachineHealthChecks(s.name).Create(s.t.Context(), s.check(change...), metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.eventually("the MachineHealthCheck has a status", func() bool { return s.statusOf(created.Name).ExpectedMachines != nil })
	return created
}

func (s *machineScenario) status() v1beta1.MachineHealthCheckStatus { return s.statusOf(s.name) }

func (s *machineScenario) statusOf(name string) v1beta1.MachineHealthCheckStatus {
	s.t.Helper()
	check, err := s.nhc.MachineV1beta1().MachineHealthChecks(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return check.Status
}

// eventuallyCounts waits until status has these counts.
func (s *machineScenario) eventuallyCounts(expected, healthy int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d machines expected, %d healthy", expected, healthy), func() bool {
		status := s.status()
		return *status.ExpectedMachines == expected && *status.CurrentHealthy == healthy
	})
}

// entry returns what status says of a Machine, nil if nothing.
func (s *machineScenario) entry(machine string) *v1beta1.UnhealthyMachine {
	s.t.Helper()
	status := s.status()
	for i := range status.UnhealthyMachines {
		if status.UnhealthyMachines[i].Name == machine {
			return &status.UnhealthyMachines[i]
		}
	}
	return nil
}

// eventuallyDecided waits until the decision about a Machine has this reason.
func (s *machineScenario) eventuallyDecided(machine, reason string) *v1beta1.UnhealthyMachine {
	s.t.Helper()
	var entry *v1beta1.UnhealthyMachine
	s.eventually("decision "+reason+" about "+machine, func() bool {
		entry = s.entry(machine)
		return entry != nil && string(entry.Decision.Reason) == reason
	})
	return entry
}

// machine returns a Machine, nil if there is none.
func (s *machineScenario) machine(name string) *unstructured.Unstructured {
	s.t.Helper()
	machine, err := s.machines().Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return machine
}

func (s *machineScenario) eventuallyGone(machine string) {
	s.t.Helper()
	s.eventually("Machine "+machine+" is gone", func() bool { return s.machine(machine) == nil })
}

// createMachine creates a Machine that is owned, without a Node, and change changes it.
func (s *machineScenario) createMachine(name string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	s.t.Helper()
	machine, err := s.provided.Create(s.t.Context(), name, change...)
	require.NoError(s.t, err)
	return machine
}

// join gives a Machine a Node that is ready, with the name of the Machine.
func (s *machineScenario) join(machines ...string) {
	s.t.Helper()
	for _, name := range machines {
		require.NoError(s.t, s.joins(s.t.Context(), name))
	}
}

// nodeName returns the name of the Node of a Machine: Nodes have no namespace.
func (s *machineScenario) nodeName(machine string) string { return s.name + "-" + machine }

// joins is the provider whose Machines all get a Node.
func (s *machineScenario) joins(ctx context.Context, machine string) error {
	return s.provided.Join(ctx, machine, func(node *corev1.Node) { node.Labels[scenarioLabel] = s.name })
}

// setReady sets the condition Ready of the Node of a Machine, from now on.
func (s *machineScenario) setReady(machine string, status corev1.ConditionStatus) {
	s.t.Helper()
	s.cluster.setNodeCondition(s.t, s.nodeName(machine), readyCondition(status, time.Now()))
}

// deleteRequests returns the controller's requests to delete Machines of the scenario, of one name
// or of all.
func (s *machineScenario) deleteRequests(name string) []localkube.Request {
	s.t.Helper()
	return s.audited(s.t, func(r localkube.Request) bool {
		return r.User == deploy.User && r.Verb == "delete" && r.Resource == "machines" && r.Namespace == s.name && (name == "" || r.Name == name)
	})
}

// startMachineSet starts the stand-in for the controller of the owner, and for the provider. It
// stops at the end of the test.
func (s *machineScenario) startMachineSet(replicas int, provide func(ctx context.Context, machine string) error) *machineset.Set {
	s.t.Helper()
	set := &machineset.Set{
		Machines: s.provided, Replicas: replicas, Provide: provide,
		Name: func(n int) string { return fmt.Sprintf("m%d", n) },
	}
	s.run(set)
	return set
}

// run runs a MachineSet until the end of the test.
func (s *machineScenario) run(set *machineset.Set) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- set.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		require.NoError(s.t, <-ended)
	})
}

// events returns the notes of all events with this reason about an object of the scenario.
func (s *machineScenario) events(kind, name, reason string) []string {
	s.t.Helper()
	return s.eventNotes(s.t, s.name, "machinehealthcheck-controller", kind, name, reason) // M17.1
}

func (s *machineScenario) eventuallyEvent(kind, name, reason, note string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("event %s on %s %s: %s", reason, kind, name, note), func() bool { return slices.Contains(s.events(kind, name, reason), note) })
}

// startMachineHealthChecks installs the controller with MachineHealthChecks, and runs it. The
// kinds of Machines are served.
func (c *cluster) startMachineHealthChecks(t *testing.T, overlay string, args ...string) *localkube.Process {
	t.Helper()
	for _, api := range machineAPIs {
		c.installOptional(t, append([]optionalKind{api.machine}, api.others...)...)
	}
	if overlay == openShiftOverlay {
		c.installOptional(t, machineHealthCheck)
	}
	c.createNamespaces(t, machineNamespace, "openshift-etcd")
	c.applyOverlay(t, overlay)
	controller := c.startController(t, strings.NewReplacer("/", "-", "_", "-").Replace(strings.ToLower(t.Name())), args...)
	eventuallyLogged(t, controller, "Looking after MachineHealthChecks")
	return controller
}

func hasMachineCondition(status v1beta1.MachineHealthCheckStatus, conditionType string, want corev1.ConditionStatus) bool {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return status.Conditions[i].Status == want
		}
	}
	return false
}
