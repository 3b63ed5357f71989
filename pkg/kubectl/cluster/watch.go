// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// refusal is why a kind has not been read, or is not followed any more, nil if it is, or if there is no answer yet.
func (c *Cluster) refusal(k *kind) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failing[k.resource]
}

// inform returns an informer of a kind. The answer to each of its requests is recorded.
func (c *Cluster) inform(k *kind) (cache.SharedIndexInformer, error) {
	var informer cache.SharedIndexInformer
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := k.list(ctx, options)
			c.answered(k, c.Clients.explainForbidden(k, err))
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := k.watch(ctx, options)
			if err == nil || informer.HasSynced() { // A watch that begins with a list may be refused where a list is not.
				c.answered(k, err)
			}
			return stream, err
		},
	}
	informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, k.client), k.object, 0, nil)
	// The errors are shown, not logged.
	err := errors.Join(informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}), informer.SetTransform(trim))
	_, addErr := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.change() }, DeleteFunc: func(any) { c.change() },
		UpdateFunc: func(any, any) {
			if k.resource != leaderLeases { // Which is renewed all the time.
				c.change()
			}
		},
	})
	if err = errors.Join(err, addErr); err != nil {
		return nil, fmt.Errorf("preparing the watch: %w", err)
	}
	return informer, nil
}

// answered records whether a request has failed.
func (c *Cluster) answered(k *kind, err error) {
	if ctxEnded(err) {
		return
	}
	c.mu.Lock()
	_, failed := c.failing[k.resource]
	if err != nil {
		c.failing[k.resource] = err
	} else {
		delete(c.failing, k.resource)
	}
	c.mu.Unlock()
	if failed != (err != nil) {
		c.change()
	}
}

func (c *Cluster) change() {
	select {
	case c.changed <- struct{}{}:
	default: // The next look shows this change, too.
	}
}

// snapshot returns the present knowledge. If a kind cannot be read at the moment, it has its last state, and Missing names it.
func (c *Cluster) snapshot() *view.Snapshot {
	snapshot, _ := c.assemble() // New has found all required kinds.
	return cmp.Or(snapshot, &view.Snapshot{})
}

func (c *Cluster) assemble() (*view.Snapshot, error) {
	answers := make([]answer, len(c.kinds))
	var outdated []view.Missing
	for i, informer := range c.informers {
		k := &c.kinds[i]
		read := informer.HasSynced()
		err := c.refusal(k)
		if !read {
			answers[i].err = err
			continue
		}
		for _, object := range informer.GetStore().List() {
			answers[i].objects = append(answers[i].objects, object.(runtime.Object))
		}
		if err != nil {
			outdated = append(outdated, view.Missing{Resource: "news of " + k.resource, Outdated: true, Reason: c.Clients.explain(err, "watch", k.resource).Error()})
		}
	}
	snapshot, err := c.Clients.assemble(c.kinds, answers)
	if err == nil {
		snapshot.Missing = append(snapshot.Missing, outdated...)
	}
	return snapshot, err
}

// ctxEnded reports whether a request failed because its caller has cancelled it.
func ctxEnded(err error) bool { return errors.Is(err, context.Canceled) }
