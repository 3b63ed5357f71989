// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// roster knows of each NodeHealthCheck which nodes it selects, and which of these may be
// anything but healthy. It follows the events of Nodes, so that a sync looks at the few
// that matter, and not at ten thousand. Its zero value is ready to use, from any
// goroutine.
//
// It is as recent as the handlers, and those are always about to catch up with the
// cache: what it says of a node was so a moment ago, as everything that a watch tells.
type roster struct {
	mu    sync.RWMutex
	lists map[string]*nodeList
}

// nodeList is that of one NodeHealthCheck.
type nodeList struct {
	uid        types.UID
	generation int64
	selector   labels.Selector
	rules      []v1alpha1.UnhealthyCondition
	// selected are the names of the nodes.
	selected sets.Set[string]
	// suspects are those of them with a condition that some rule matches, whatever its
	// duration: with time they become unhealthy without any event.
	suspects sets.Set[string]
}

// set makes the list of a NodeHealthCheck anew.
func (r *roster) set(nodes cache.Store, nhc *v1alpha1.NodeHealthCheck) {
	list := &nodeList{
		uid: nhc.UID, generation: nhc.Generation, selector: selectorOf(nhc), rules: nhc.Spec.UnhealthyConditions,
		selected: sets.New[string](), suspects: sets.New[string](),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, object := range nodes.List() {
		list.note(object.(*corev1.Node))
	}
	if r.lists == nil {
		r.lists = map[string]*nodeList{}
	}
	r.lists[nhc.Name] = list
}

func (r *roster) remove(nhc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lists, nhc)
}

// nodeChanged brings all lists in line with what the cache has of a node.
func (r *roster) nodeChanged(nodes cache.Store, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, exists, err := nodes.GetByKey(name)
	for _, list := range r.lists {
		if err == nil && exists {
			list.note(object.(*corev1.Node))
		} else {
			list.selected.Delete(name)
			list.suspects.Delete(name)
		}
	}
}

func (l *nodeList) note(node *corev1.Node) {
	if !l.selector.Matches(labelSet(node)) {
		l.selected.Delete(node.Name)
		l.suspects.Delete(node.Name)
		return
	}
	l.selected.Insert(node.Name)
	if health.Matches(l.rules, node.Status.Conditions) {
		l.suspects.Insert(node.Name)
	} else {
		l.suspects.Delete(node.Name)
	}
}

// muster is what a sync needs of a list.
type muster struct {
	// suspects are the selected nodes that may be anything but healthy, in no order.
	suspects []string
	// healthy is the number of all others, and remediated that of those of them with
	// an own CR.
	healthy, remediated int
}

// muster returns what is known of the nodes of a NodeHealthCheck, of which these have
// own CRs. It is false if the list is not that of this generation: the handler is about
// to make it.
func (r *roster) muster(nhc *v1alpha1.NodeHealthCheck, withCRs []string) (muster, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := r.lists[nhc.Name]
	if list == nil || list.uid != nhc.UID || list.generation != nhc.Generation {
		return muster{}, false
	}
	m := muster{suspects: list.suspects.UnsortedList(), healthy: list.selected.Len() - list.suspects.Len()}
	for _, name := range withCRs {
		if list.selected.Has(name) && !list.suspects.Has(name) {
			m.remediated++
		}
	}
	return m, true
}
