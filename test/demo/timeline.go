// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

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
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// timeline watches the cluster as any user can, prints what changes, and answers
// what was seen.
type timeline struct {
	demo  *demo
	start time.Time

	mu           sync.Mutex
	nodes        map[string]corev1.ConditionStatus
	last         v1alpha1.NodeHealthCheckStatus
	phases       sets.Set[v1alpha1.Phase]
	remediations sets.Set[string]
	everCreated  bool
	events       sets.Set[string]
}

func newTimeline(d *demo) *timeline {
	return &timeline{
		demo: d, start: time.Now(),
		nodes: map[string]corev1.ConditionStatus{}, phases: sets.New[v1alpha1.Phase](),
		remediations: sets.New[string](), events: sets.New[string](),
	}
}

// say prints one line.
func (t *timeline) say(who, what string) {
	fmt.Printf("%7.1fs  %-16s %s\n", time.Since(t.start).Seconds(), who, what)
}

// watch watches until ctx is done.
func (t *timeline) watch(ctx context.Context) {
	kube := informers.NewSharedInformerFactory(t.demo.kube, 0)
	nhcs := nhcinformers.NewSharedInformerFactory(t.demo.nhc, 0).Remediation().V1alpha1().NodeHealthChecks().Informer()
	crs := dynamicinformer.NewFilteredDynamicInformer(t.demo.dynamic, remediator.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	var wg sync.WaitGroup
	for informer, see := range map[cache.SharedIndexInformer]func(object any, deleted bool){
		kube.Core().V1().Nodes().Informer():    func(object any, _ bool) { t.seeNode(object.(*corev1.Node)) },
		kube.Events().V1().Events().Informer(): func(object any, deleted bool) { t.seeEvent(object.(*eventsv1.Event), deleted) },
		nhcs:                                   func(object any, _ bool) { t.seeNHC(object.(*v1alpha1.NodeHealthCheck)) },
		crs:                                    func(object any, deleted bool) { t.seeCR(object.(*unstructured.Unstructured), deleted) },
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { see(object, false) },
			UpdateFunc: func(_, object any) { see(object, false) },
			DeleteFunc: func(object any) {
				if _, unknown := object.(cache.DeletedFinalStateUnknown); !unknown {
					see(object, true)
				}
			},
		})
		if err != nil {
			t.say("demo", "cannot watch: "+err.Error())
			return
		}
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	wg.Wait()
}

func (t *timeline) seeNode(node *corev1.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady || t.nodes[node.Name] == condition.Status {
			continue
		}
		if known := t.nodes[node.Name]; known != "" || condition.Status != corev1.ConditionTrue {
			t.say("node", fmt.Sprintf("%s Ready=%s (%s)", node.Name, condition.Status, condition.Reason))
		}
		t.nodes[node.Name] = condition.Status
	}
}

func (t *timeline) seeNHC(nhc *v1alpha1.NodeHealthCheck) {
	t.mu.Lock()
	defer t.mu.Unlock()
	status := nhc.Status
	if status.Phase != "" && (status.Phase != t.last.Phase || number(status.HealthyNodes) != number(t.last.HealthyNodes) || len(status.UnhealthyNodes) != len(t.last.UnhealthyNodes)) {
		var names []string
		for _, node := range status.UnhealthyNodes {
			names = append(names, node.Name)
		}
		t.say("nodehealthcheck", fmt.Sprintf("%s: %s, %d of %d nodes healthy, unhealthy: [%s]",
			nhc.Name, status.Phase, number(status.HealthyNodes), number(status.ObservedNodes), strings.Join(names, " ")))
	}
	t.last = *status.DeepCopy()
	t.phases.Insert(status.Phase)
}

func (t *timeline) seeCR(cr *unstructured.Unstructured, deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := cr.GetNamespace() + "/" + cr.GetName()
	switch {
	case deleted:
		t.remediations.Delete(key)
		t.say("remediation", fmt.Sprintf("%s %s deleted", cr.GetKind(), key))
	case !t.remediations.Has(key):
		t.remediations.Insert(key)
		t.everCreated = true
		t.say("remediation", fmt.Sprintf("%s %s created", cr.GetKind(), key))
	default:
		conditions, _, _ := unstructured.NestedSlice(cr.Object, "status", "conditions")
		for _, item := range conditions {
			if condition, ok := item.(map[string]any); ok {
				t.say("remediation", fmt.Sprintf("%s %s %v=%v (%v)", cr.GetKind(), key, condition["type"], condition["status"], condition["reason"]))
			}
		}
	}
}

func (t *timeline) seeEvent(event *eventsv1.Event, deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if deleted || event.ReportingController != "NodeHealthCheck" || event.Regarding.Kind != "NodeHealthCheck" {
		return
	}
	t.events.Insert(event.Reason)
	t.say("event", fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Note))
}

// ready returns the number of nodes that are Ready.
func (t *timeline) ready() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, status := range t.nodes {
		if status == corev1.ConditionTrue {
			n++
		}
	}
	return n
}

func (t *timeline) readiness(node string) corev1.ConditionStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nodes[node]
}

func (t *timeline) status() v1alpha1.NodeHealthCheckStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

func (t *timeline) phaseSeen(phase v1alpha1.Phase) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phases.Has(phase)
}

// remediated reports whether a remediation was ever seen, remediating whether there
// is one now.
func (t *timeline) remediated() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.everCreated
}

func (t *timeline) remediating() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remediations.Len() > 0
}

// told reports whether events with all of these reasons were seen.
func (t *timeline) told(reasons ...string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events.HasAll(reasons...)
}
