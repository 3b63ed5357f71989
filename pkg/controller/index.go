// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

func parseTemplate(object *unstructured.Unstructured) runtime.Object {
	return remediation.ParseTemplate(object)
}

// The indexes of the caches of CRs: by the NodeHealthChecks that own them, by the
// node they are for, and by the control plane label.
const (
	byOwner        = "owner"
	byNode         = "node"
	byControlPlane = "controlPlane"

	labelledControlPlane = "true"
)

var crIndexers = cache.Indexers{
	byOwner: func(object any) ([]string, error) { return object.(*remediation.CR).Owners(), nil },
	byNode:  func(object any) ([]string, error) { return []string{object.(*remediation.CR).Node()}, nil },
	byControlPlane: func(object any) ([]string, error) {
		if hasKey(object.(*remediation.CR).Labels, v1alpha1.LabelControlPlane) {
			return []string{labelledControlPlane}, nil
		}
		return nil, nil
	},
}

// The indexes of the cache of Nodes: those of the control plane, and those that
// somebody has confirmed to be healthy.
const (
	nodesByRole      = "role"
	roleControlPlane = "control-plane"

	nodesConfirmedHealthy = "confirmedHealthy"
	confirmedHealthy      = "true"
)

var nodeIndexers = cache.Indexers{
	nodesByRole: func(object any) ([]string, error) {
		if node, ok := object.(*corev1.Node); ok && isControlPlane(node) {
			return []string{roleControlPlane}, nil
		}
		return nil, nil
	},
	nodesConfirmedHealthy: func(object any) ([]string, error) {
		if node, ok := object.(*corev1.Node); ok && hasKey(node.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy) {
			return []string{confirmedHealthy}, nil
		}
		return nil, nil
	},
}

// The index of the cache of leases: by holder.
const leasesByHolder = "holder"

var leaseIndexers = cache.Indexers{
	leasesByHolder: func(object any) ([]string, error) {
		if lease, ok := object.(*coordinationv1.Lease); ok && lease.Spec.HolderIdentity != nil {
			return []string{*lease.Spec.HolderIdentity}, nil
		}
		return nil, nil
	},
}

// listCRs returns the CRs under a key of an index.
func listCRs(indexer cache.Indexer, index, key string) ([]*remediation.CR, error) {
	objects, err := indexer.ByIndex(index, key)
	if err != nil {
		return nil, err
	}
	crs := make([]*remediation.CR, 0, len(objects))
	for _, object := range objects {
		crs = append(crs, object.(*remediation.CR))
	}
	return crs, nil
}

// remediatingNode returns the NodeHealthChecks that own a CR for the node.
func (c *Controller) remediatingNode(node string) []string {
	var owners []string
	for _, indexer := range c.remediations.Caches() {
		crs, err := listCRs(indexer, byNode, node)
		if err != nil {
			continue // The index exists: crIndexers has it.
		}
		for _, cr := range crs {
			owners = append(owners, cr.Owners()...)
		}
	}
	return owners
}

// selectors knows what the NodeHealthChecks select and refer to, so that an event
// costs a match and not a look at everything. Its zero value is ready to use.
type selectors struct {
	mu      sync.RWMutex
	entries map[string]selection
}

type selection struct {
	generation int64
	uid        types.UID
	selector   labels.Selector
	steps      []remediation.Step
}

// set records a NodeHealthCheck. It returns whether its selector may have changed.
func (s *selectors) set(nhc *v1alpha1.NodeHealthCheck) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, known := s.entries[nhc.Name]; known && old.generation == nhc.Generation && old.uid == nhc.UID {
		return false
	}
	if s.entries == nil {
		s.entries = map[string]selection{}
	}
	s.entries[nhc.Name] = selection{generation: nhc.Generation, uid: nhc.UID, selector: selectorOf(nhc), steps: remediation.Steps(&nhc.Spec)}
	return true
}

// selectorOf returns the selector of a NodeHealthCheck. An invalid one, stored
// before it was checked, selects nothing.
func selectorOf(nhc *v1alpha1.NodeHealthCheck) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&nhc.Spec.Selector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// has reports whether there is a NodeHealthCheck of this name.
func (s *selectors) has(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, known := s.entries[name]
	return known
}

func (s *selectors) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, name)
}

// names returns all NodeHealthChecks.
func (s *selectors) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.entries))
}

// concerned returns the NodeHealthChecks that select the old or the new node; if
// the node itself did not change in a way that matters, only those of which it is
// newly, or no longer, a member.
func (s *selectors) concerned(old, node *corev1.Node, matters bool) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for name, selection := range s.entries {
		before := old != nil && selection.selector.Matches(labels.Set(old.Labels))
		after := node != nil && selection.selector.Matches(labels.Set(node.Labels))
		if before != after || (after && matters) {
			names = append(names, name)
		}
	}
	return names
}

// referring returns the NodeHealthChecks that refer to a template.
func (s *selectors) referring(gvk schema.GroupVersionKind, template types.NamespacedName) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for name, selection := range s.entries {
		if slices.ContainsFunc(selection.steps, func(step remediation.Step) bool {
			return step.TemplateKind() == gvk && step.Reference.Name == template.Name &&
				(step.Reference.Namespace == template.Namespace || template.Namespace == "")
		}) {
			names = append(names, name)
		}
	}
	return names
}

// awaited is something whose change a NodeHealthCheck waits for.
type awaited string

// controlPlaneSlotFree is the end of the remediation of a control plane node.
const controlPlaneSlotFree awaited = "control plane"

// controlPlaneNodes are all control plane nodes, which may be a quorum without one.
const controlPlaneNodes awaited = "control plane nodes"

func awaitedCR(cr *remediation.CR) awaited {
	return awaited("cr/" + cr.GroupVersionKind().GroupKind().String() + "/" + cr.Namespace + "/" + cr.Name)
}

// awaitedCRsOf are the CRs that anybody has for a node.
func awaitedCRsOf(node string) awaited { return awaited("crs of node/" + node) }

func awaitedLease(name string) awaited { return awaited("lease/" + name) }

// waiting knows which NodeHealthChecks wait for what. Its zero value is ready to
// use.
type waiting struct {
	mu      sync.Mutex
	waiters map[awaited]sets.Set[string]
}

// replace records what a NodeHealthCheck waits for now.
func (w *waiting) replace(nhc string, what sets.Set[awaited]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, waiters := range w.waiters {
		if !what.Has(id) && waiters.Delete(nhc).Len() == 0 {
			delete(w.waiters, id)
		}
	}
	for id := range what {
		if w.waiters == nil {
			w.waiters = map[awaited]sets.Set[string]{}
		}
		if w.waiters[id] == nil {
			w.waiters[id] = sets.New[string]()
		}
		w.waiters[id].Insert(nhc)
	}
}

func (w *waiting) forget(nhc string) { w.replace(nhc, nil) }

// on returns the NodeHealthChecks that wait for something.
func (w *waiting) on(what awaited) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiters[what].UnsortedList()
}
