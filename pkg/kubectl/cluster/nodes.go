// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// NodeEvent is one piece of news about Nodes. It has one of these fields.
type NodeEvent struct {
	// Node is one that was added or changed.
	Node *corev1.Node
	// Deleted is the name of one that is gone.
	Deleted string
	// Listed means that all Nodes that exist were sent.
	Listed bool
	// Lost says why there is no news for now, and Restored means that there is again. What has changed
	// in the meantime follows, as it is now.
	Lost     error
	Restored bool
}

// NodeWatch sends news of Nodes.
type NodeWatch struct {
	clients *Clients
	events  chan NodeEvent
	running sync.WaitGroup

	mu   sync.Mutex
	lost bool
}

// WatchNodes sends all Nodes, and then their changes, until the context ends. Wait returns when it has
// stopped.
func WatchNodes(ctx context.Context, clients *Clients) (*NodeWatch, error) {
	w := &NodeWatch{clients: clients, events: make(chan NodeEvent)}
	nodes := clients.nodes()
	informer, synced, err := nodes.inform(w.answered, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.changed(ctx, object) },
		UpdateFunc: func(_, object any) { w.changed(ctx, object) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				w.send(ctx, NodeEvent{Deleted: name.Name})
			}
		},
	})
	if err != nil {
		return nil, err
	}
	w.running.Go(func() { informer.RunWithContext(ctx) })
	w.running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			w.send(ctx, NodeEvent{Listed: true})
		}
	})
	return w, nil
}

// Events returns the news, in order. They have to be received until the context ends.
func (w *NodeWatch) Events() <-chan NodeEvent { return w.events }

// Wait waits until everything has stopped.
func (w *NodeWatch) Wait() { w.running.Wait() }

func (w *NodeWatch) changed(ctx context.Context, object any) {
	if node, ok := object.(*corev1.Node); ok {
		w.send(ctx, NodeEvent{Node: node})
	}
}

func (w *NodeWatch) send(ctx context.Context, event NodeEvent) {
	select {
	case w.events <- event:
	case <-ctx.Done():
	}
}

// answered sends that there is no news any more, or that there is again.
func (w *NodeWatch) answered(ctx context.Context, verb string, err error) {
	// An old API server answers like this to a way of listing, or of continuing a watch, that it does
	// not know, and then to another one.
	if apierrors.IsInvalid(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	before := w.lost
	w.lost = err != nil
	w.mu.Unlock()
	switch {
	case err != nil && !before:
		w.send(ctx, NodeEvent{Lost: w.clients.explain(err, verb, nodes)})
	case err == nil && before:
		w.send(ctx, NodeEvent{Restored: true})
	}
}
