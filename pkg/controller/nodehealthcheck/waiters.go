// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// topic is something whose change a NodeHealthCheck waits for.
type topic string

// controlPlaneTopic is the slot for the one control plane node that may be under
// remediation.
const controlPlaneTopic topic = "control plane slot"

// controlPlaneNodesTopic are all control plane nodes, which may have a quorum without one.
const controlPlaneNodesTopic topic = "control plane nodes"

func crTopic(cr *object.CR) topic {
	return topic("cr/" + cr.GroupVersionKind().GroupKind().String() + "/" + cr.Namespace + "/" + cr.Name)
}

// nodeCRsTopic is about all CRs for a node, whichever NodeHealthCheck owns them.
func nodeCRsTopic(node string) topic { return topic("crs of node/" + node) }

func leaseTopic(name string) topic { return topic("lease/" + name) }

// waiters are the NodeHealthChecks that wait for something, by what they wait for. The
// zero value is ready to use, from any goroutine.
type waiters struct {
	mu      sync.Mutex
	byTopic map[topic]sets.Set[string]
}

// subscribe records what a NodeHealthCheck waits for, instead of what it waited for
// before. The caller looks once more afterwards: what has changed until then is missed.
func (w *waiters) subscribe(nhc string, topics sets.Set[topic]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, names := range w.byTopic {
		if !topics.Has(id) && names.Delete(nhc).Len() == 0 {
			delete(w.byTopic, id)
		}
	}
	for id := range topics {
		if w.byTopic == nil {
			w.byTopic = map[topic]sets.Set[string]{}
		}
		if w.byTopic[id] == nil {
			w.byTopic[id] = sets.New[string]()
		}
		w.byTopic[id].Insert(nhc)
	}
}

// unsubscribe forgets a NodeHealthCheck.
func (w *waiters) unsubscribe(nhc string) { w.subscribe(nhc, nil) }

// of returns the NodeHealthChecks that wait for a topic.
func (w *waiters) of(id topic) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byTopic[id].UnsortedList()
}
