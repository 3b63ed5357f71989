// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// machineNamespace has the Machines, one for each node.
const machineNamespace = "machines"

var machineResource = schema.GroupVersionResource{Group: "machine.openshift.io", Version: "v1beta1", Resource: "machines"}

// machineCRD defines Machines with any content.
const machineCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: machines.machine.openshift.io
  annotations:
    api-approved.kubernetes.io: unapproved, of the benchmark
spec:
  group: machine.openshift.io
  names: {kind: Machine, listKind: MachineList, plural: machines, singular: machine}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// machinesOutcome is how soon Machines that fail are requested to be deleted, and what that costs.
type machinesOutcome struct {
	// From the moment at which the failure was sent until the Machine was seen to be gone.
	Gone distribution

	Idle *consumption
	*consumption

	RequestsPerReplacement float64
	EventsPerReplacement   float64
}

// fleet are the Machines of an environment, and when the bench saw each of them go.
type fleet struct {
	*environment
	machines dynamic.ResourceInterface

	mu   sync.Mutex
	gone map[string]time.Time
}

// measureMachines measures one MachineHealthCheck that deletes Machines, beside the NodeHealthCheck.
// Their nodes are healthy: the phase of a Machine fails.
func measureMachines(ctx context.Context, e *environment) (outcome, error) {
	f := &fleet{environment: e, machines: e.admin.dynamic.Resource(machineResource).Namespace(machineNamespace), gone: map[string]time.Time{}}
	e.stopController()
	if err := f.install(ctx); err != nil {
		return nil, err
	}
	stop, err := f.watchMachines(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := e.startProcess(ctx); err != nil {
		return nil, err
	}
	if err := f.awaitHealthy(ctx); err != nil {
		return nil, fmt.Errorf("%w\nlast lines of the controller's log:\n%s", err, e.controller.LogTail())
	}
	if err := e.waitUntilIdle(ctx); err != nil {
		return nil, err
	}
	r := &machinesOutcome{}
	if r.Idle, err = e.consume(func() error { return sleep(ctx, e.options.duration) }); err != nil {
		return nil, err
	}
	if err := f.measure(ctx, r); err != nil {
		return nil, err
	}
	return r, f.remove(ctx)
}

// install brings the CRD, the overlay, all Machines and the MachineHealthCheck into the cluster.
func (f *fleet) install(ctx context.Context) error {
	if _, err := f.cluster.KubectlInput(ctx, strings.NewReader(machineCRD), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("defining Machines: %w", err)
	}
	if err := deploy.InstallOverlay(ctx, f.cluster, "machine-health-check"); err != nil {
		return err
	}
	if _, err := f.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/machines.machine.openshift.io", "crd/machinehealthchecks.machine.openshift.io"); err != nil {
		return fmt.Errorf("waiting for the CRDs: %w", err)
	}
	if _, err := f.admin.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: machineNamespace}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the namespace of the Machines: %w", err)
	}
	if err := sideBySide(ctx, f.nodes, writers, func(ctx context.Context, i int) error { return f.createMachine(ctx, nodeName(i)) }); err != nil {
		return err
	}
	check := &v1beta1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: nhcName},
		Spec: v1beta1.MachineHealthCheckSpec{
			Selector:            metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: groupMeasured}},
			UnhealthyConditions: []v1beta1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: "300s"}},
		},
	}
	if _, err := f.admin.nhc.MachineV1beta1().MachineHealthChecks(machineNamespace).Create(ctx, check, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the MachineHealthCheck: %w", err)
	}
	return nil
}

// createMachine creates the Machine of a node, which owns it: each owner has its own back-off.
func (f *fleet) createMachine(ctx context.Context, name string) error {
	node, err := f.admin.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading a node: %w", err)
	}
	machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	machine.SetGroupVersionKind(machineResource.GroupVersion().WithKind("Machine"))
	machine.SetName(name)
	machine.SetLabels(map[string]string{groupLabel: node.Labels[groupLabel]})
	owner := ownerOf(node)
	owner[0].Controller = new(true)
	machine.SetOwnerReferences(owner)
	if _, err := f.machines.Create(ctx, machine, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a Machine: %w", err)
	}
	return f.patchMachine(ctx, name, map[string]any{"phase": "Running", "nodeRef": map[string]any{"kind": "Node", "name": name}})
}

func (f *fleet) patchMachine(ctx context.Context, name string, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if _, err := f.machines.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("patching the status of a Machine: %w", err)
	}
	return nil
}

// watchMachines sees Machines go until stop is called.
func (f *fleet) watchMachines(ctx context.Context) (stop func(), err error) {
	list := func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, error) {
		return f.machines.List(ctx, o)
	}
	watcher, err := watchFrom(ctx, list, f.machines.Watch)
	if err != nil {
		return nil, fmt.Errorf("watching Machines: %w", err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			if machine, ok := event.Object.(*unstructured.Unstructured); ok && event.Type == watch.Deleted {
				f.mu.Lock()
				f.gone[machine.GetName()] = time.Now()
				f.mu.Unlock()
			}
		}
	}()
	return watcher.Stop, nil
}

// awaitHealthy waits until status shows all Machines as healthy.
func (f *fleet) awaitHealthy(ctx context.Context) error {
	return f.await(ctx, "a status with all Machines healthy", func() (bool, error) {
		check, err := f.admin.nhc.MachineV1beta1().MachineHealthChecks(machineNamespace).Get(ctx, nhcName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return check.Status.CurrentHealthy != nil && *check.Status.CurrentHealthy == f.nodes && len(check.Status.UnhealthyMachines) == 0, nil
	})
}

// await looks again and again. What is measured is not measured by that.
func (f *fleet) await(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

// measure takes all samples.
func (f *fleet) measure(ctx context.Context, r *machinesOutcome) error {
	var times []time.Duration
	var err error
	r.consumption, err = f.consume(func() error {
		for range f.options.samples {
			took, err := f.replace(ctx, nodeName(f.random.IntN(f.nodes)))
			if err != nil {
				return err
			}
			times = append(times, took)
		}
		return f.waitUntilIdle(ctx)
	})
	if err != nil {
		return err
	}
	r.Gone = distributionOf(times)
	requests, events := r.Requests.others, r.Requests.events
	r.RequestsPerReplacement = float64(requests) / float64(f.options.samples)
	r.EventsPerReplacement = float64(events) / float64(f.options.samples)
	return nil
}

// replace makes a Machine fail, and makes another one when it is gone.
func (f *fleet) replace(ctx context.Context, name string) (time.Duration, error) {
	begin := time.Now()
	if err := f.patchMachine(ctx, name, map[string]any{"phase": "Failed"}); err != nil {
		return 0, err
	}
	var gone time.Time
	err := f.await(ctx, "the deletion of Machine "+name, func() (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		gone = f.gone[name]
		return gone.After(begin), nil
	})
	if err == nil {
		err = f.createMachine(ctx, name)
	}
	if err == nil {
		err = f.awaitHealthy(ctx)
	}
	return gone.Sub(begin), err
}

// remove leaves nothing that other scenarios could notice.
func (f *fleet) remove(ctx context.Context) error {
	if err := f.admin.nhc.MachineV1beta1().MachineHealthChecks(machineNamespace).Delete(ctx, nhcName, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the MachineHealthCheck: %w", err)
	}
	return nil
}

func (r *machinesOutcome) goals() []goal {
	idle, idleEvents := r.Idle.Requests.others, r.Idle.Requests.events
	goals := []goal{
		{Scenario: "machines", What: "Failed to Machine gone, p50", Value: r.Gone.P50, Unit: "ms"},
		{Scenario: "machines", What: "requests per replacement", Value: r.RequestsPerReplacement},
		{Scenario: "machines", What: "events per replacement", Value: r.EventsPerReplacement},
		{Scenario: "machines", What: "memory idle (RSS)", Value: megabytes(r.Idle.RSS), Unit: "MB"},
		{Scenario: "machines", What: "CPU idle", Value: r.Idle.Cores, Unit: "cores"},
		{Scenario: "machines", What: "requests idle", Value: float64(idle + idleEvents), AtMost: new(0.0)},
	}
	if r.Gone.Count >= enoughForP99 {
		goals = append(goals, goal{Scenario: "machines", What: "Failed to Machine gone, p99", Value: r.Gone.P99, Unit: "ms"})
	}
	return goals
}
