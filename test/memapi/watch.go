// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is the body of the answer to a watch. It is read by one goroutine.
type watcher struct {
	client *Client
	table  *table
	// wants reports whether the watch has an object in it.
	wants        func(*unstructured.Unstructured) bool
	metadataOnly bool
	//nolint:containedctx // It is the context of the request whose answer is read.
	ctx context.Context

	// next is the index of the next change in the log. buffer has the bytes that are not read
	// yet.
	next   int
	buffer []byte

	once  sync.Once
	ended chan struct{}
	gone  bool // It ends with 410 Gone. Set before ended is closed.
}

// watch begins a watch. The server is locked.
func (c *Client) watch(ctx context.Context, t *table, call *call) (*http.Response, error) {
	selected, err := call.selects()
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	version, err := parseVersion(call.query.Get("resourceVersion"))
	if err != nil {
		return nil, err
	}
	initial := call.query.Get("sendInitialEvents") == "true"
	if initial && c.server.noWatchLists {
		return nil, apierrors.NewInvalid(t.GroupVersion().WithKind("ListOptions").GroupKind(), "", nil)
	}
	w := &watcher{client: c, table: t, wants: selected, metadataOnly: call.metadataOnly, ctx: ctx, ended: make(chan struct{})}
	if initial || version == 0 {
		w.next = len(t.log)
		for _, key := range t.keys() {
			if w.wants(t.objects[key].Object) {
				w.write(watch.Added, t.objects[key])
			}
		}
		if initial {
			w.bookmark(c.server.version)
		}
	} else {
		if version < t.compacted {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, t.compacted))
		}
		for w.next < len(t.log) && t.log[w.next].Version <= version {
			w.next++
		}
	}
	c.mu.Lock()
	c.watches[w] = struct{}{}
	c.mu.Unlock()
	return stream(w), nil
}

// write adds an event to the buffer.
func (w *watcher) write(event watch.EventType, change *Change) {
	w.buffer = fmt.Appendf(w.buffer, `{"type":%q,"object":`, event)
	w.buffer = append(append(w.buffer, change.encoded(w.metadataOnly)...), "}\n"...)
}

// follow writes a change as who watches a selection sees it: what leaves the selection is deleted, as it was.
func (w *watcher) follow(change *Change) {
	was, is := change.before != nil && w.wants(change.before), change.Type != watch.Deleted && w.wants(change.Object)
	switch {
	case was && is:
		w.write(watch.Modified, change)
	case is:
		w.write(watch.Added, change)
	case was && change.Type == watch.Deleted:
		w.write(watch.Deleted, change)
	case was:
		last := change.before.DeepCopy()
		last.SetResourceVersion(change.Object.GetResourceVersion())
		w.write(watch.Deleted, &Change{Object: last})
	}
}

// bookmark says that all that there was at the beginning has been sent.
func (w *watcher) bookmark(version uint64) {
	kind, apiVersion := w.table.Kind, w.table.GroupVersion().String()
	if w.metadataOnly {
		kind, apiVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	w.buffer = append(append(append(w.buffer, `{"type":"BOOKMARK","object":`...), encode(map[string]any{
		"kind": kind, "apiVersion": apiVersion,
		"metadata": map[string]any{
			"resourceVersion": strconv.FormatUint(version, 10),
			"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
		},
	})...), "}\n"...)
}

// Read implements [io.Reader]. It blocks until there is something to be read.
func (w *watcher) Read(p []byte) (int, error) {
	for len(w.buffer) == 0 {
		due, changed := w.fetch()
		if len(w.buffer) > 0 {
			break
		}
		if err := w.wait(due, changed); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.buffer)
	w.buffer = w.buffer[n:]
	return n, nil
}

// fetch takes the changes that are due. It returns when the next change is due, zero if
// there is none, and a channel that is closed when that may have changed.
func (w *watcher) fetch() (due time.Time, changed <-chan struct{}) {
	delay := w.client.delay(w.table.GroupVersionResource)
	s, now := w.client.server, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for w.next < len(w.table.log) {
		change := w.table.log[w.next]
		if due = change.Time.Add(delay); due.After(now) {
			return due, w.table.changed
		}
		w.next++
		w.follow(change)
	}
	return time.Time{}, w.table.changed
}

// wait waits until there may be something to be read. It returns an error at the end of
// the watch.
func (w *watcher) wait(due time.Time, changed <-chan struct{}) error {
	var timer <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-changed:
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-w.client.dead:
		<-w.ctx.Done() // A client that is dead gets no answer.
		return w.ctx.Err()
	case <-w.ended:
		if !w.gone {
			return io.EOF
		}
		w.gone = false
		status := apierrors.NewResourceExpired("The provided resource version is too old").Status()
		status.Kind, status.APIVersion = "Status", "v1"
		w.buffer = append(append(append(w.buffer, `{"type":"ERROR","object":`...), encode(status)...), "}\n"...)
	}
	return nil
}

func (w *watcher) end(gone bool) {
	w.once.Do(func() {
		w.gone = gone
		close(w.ended)
	})
}

// Close implements [io.Closer].
func (w *watcher) Close() error {
	w.end(false)
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	delete(w.client.watches, w)
	return nil
}
