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
	informers []cache.SharedIndexInformer
	changed   chan struct{}
	running   sync.WaitGroup

	mu sync.Mutex
	// listed are the kinds that a list was answered for, if only by an error.
	listed map[string]bool
	// failing are the errors of kinds whose last request has failed, by resource.
	failing map[string]error
}

// NewWatch follows the kinds until the context ends, and waits until it has read what can be read. What cannot is tried
// again and again. Wait returns when everything has stopped.
func NewWatch(ctx context.Context, clients *Clients, wanted Kinds) (*Watch, error) {
	w := &Watch{clients: clients, kinds: wanted.of(clients), changed: make(chan struct{}, 1), listed: map[string]bool{}, failing: map[string]error{}}
	var answered []cache.InformerSynced
	for i := range w.kinds {
		k := &w.kinds[i]
		informer, err := w.inform(k)
		if err != nil {
			return nil, err
		}
		w.informers = append(w.informers, informer)
		answered = append(answered, func() bool { return informer.HasSynced() || w.refusal(k, false) != nil })
	}
	ctx, stop := context.WithCancel(ctx)
	for _, informer := range w.informers {
		w.running.Go(func() { informer.RunWithContext(ctx) })
	}
	var err error
	if cache.WaitForCacheSync(ctx.Done(), answered...) {
		if _, err = w.assemble(); err == nil {
			context.AfterFunc(ctx, stop)
			return w, nil
		}
	} else {
		err = Explain(context.Cause(ctx), "watch", w.kinds[0].resource)
	}
	stop()
	w.Wait()
	return nil, err
}

// refusal is why a kind has not been read, or is not followed any more, nil if it is, or if there is no answer yet: a watch
// that begins with a list may be refused where a list is not.
func (w *Watch) refusal(k *kind, read bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !read && !w.listed[k.resource] {
		return nil
	}
	return w.failing[k.resource]
}

// Wait waits until everything has stopped.
func (w *Watch) Wait() { w.running.Wait() }

// Changed gets a value when the snapshot may have changed since the last one.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// inform returns an informer of a kind. The answer to each of its requests is recorded.
func (w *Watch) inform(k *kind) (cache.SharedIndexInformer, error) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := k.list(ctx, options)
			w.answered(k, true, w.clients.explainForbidden(k, err))
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := k.watch(ctx, options)
			w.answered(k, false, err)
			return stream, err
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, k.client), k.object, 0, nil)
	// The errors are shown, not logged.
	err := errors.Join(informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}), informer.SetTransform(trim))
	_, addErr := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.change() }, DeleteFunc: func(any) { w.change() },
		UpdateFunc: func(any, any) {
			if !k.quiet {
				w.change()
			}
		},
	})
	if err = errors.Join(err, addErr); err != nil {
		return nil, fmt.Errorf("preparing the watch: %w", err)
	}
	return informer, nil
}

// answered records whether a request has failed.
func (w *Watch) answered(k *kind, list bool, err error) {
	if ctxEnded(err) {
		return
	}
	w.mu.Lock()
	_, failed := w.failing[k.resource]
	if err != nil {
		w.failing[k.resource] = err
	} else {
		delete(w.failing, k.resource)
	}
	w.listed[k.resource] = w.listed[k.resource] || list
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
	snapshot, err := w.assemble()
	if err != nil {
		return &view.Snapshot{} // NewWatch has found all required kinds.
	}
	return snapshot
}

func (w *Watch) assemble() (*view.Snapshot, error) {
	answers := make([]answer, len(w.kinds))
	var outdated []view.Missing
	for i, informer := range w.informers {
		k := &w.kinds[i]
		read := informer.HasSynced()
		err := w.refusal(k, read)
		if !read {
			answers[i].err = err
			continue
		}
		for _, object := range informer.GetStore().List() {
			answers[i].objects = append(answers[i].objects, object.(runtime.Object))
		}
		if err != nil {
			outdated = append(outdated, view.Missing{Resource: "news of " + k.resource, Outdated: true, Reason: w.clients.explain(err, "watch", k.resource).Error()})
		}
	}
	snapshot, err := w.clients.assemble(w.kinds, answers)
	if err == nil {
		snapshot.Missing = append(snapshot.Missing, outdated...)
	}
	return snapshot, err
}

// ctxEnded reports whether a request failed because its caller has cancelled it.
func ctxEnded(err error) bool { return errors.Is(err, context.Canceled) }
