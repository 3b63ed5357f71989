// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// getOnly takes away the permissions that watching needs.
func (w *fakeCluster) getOnly() {
	w.change(func() {
		for _, resource := range resources {
			w.denied.Insert("list "+resource.Name, "watch "+resource.Name)
		}
	})
}

func TestPolled(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *fakeCluster) {
		w.getOnly()
		w.put(reboot, "1")
		w.want("one", reboot)
		w.want("two", fence)
		value, err := w.value(reboot)
		require.NoError(t, err, "6.6: list and watch are used when granted, never required")
		require.Equal(t, "1", value)
		_, err = w.value(fence)
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		_, err = w.set.Mapping(reboot)
		require.NoError(t, err)
		_, err = w.set.Cache(reboot)
		require.Equal(t, ErrPending, err, "there is no cache")
		require.Equal(t, []string{"one", "two"}, w.notifiedOwners())
		require.Empty(t, w.events, "there is no watch")
		require.Zero(t, w.requests("list", reboot))

		reads := w.requests("get", reboot)
		pass(interval - 1)
		require.Equal(t, reads, w.requests("get", reboot), "not before its time")
		pass(1)
		require.Equal(t, reads+1, w.requests("get", reboot), "3: each 15 s")
		pass(time.Hour)
		require.Equal(t, reads+1+240, w.requests("get", reboot), "3: each 15 s")
		require.Empty(t, w.notified(), "P3: what stays as it is is no news")

		w.put(reboot, "2")
		pass(interval)
		value, err = w.value(reboot)
		require.NoError(t, err)
		require.Equal(t, "2", value, "6.4: within the poll")
		require.Equal(t, [][]string{{"one"}}, w.notified(), "announced to those who want it")
		pass(time.Hour)
		require.Empty(t, w.notified(), "and once")

		w.remove(reboot)
		pass(interval)
		_, err = w.value(reboot)
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		require.Equal(t, [][]string{{"one"}}, w.notified())

		w.want("one")
		before := len(w.client.Actions())
		w.want("two")
		pass(time.Hour)
		require.Len(t, w.client.Actions(), before, "no owner wants them any more")
	})
}

func TestPolledClusterScoped(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *fakeCluster) {
		w.getOnly()
		w.put(global, "1")
		w.want("one", global)
		value, err := w.value(global)
		require.NoError(t, err)
		require.Equal(t, "1", value)
	})
}

// TestPolledWithoutNamespace: a reference without namespace is never read, and
// does not disturb the others.
func TestPolledWithoutNamespace(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *fakeCluster) {
		w.getOnly()
		w.put(reboot, "1")
		w.set.Want("one", map[schema.GroupVersionKind][]types.NamespacedName{reboot: {{Name: "x"}, nameOf(reboot)}})
		pass(0)
		value, err := w.value(reboot)
		require.NoError(t, err)
		require.Equal(t, "1", value)
		require.Equal(t, 1, w.requests("get", reboot))
	})
}

// TestPolledByAnotherOwner: what another owner wants of a polled kind is read at
// once.
func TestPolledByAnotherOwner(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *fakeCluster) {
		w.getOnly()
		w.put(reboot, "1")
		w.set.Want("one", map[schema.GroupVersionKind][]types.NamespacedName{reboot: {{Namespace: "n", Name: "other"}}})
		pass(0)
		w.notified()
		_, err := w.value(reboot)
		require.Equal(t, ErrPending, err, "P5: not read is not absent")

		w.want("two", reboot)
		value, err := w.value(reboot)
		require.NoError(t, err)
		require.Equal(t, "1", value)
		require.Contains(t, w.notifiedOwners(), "two")

		w.want("one", reboot)
		reads := w.requests("get", reboot)
		pass(interval)
		require.Equal(t, reads+1, w.requests("get", reboot), "what two owners want is read once")
	})
}

func TestPolledErrors(t *testing.T) {
	forbidden := apierrors.NewForbidden(resourceOf(reboot).GroupResource(), "x", nil)
	timeout := apierrors.NewTimeoutError("too slow", 1)
	tests := map[string]struct {
		first, second error
		afterFirst    func(t *testing.T, value string, err error)
		afterSecond   func(t *testing.T, value string, err error)
		told          bool
	}{
		"P5 an error at first is no answer": {
			first: errServer, second: timeout,
			afterFirst: func(t *testing.T, _ string, err error) {
				require.True(t, Unread(err))
				require.ErrorContains(t, err, "out of order")
			},
			afterSecond: func(t *testing.T, _ string, err error) { require.True(t, Unread(err)) },
		},
		"P5 6.5 an error later leaves things as they are": {
			second:      errServer,
			afterFirst:  func(t *testing.T, value string, err error) { require.NoError(t, err); require.Equal(t, "1", value) },
			afterSecond: func(t *testing.T, value string, err error) { require.NoError(t, err); require.Equal(t, "1", value) },
		},
		"6.1 6.6 even get is refused": {
			second:     forbidden,
			afterFirst: func(t *testing.T, _ string, err error) { require.NoError(t, err) },
			afterSecond: func(t *testing.T, _ string, err error) {
				require.Equal(t, &ForbiddenError{Verb: "get", Resource: resourceOf(reboot).GroupResource()}, err)
			},
			told: true,
		},
		"6.4 P12 get is granted again": {
			first:       forbidden,
			afterFirst:  func(t *testing.T, _ string, err error) { require.Error(t, err) },
			afterSecond: func(t *testing.T, value string, err error) { require.NoError(t, err); require.Equal(t, "1", value) },
			told:        true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inCluster(t, true, func(t *testing.T, w *fakeCluster) {
				w.getOnly()
				w.put(reboot, "1")
				w.put(fence, "1")
				w.change(func() { w.refused["get reboottemplates"] = tc.first })
				w.want("one", reboot)
				w.want("two", fence)
				pass(confirmAfter)
				value, err := w.value(reboot)
				tc.afterFirst(t, value, err)
				require.Equal(t, []string{"one", "two"}, w.notifiedOwners())

				w.change(func() { w.refused["get reboottemplates"] = tc.second })
				pass(interval + confirmAfter)
				value, err = w.value(reboot)
				tc.afterSecond(t, value, err)
				if !tc.told {
					require.Empty(t, w.notified())
				} else {
					require.Equal(t, []string{"one"}, w.notifiedOwners())
				}
				value, err = w.value(fence)
				require.NoError(t, err, "P1: another kind is read all the same")
				require.Equal(t, "1", value)
			})
		})
	}
}

// TestPolledBecomesWatched: list and watch are granted later.
func TestPolledBecomesWatched(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *fakeCluster) {
		w.getOnly()
		w.put(reboot, "1")
		w.want("one", reboot)
		w.notified()
		w.change(func() { w.denied.Clear() })
		pass(interval)
		require.Equal(t, 1, w.running(reboot))
		require.Equal(t, []string{"one"}, w.notifiedOwners())
		w.put(reboot, "2")
		value, err := w.value(reboot)
		require.NoError(t, err)
		require.Equal(t, "2", value, "6.4: a change is seen at once")
		reads := w.requests("get", reboot)
		pass(time.Hour)
		require.Equal(t, reads, w.requests("get", reboot), "P3: no polls besides")

		w.getOnly()
		w.change(func() {
			w.refused["watch reboottemplates"] = apierrors.NewForbidden(resourceOf(reboot).GroupResource(), "", nil)
		})
		w.breakWatches(reboot)
		pass(5 * time.Second)
		require.Zero(t, w.running(reboot))
		value, err = w.value(reboot)
		require.NoError(t, err, "6.6: withdrawn again, and polled again")
		require.Equal(t, "2", value)
	})
}
