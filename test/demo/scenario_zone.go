// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// zone shows a RemediationBudget for each zone, on the cluster of scenario nodes: one zone fails as a whole, and is left
// alone until most of it is back, while a node of another zone is repaired.
var zone = scenario{
	name: "zone", shows: "a budget leaves a zone alone that fails as a whole", options: nodes.options,
	start: func(d *demo) play { return &zonePlay{nodesPlay: newNodesPlay(d)} },
}

// zonePlay plays scenario zone. The timeline's lock guards what it has seen.
type zonePlay struct {
	*nodesPlay
	// held are the messages of the nodes that wait for the budget.
	held   map[string]string
	budget nhcv1alpha1.RemediationBudgetStatus
}

// perZone is how many nodes each of three zones has.
const perZone = 3

const zoneLabel = "topology.kubernetes.io/zone"

func (p *zonePlay) run(ctx context.Context) error {
	fmt.Printf("Creating %d nodes that send heartbeats in three zones, and NodeHealthCheck %s\n\n", 3*perZone, nhcName)
	for _, letter := range "abc" {
		for i := range perZone {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%c-%d", letter, i+1),
				Labels: map[string]string{
					"node-role.kubernetes.io/worker": "", zoneLabel: "zone-" + string(letter), localkube.HeartbeatLabel: localkube.HeartbeatValue,
				},
			}}
			if _, err := p.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating a node: %w", err)
			}
		}
	}
	if err := p.await(ctx, step{"all nodes are Ready", func() bool { return p.readiness.ready() == 3*perZone }}); err != nil {
		return err
	}
	// The budget alone decides here: half of the nodes may be unhealthy for the NodeHealthCheck.
	if err := p.apply(ctx, remediator.NodeHealthCheckManifest); err != nil {
		return err
	}
	if err := p.await(ctx, step{"the NodeHealthCheck says Enabled", func() bool { return p.last.Phase == v1alpha1.PhaseEnabled }}); err != nil {
		return err
	}
	if err := p.failZone(ctx); err != nil {
		return err
	}
	fmt.Println("\nAll nodes are healthy again. Done.")
	return nil
}

func (p *zonePlay) failZone(ctx context.Context) error {
	if err := p.createBudget(ctx, "zones", "topologyKey: "+zoneLabel, "maxUnhealthy: 34%", "reason: A zone that fails as a whole is not repaired node by node."); err != nil {
		return err
	}
	for _, node := range []string{"a-1", "a-2", "a-3", "b-2"} {
		if err := p.silence(ctx, node); err != nil {
			return err
		}
	}
	err := p.await(ctx,
		step{"the node of the other zone is repaired", func() bool { return p.everCreated && p.readiness["b-2"] == corev1.ConditionTrue }},
		step{"the nodes of the zone wait", func() bool { return len(p.held) == perZone }},
	)
	if err != nil {
		return err
	}
	if err := p.show(ctx, "get", "remediationbudgets", "-o", "wide"); err != nil {
		return err
	}
	p.timeline.say("demo", "the power of zone-a is back, but a-3 stays down")
	for _, node := range []string{"a-1", "a-2"} {
		if err := p.resume(ctx, node); err != nil {
			return err
		}
	}
	return p.awaitHealthy(ctx)
}

// awaitHealthy waits until all nodes are repaired.
func (p *zonePlay) awaitHealthy(ctx context.Context) error {
	return p.await(ctx,
		step{"all nodes are Ready again", func() bool { return p.readiness.ready() == 3*perZone }},
		step{"all remediations are gone", func() bool { return p.everCreated && p.remediations.Len() == 0 }},
		step{"no node waits", func() bool { return len(p.held) == 0 && number(p.last.HealthyNodes) == 3*perZone }},
	)
}

// createBudget creates a RemediationBudget for all nodes, with these lines in its spec.
func (p *zonePlay) createBudget(ctx context.Context, name string, spec ...string) error {
	p.timeline.say("demo", "RemediationBudget "+name+": "+strings.Join(spec, ", "))
	manifest := "apiVersion: " + nhcv1alpha1.SchemeGroupVersion.String() + "\nkind: RemediationBudget\nmetadata: {name: " + name + "}\nspec:\n  nodeSelector: {}\n  " +
		strings.Join(spec, "\n  ") + "\n"
	if err := p.apply(ctx, manifest); err != nil {
		return err
	}
	return p.await(ctx, step{"the budget was evaluated", func() bool { return p.budget.ObservedGeneration > 0 }})
}

// resume starts the heartbeats of a node again.
func (p *zonePlay) resume(ctx context.Context, node string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{localkube.HeartbeatLabel: localkube.HeartbeatValue}}})
	if err != nil {
		return err
	}
	if _, err := p.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("resuming %s: %w", node, err)
	}
	return nil
}

func (p *zonePlay) watches() []watch {
	all := p.nodesPlay.watches()
	for i := range all {
		see := all[i].see
		all[i].see = func(object any, deleted bool) {
			see(object, deleted)
			if nhc, ok := object.(*v1alpha1.NodeHealthCheck); ok {
				p.seeDecisions(nhc)
			}
		}
	}
	budgets := nhcinformers.NewSharedInformerFactory(p.NHC, 0).NHC().V1alpha1().RemediationBudgets().Informer()
	return append(all, watch{budgets, func(object any, deleted bool) { p.seeBudget(object.(*nhcv1alpha1.RemediationBudget), deleted) }})
}

// seeDecisions prints which nodes wait for the budget, and why.
func (p *zonePlay) seeDecisions(nhc *v1alpha1.NodeHealthCheck) {
	held := map[string]string{}
	for _, entry := range nhc.Status.UnhealthyNodes {
		if decision := entry.Decision; decision != nil && decision.Reason == v1alpha1.DecidedBudgetExhausted {
			held[entry.Name] = decision.Message
			if p.held[entry.Name] != decision.Message {
				p.timeline.say("decision", entry.Name+" "+string(decision.Type)+": "+decision.Message)
			}
		}
	}
	p.held = held
}

// seeBudget prints the numbers of the budget when they change.
func (p *zonePlay) seeBudget(budget *nhcv1alpha1.RemediationBudget, deleted bool) {
	if deleted {
		p.timeline.say("budget", budget.Name+" deleted")
		return
	}
	before, after := p.budgetLine(&p.budget), p.budgetLine(&budget.Status)
	if p.budget = *budget.Status.DeepCopy(); before != after {
		p.timeline.say("budget", budget.Name+": "+after)
	}
}

func (p *zonePlay) budgetLine(status *nhcv1alpha1.RemediationBudgetStatus) string {
	line := fmt.Sprintf("%d of %d nodes not healthy, %d under remediation", number(status.NotHealthyNodes), number(status.ObservedNodes), number(status.RemediatingNodes))
	if condition := meta.FindStatusCondition(status.Conditions, nhcv1alpha1.ConditionBudgetExhausted); condition != nil && condition.Status == metav1.ConditionTrue {
		line += ". " + condition.Message
	}
	return line
}
