// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// nodes shows the whole loop of a NodeHealthCheck: a node stops sending heartbeats,
// Kubernetes marks it NotReady, the controller finds it unhealthy and creates a
// remediation, a remediator repairs the node, and the remediation goes.
var nodes = scenario{
	name:    "nodes",
	shows:   "a NodeHealthCheck repairs a node with a remediator",
	options: localkube.Options{NodeLifecycle: true, Kubelets: true},
	start:   func(d *demo) play { return newNodesPlay(d) },
}

const (
	workers = 10
	victim  = "worker-3"
	nhcName = "workers"
)

// nodesPlay plays the scenario nodes. The timeline's lock guards what it has seen.
type nodesPlay struct {
	*demo
	readiness    readiness
	last         v1alpha1.NodeHealthCheckStatus
	phases       sets.Set[v1alpha1.Phase]
	remediations sets.Set[string]
	everCreated  bool
	events       sets.Set[string]
}

func newNodesPlay(d *demo) *nodesPlay {
	return &nodesPlay{
		demo: d, readiness: readiness{}, phases: sets.New[v1alpha1.Phase](),
		remediations: sets.New[string](), events: sets.New[string](),
	}
}

// install does what a user does: apply the manifest, and install a remediator.
func (p *nodesPlay) install(ctx context.Context) error {
	fmt.Println("Applying manifests/install.yaml, and the manifest of a demo remediator")
	if err := deploy.Install(ctx, p.ControlPlane); err != nil {
		return err
	}
	kinds := deploy.Kinds{Manifest: remediator.Manifest, Group: remediator.Resource.Group}
	if err := deploy.InstallKinds(ctx, p.ControlPlane, kinds); err != nil {
		return err
	}
	return p.apply(ctx, remediator.TemplateManifest)
}

func (p *nodesPlay) simulate(ctx context.Context) error {
	repairs := &remediator.Remediator{Kube: p.Kube, Dynamic: p.Dynamic, HeartbeatLabel: localkube.HeartbeatLabel, HeartbeatValue: localkube.HeartbeatValue}
	return repairs.Run(ctx)
}

func (p *nodesPlay) run(ctx context.Context) error {
	fmt.Printf("Creating %d nodes that send heartbeats, and NodeHealthCheck %s\n\n", workers, nhcName)
	if err := p.createNodes(ctx); err != nil {
		return err
	}
	if err := p.await(ctx, step{"all nodes are Ready", func() bool { return p.readiness.ready() == workers }}); err != nil {
		return err
	}
	if err := p.apply(ctx, remediator.NodeHealthCheckManifest); err != nil {
		return err
	}
	enabled := func() bool {
		return p.last.Phase == v1alpha1.PhaseEnabled && number(p.last.ObservedNodes) == workers && number(p.last.HealthyNodes) == workers
	}
	if err := p.await(ctx, step{"the NodeHealthCheck says Enabled, with all nodes healthy", enabled}); err != nil {
		return err
	}
	if err := p.silence(ctx, victim); err != nil {
		return err
	}
	err := p.await(ctx,
		step{"Kubernetes marks " + victim + " as not Ready", func() bool { return p.readiness[victim] == corev1.ConditionUnknown }},
		step{"the controller creates a remediation", func() bool { return p.everCreated }},
		step{"the NodeHealthCheck says Remediating", func() bool { return p.phases.Has(v1alpha1.PhaseRemediating) }},
		step{"the events tell of it", func() bool { return p.events.HasAll("DetectedUnhealthy", "RemediationCreated") }},
		step{"the remediator repairs " + victim, func() bool { return p.readiness[victim] == corev1.ConditionTrue }},
		step{"the remediation is gone", func() bool { return p.remediations.Len() == 0 }},
		step{"the NodeHealthCheck says Enabled again, with all nodes healthy", enabled},
		step{"the events tell of the end", func() bool { return p.events.Has("RemediationRemoved") }},
	)
	if err != nil {
		return err
	}
	if err := p.show(ctx, "get", "nodehealthchecks"); err != nil {
		return err
	}
	if err := p.show(ctx, "get", "nodehealthcheck", nhcName, "-o", "jsonpath="+episodes); err != nil {
		return err
	}
	fmt.Println("\nThe node failed, was found, repaired and released. Done.")
	return nil
}

// episodes shows the history of a NodeHealthCheck.
const episodes = `{range .status.remediationHistory[*]}` +
	`{.node}: {.outcome}{"\n"}` +
	`  trigger   {.trigger.type}={.trigger.status} ({.trigger.reason}){"\n"}` +
	`  detected  {.detected}{"\n"}` +
	`  started   {.started}{"\n"}` +
	`  fenced    {.fenced}{"\n"}` +
	`  finished  {.finished}{"\n"}` +
	`  released  {.released}{"\n"}` +
	`{range .steps[*]}  step      {.kind} of {.templateName}, {.started} to {.ended}: {.result}{"\n"}{end}{end}`

func (p *nodesPlay) hints() []string {
	return []string{
		"bin/kubectl-nhc status --watch",
		"NODE=$(k get nodes -o name -l " + localkube.HeartbeatLabel + " | tail -n 1)",
		"k label \"$NODE\" " + localkube.HeartbeatLabel + "-      # It falls silent.",
		"bin/kubectl-nhc explain \"$NODE\"",
		"k get powercycleremediations -A --watch",
	}
}

func number(n *int32) int {
	if n == nil {
		return -1
	}
	return int(*n)
}

func (p *nodesPlay) createNodes(ctx context.Context) error {
	for i := range workers {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("worker-%d", i),
			Labels: map[string]string{
				"node-role.kubernetes.io/worker": "",
				localkube.HeartbeatLabel:         localkube.HeartbeatValue,
			},
		}}
		if _, err := p.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a node: %w", err)
		}
	}
	return nil
}

func (p *nodesPlay) watches() []watch {
	kube := informers.NewSharedInformerFactory(p.Kube, 0)
	return []watch{
		{kube.Core().V1().Nodes().Informer(), func(object any, deleted bool) {
			p.readiness.see(p.timeline, object.(*corev1.Node), deleted)
		}},
		{kube.Events().V1().Events().Informer(), func(object any, deleted bool) { p.seeEvent(object.(*eventsv1.Event), deleted) }},
		{nhcinformers.NewSharedInformerFactory(p.NHC, 0).Remediation().V1alpha1().NodeHealthChecks().Informer(), func(object any, _ bool) {
			p.seeNHC(object.(*v1alpha1.NodeHealthCheck))
		}},
		{dynamicinformer.NewFilteredDynamicInformer(p.Dynamic, remediator.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), func(object any, deleted bool) {
			p.seeCR(object.(*unstructured.Unstructured), deleted)
		}},
	}
}

func (p *nodesPlay) seeNHC(nhc *v1alpha1.NodeHealthCheck) {
	status := nhc.Status
	if status.Phase != "" && (status.Phase != p.last.Phase || number(status.HealthyNodes) != number(p.last.HealthyNodes) || len(status.UnhealthyNodes) != len(p.last.UnhealthyNodes)) {
		var names []string
		for _, node := range status.UnhealthyNodes {
			names = append(names, node.Name)
		}
		p.timeline.say("nodehealthcheck", fmt.Sprintf("%s: %s, %d of %d nodes healthy, unhealthy: [%s]",
			nhc.Name, status.Phase, number(status.HealthyNodes), number(status.ObservedNodes), strings.Join(names, " ")))
	}
	p.last = *status.DeepCopy()
	p.phases.Insert(status.Phase)
}

func (p *nodesPlay) seeCR(cr *unstructured.Unstructured, deleted bool) {
	key := cr.GetNamespace() + "/" + cr.GetName()
	switch {
	case deleted:
		p.remediations.Delete(key)
		p.timeline.say("remediation", fmt.Sprintf("%s %s deleted", cr.GetKind(), key))
	case !p.remediations.Has(key):
		p.remediations.Insert(key)
		p.everCreated = true
		p.timeline.say("remediation", fmt.Sprintf("%s %s created", cr.GetKind(), key))
	default:
		conditions, _, _ := unstructured.NestedSlice(cr.Object, "status", "conditions")
		for _, item := range conditions {
			if condition, ok := item.(map[string]any); ok {
				p.timeline.say("remediation", fmt.Sprintf("%s %s %v=%v (%v)", cr.GetKind(), key, condition["type"], condition["status"], condition["reason"]))
			}
		}
	}
}

func (p *nodesPlay) seeEvent(event *eventsv1.Event, deleted bool) {
	if deleted || event.ReportingController != "NodeHealthCheck" || event.Regarding.Kind != "NodeHealthCheck" {
		return
	}
	p.events.Insert(event.Reason)
	p.timeline.sayEvent(event)
}
