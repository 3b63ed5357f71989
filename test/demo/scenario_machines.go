// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/machineset"
)

// machines shows a MachineHealthCheck. The node of a Machine falls silent: the
// controller deletes the Machine, and its MachineSet replaces it. Then new Machines
// never join: the controller deletes the first of them at once, and waits with the
// second one, until the cause is repaired.
var machines = scenario{
	name:    "machines",
	shows:   "a MachineHealthCheck replaces Machines, and backs off from those that never join",
	options: localkube.Options{NodeLifecycle: true, Kubelets: true},
	args:    []string{"--machine-backoff-base=20s", "--machine-backoff-cap=40s"},
	start: func(d *demo) play {
		return &machinesPlay{demo: d, readiness: readiness{}, machines: map[string]machine{}}
	},
}

const machineNamespace = "openshift-machine-api"

// instanceStart is how long the instance of a Machine takes to start.
const instanceStart = time.Second

var (
	//go:embed machineset.yaml
	machineSetManifest string
	//go:embed machinehealthcheck.yaml
	machineHealthCheckManifest string

	machineResource    = schema.GroupVersionResource{Group: v1beta1.MachineAPIOpenShift, Version: "v1beta1", Resource: "machines"}
	machineSetResource = machineResource.GroupVersion().WithResource("machinesets")
)

// machineCRD is OpenShift's, from the root of the module.
const machineCRD = "test/integration/testdata/remediators/openshift/crd/0000_10_machine-api_01_machines-Default.crd.yaml"

// machinesPlay plays the scenario machines. The timeline's lock guards what it has
// seen.
type machinesPlay struct {
	*demo
	set *machineset.Set
	// broken keeps new Machines from joining.
	broken atomic.Bool

	readiness readiness
	machines  map[string]machine
	status    v1beta1.MachineHealthCheckStatus
}

func (p *machinesPlay) install(ctx context.Context) error {
	fmt.Println("Applying manifests/overlays/machine-health-check, OpenShift's kind Machine, and MachineSet workers with 3 replicas")
	if err := deploy.InstallOverlay(ctx, p.cluster, "machine-health-check"); err != nil {
		return err
	}
	root, err := deploy.ModuleRoot()
	if err != nil {
		return err
	}
	if _, err := p.cluster.Kubectl(ctx, "apply", "-f", filepath.Join(root, machineCRD)); err != nil {
		return err
	}
	kind, set, _ := strings.Cut(machineSetManifest, "\n---\n")
	if err := p.apply(ctx, kind); err != nil {
		return err
	}
	if err := p.awaitKinds(ctx); err != nil {
		return err
	}
	if err := p.apply(ctx, set); err != nil {
		return err
	}
	owner, err := p.machineSet(ctx)
	if err != nil {
		return err
	}
	p.set = &machineset.Set{
		Machines: &machineset.Machines{
			Kube: p.kube, Dynamic: p.dynamic, Resource: machineResource, Namespace: machineNamespace,
			Owner:    *metav1.NewControllerRef(owner, owner.GroupVersionKind()),
			NodeName: nodeOfMachine,
		},
		Replicas: p.replicas,
		Name:     func(n int) string { return fmt.Sprintf("worker-%d", n) },
		Provide:  p.provide,
	}
	return nil
}

func nodeOfMachine(machine string) string { return strings.Replace(machine, "worker", "node", 1) }

func (p *machinesPlay) machineSet(ctx context.Context) (*unstructured.Unstructured, error) {
	return p.dynamic.Resource(machineSetResource).Namespace(machineNamespace).Get(ctx, "workers", metav1.GetOptions{})
}

func (p *machinesPlay) replicas(ctx context.Context) (int, error) {
	set, err := p.machineSet(ctx)
	if err != nil {
		return 0, err
	}
	replicas, _, err := unstructured.NestedInt64(set.Object, "spec", "replicas")
	return int(replicas), err
}

// provide gives a new Machine a Node with a kubelet, or an instance that does not join.
func (p *machinesPlay) provide(ctx context.Context, machine string) error {
	select {
	case <-time.After(instanceStart):
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.broken.Load() {
		return p.set.PatchStatus(ctx, machine, map[string]any{"phase": "Provisioned"})
	}
	return p.set.Join(ctx, machine, func(node *corev1.Node) {
		node.Labels[localkube.HeartbeatLabel] = localkube.HeartbeatValue
		node.Status = corev1.NodeStatus{}
	})
}

// simulate plays the MachineSet and the provider of its Machines.
func (p *machinesPlay) simulate(ctx context.Context) error { return p.set.Run(ctx) }

func (p *machinesPlay) run(ctx context.Context) error {
	fmt.Print("Creating MachineHealthCheck workers\n\n")
	if err := p.await(ctx, step{"all nodes are Ready", func() bool { return p.readiness.ready() == 3 }}); err != nil {
		return err
	}
	if err := p.apply(ctx, machineHealthCheckManifest); err != nil {
		return err
	}
	if err := p.await(ctx, p.healthy(3)); err != nil {
		return err
	}
	if err := p.replaceUnhealthy(ctx); err != nil {
		return err
	}
	if err := p.backOff(ctx); err != nil {
		return err
	}
	if err := p.show(ctx, "get", "machinehealthchecks.machine.openshift.io", "-n", machineNamespace); err != nil {
		return err
	}
	if err := p.show(ctx, "get", "machinehealthchecks.machine.openshift.io", "workers", "-n", machineNamespace, "-o", "jsonpath="+replacements); err != nil {
		return err
	}
	fmt.Println("\nThe Machine of the silent node was replaced. Of those that never joined, the first was deleted at once, the second later. Done.")
	return nil
}

// replaceUnhealthy has the node of a Machine fail.
func (p *machinesPlay) replaceUnhealthy(ctx context.Context) error {
	if err := p.silence(ctx, "node-2"); err != nil {
		return err
	}
	return p.await(ctx,
		step{"Kubernetes marks node-2 as not Ready", func() bool { return p.readiness["node-2"] == corev1.ConditionUnknown }},
		p.gone("worker-2"),
		p.joined("worker-4"),
		p.healthy(3),
		p.replaced("node-2", "worker-4"),
	)
}

// backOff has new Machines never join, and repairs that while the controller waits.
func (p *machinesPlay) backOff(ctx context.Context) error {
	p.broken.Store(true)
	p.timeline.say("demo", "instances that start from now on do not join the cluster")
	scale := []string{"scale", "machinesets.machine.openshift.io", "workers", "--replicas=4", "-n", machineNamespace}
	p.timeline.say("demo", commandLine(scale))
	if _, err := p.cluster.Kubectl(ctx, scale...); err != nil {
		return err
	}
	err := p.await(ctx,
		step{"worker-5 has an instance", func() bool { return p.machines["worker-5"].phase != "" }},
		p.gone("worker-5"),
		step{"the controller backs off from worker-6", func() bool {
			decision := decisionAbout(p.status, "worker-6")
			return decision.Reason == v1beta1.DecidedBackOff && decision.NextCheckTime != nil
		}},
	)
	if err != nil {
		return err
	}
	p.broken.Store(false)
	p.timeline.say("demo", "the cause is repaired: the next instance will join")
	return p.await(ctx, p.gone("worker-6"), p.joined("worker-7"), p.healthy(4), p.replaced("worker-6", "worker-7"))
}

func (p *machinesPlay) healthy(count int) step {
	return step{fmt.Sprintf("the MachineHealthCheck has %d healthy Machines of %d", count, count), func() bool {
		return p.status.ExpectedMachines != nil && *p.status.ExpectedMachines == count && p.status.CurrentHealthy != nil && *p.status.CurrentHealthy == count
	}}
}

func (p *machinesPlay) gone(name string) step {
	return step{name + " is gone", func() bool {
		_, exists := p.machines[name]
		return !exists
	}}
}

func (p *machinesPlay) joined(name string) step {
	return step{name + " has a node that is Ready", func() bool {
		return p.machines[name].node != "" && p.readiness[p.machines[name].node] == corev1.ConditionTrue
	}}
}

// replaced: the history has the remediation of a Node or Machine as finished.
func (p *machinesPlay) replaced(target, replacement string) step {
	return step{"the history has the replacement of " + target, func() bool {
		for _, entry := range p.status.RemediationHistory {
			if entry.TargetName == target && entry.Replacement == replacement && entry.Finished != nil {
				return true
			}
		}
		return false
	}}
}

// replacements shows the history of a MachineHealthCheck.
const replacements = `{range .status.remediationHistory[*]}` +
	`{.targetKind} {.targetName}{"\n"}` +
	`  trigger      {.reason}{.conditionType} {.conditionStatus}{"\n"}` +
	`  detected     {.detected}{"\n"}` +
	`  started      {.started} ({.remediationType}){"\n"}` +
	`  fenced       {.fenced}{"\n"}` +
	`  replacement  {.replacement}{"\n"}` +
	`  finished     {.finished}{"\n"}` +
	`  closed       {.closed}{"\n"}{end}`

func (p *machinesPlay) hints() []string {
	return []string{
		"k get machinehealthchecks.machine.openshift.io,machinesets,machines -n " + machineNamespace,
		"k describe machinehealthchecks.machine.openshift.io workers -n " + machineNamespace,
		"k label node node-1 " + localkube.HeartbeatLabel + "-      # node-1 falls silent",
		"k scale machinesets workers --replicas=6 -n " + machineNamespace,
		"k get machines -n " + machineNamespace + " --watch",
	}
}

func (p *machinesPlay) watches() []watch {
	kube := informers.NewSharedInformerFactory(p.kube, 0)
	return []watch{
		{kube.Core().V1().Nodes().Informer(), func(object any, deleted bool) {
			p.readiness.see(p.timeline, object.(*corev1.Node), deleted)
		}},
		{kube.Events().V1().Events().Informer(), func(object any, deleted bool) {
			if event := object.(*eventsv1.Event); !deleted && event.ReportingController == "machinehealthcheck-controller" && event.Regarding.Kind == "Machine" {
				p.timeline.sayEvent(event)
			}
		}},
		{dynamicinformer.NewFilteredDynamicInformer(p.dynamic, machineResource, machineNamespace, 0, cache.Indexers{}, nil).Informer(), func(object any, deleted bool) {
			p.seeMachine(object.(*unstructured.Unstructured), deleted)
		}},
		{nhcinformers.NewSharedInformerFactory(p.nhc, 0).Machine().V1beta1().MachineHealthChecks().Informer(), func(object any, _ bool) {
			p.seeCheck(object.(*v1beta1.MachineHealthCheck))
		}},
	}
}

func (p *machinesPlay) seeMachine(object *unstructured.Unstructured, deleted bool) {
	name := object.GetName()
	if deleted {
		delete(p.machines, name)
		p.timeline.say("machine", name+" is gone")
		return
	}
	before, now := p.machines[name], parseMachine(object)
	p.machines[name] = now
	if before != now && now.String() != "" {
		p.timeline.say("machine", name+" "+now.String())
	}
}

func (p *machinesPlay) seeCheck(check *v1beta1.MachineHealthCheck) {
	for _, line := range changes(p.status, check.Status) {
		p.timeline.say(line.who, line.what)
	}
	p.status = *check.Status.DeepCopy()
}

// decisionAbout returns what the controller does about a Machine that is not healthy.
func decisionAbout(status v1beta1.MachineHealthCheckStatus, machine string) v1alpha1.Decision {
	for i := range status.UnhealthyMachines {
		if status.UnhealthyMachines[i].Name == machine {
			return status.UnhealthyMachines[i].Decision
		}
	}
	return v1alpha1.Decision{}
}
