// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Watch is a snapshot that follows the cluster.
type Watch struct {
	clients   *Clients
	kinds     []kind
	informers []cache.SharedIndexInformer // nil for a kind that could not be read at the start.
	first     []answer
	changed   chan struct{}
	running   sync.WaitGroup

	mu sync.Mutex
	// failing are the errors of kinds whose last request has failed, by resource.
	failing map[string]error
}

// NewWatch reads the kinds once, to find out which cannot be read. Then it follows the readable
// kinds until the context ends. Wait returns when it has stopped.
func NewWatch(ctx context.Context, clients *Clients, wanted Kinds) (*Watch, error) {
	w := &Watch{clients: clients, kinds: wanted.of(clients), changed: make(chan struct{}, 1), failing: map[string]error{}}
	w.first = make([]answer, len(w.kinds))
	w.informers = make([]cache.SharedIndexInformer, len(w.kinds))
	var synced []cache.InformerSynced
	for i := range w.kinds {
		// One object is enough to know whether the kind can be read.
		_, err := w.kinds[i].list(ctx, metav1.ListOptions{Limit: 1})
		if w.first[i].err = clients.explainForbidden(&w.kinds[i], err); err != nil {
			continue
		}
		k := &w.kinds[i]
		informer, err := k.inform(func(err error) { w.answered(k.resource, err) }, cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { w.change() }, DeleteFunc: func(any) { w.change() },
			UpdateFunc: func(any, any) {
				if !k.quiet {
					w.change()
				}
			},
		})
		if err != nil {
			return nil, err
		}
		w.informers[i], synced = informer, append(synced, informer.HasSynced)
	}
	if _, err := w.clients.assemble(w.kinds, w.first); err != nil {
		return nil, err
	}
	for _, informer := range w.informers {
		if informer != nil {
			w.running.Go(func() { informer.RunWithContext(ctx) })
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		w.Wait()
		return nil, Explain(context.Cause(ctx), "watch", w.kinds[0].resource)
	}
	return w, nil
}

// Readable reports whether a kind that could not be read at the start can be read now: then a new
// Watch shows more. It sends one small request for each of these kinds.
func (w *Watch) Readable(ctx context.Context) bool {
	for i, informer := range w.informers {
		if informer != nil {
			continue
		}
		if _, err := w.kinds[i].list(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return true
		}
	}
	return false
}

// Wait waits until everything has stopped.
func (w *Watch) Wait() { w.running.Wait() }

// Changed gets a value when the snapshot may have changed since the last one.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// inform returns an informer of a kind, which reports the answer to each of its requests.
func (k *kind) inform(answered func(error), handler cache.ResourceEventHandler) (cache.SharedIndexInformer, error) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := k.list(ctx, options)
			answered(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := k.watch(ctx, options)
			answered(err)
			return stream, err
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, k.client), k.object, 0, nil)
	// The errors are shown, not logged.
	err := errors.Join(informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}), informer.SetTransform(trim))
	_, addErr := informer.AddEventHandler(handler)
	if err = errors.Join(err, addErr); err != nil {
		return nil, fmt.Errorf("preparing the watch: %w", err)
	}
	return informer, nil
}

// answered records whether a request has failed.
func (w *Watch) answered(resource string, err error) {
	w.mu.Lock()
	_, failed := w.failing[resource]
	if err != nil && !ctxEnded(err) {
		w.failing[resource] = err
	} else {
		delete(w.failing, resource)
	}
	w.mu.Unlock()
	if failed != (err != nil) {
		w.change()
	}
}

func (w *Watch) change() {
	select {
	case w.changed <- struct{}{}:
	default: // The next look shows this change, too.
	}
}

// Snapshot returns the present knowledge. If a kind cannot be read at the moment, it has its last
// state, and Missing names it.
func (w *Watch) Snapshot() *view.Snapshot {
	answers := make([]answer, len(w.kinds))
	for i, informer := range w.informers {
		if informer == nil {
			answers[i].err = w.first[i].err
			continue
		}
		for _, object := range informer.GetStore().List() {
			answers[i].objects = append(answers[i].objects, object.(runtime.Object))
		}
	}
	snapshot, err := w.clients.assemble(w.kinds, answers)
	if err != nil {
		return &view.Snapshot{} // NewWatch has found all required kinds.
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.kinds {
		resource := w.kinds[i].resource
		if err := w.failing[resource]; err != nil {
			snapshot.Missing = append(snapshot.Missing, view.Missing{Resource: "news of " + resource, Outdated: true, Reason: w.clients.explain(err, "watch", resource).Error()})
		}
	}
	return snapshot
}

// ctxEnded reports whether a request failed because its caller has cancelled it.
func ctxEnded(err error) bool { return errors.Is(err, context.Canceled) }
