// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// restarted has the API server refuse everything, as after a restart, when it has not
// read yet who may do what.
func (w *fakeCluster) restarted() {
	w.change(func() {
		for _, resource := range resources {
			for _, verb := range []string{"get", "list", "watch"} {
				w.denied.Insert(verb + " " + resource.Name)
				w.refused[verb+" "+resource.Name] = apierrors.NewForbidden(resourceOf(reboot).GroupResource(), "", nil)
			}
		}
	})
	w.breakWatches(reboot)
	w.breakWatches(fence)
}

func (w *fakeCluster) readyAgain() { w.change(func() { w.denied.Clear(); clear(w.refused) }) }

// TestRefusedForAMoment: a refusal that does not last is never reported as one.
func TestRefusedForAMoment(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.put(reboot, "1")
		w.want("one", reboot)
		w.notified()
		w.restarted()
		w.set.Recheck(reboot)
		for range 19 {
			pass(confirmAfter / 20)
			w.set.Recheck(reboot) // However often that is.
			_, err := w.set.Mapping(reboot)
			require.NoError(t, err, "6.5: once is not enough")
		}
		require.Empty(t, w.notified(), "P3")
		value, err := w.value(reboot)
		require.NoError(t, err, "what was read stays")
		require.Equal(t, "1", value)

		w.readyAgain()
		pass(confirmAfter / 20)
		_, err = w.set.Mapping(reboot)
		require.NoError(t, err)
		pass(time.Minute)
		require.Empty(t, w.notified(), "P3")
		require.Equal(t, 1, w.running(reboot))

		// Another moment of that kind has to be confirmed anew.
		w.restarted()
		w.set.Recheck(reboot)
		pass(confirmAfter / 2)
		_, err = w.set.Mapping(reboot)
		require.NoError(t, err)
		pass(confirmAfter / 2)
		_, err = w.set.Mapping(reboot)
		require.IsType(t, &ForbiddenError{}, err, "6.4: a real removal is reported in time")
	})
}

// TestRefusedAtFirst: right after the start a refusal may be a mistake too.
func TestRefusedAtFirst(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.restarted()
		w.want("one", reboot)
		_, err := w.set.Mapping(reboot)
		require.Equal(t, ErrPending, err)
		pass(confirmAfter / 2)
		require.Empty(t, w.notified())
		w.readyAgain()
		pass(confirmAfter / 2)
		_, err = w.set.Cache(reboot)
		require.NoError(t, err)
	})
}

// TestLastCacheOfAForbiddenKind: what was read last holds after the permission was withdrawn (spec M15.1).
func TestLastCacheOfAForbiddenKind(t *testing.T) {
	inCluster(t, func(t *testing.T, w *fakeCluster) {
		w.put(reboot, "1")
		w.want("one", reboot)
		w.restarted()
		pass(time.Hour)
		_, err := w.set.Cache(reboot)
		require.IsType(t, &ForbiddenError{}, err)
		last, read := w.set.LastCache(reboot)
		require.True(t, read)
		require.Len(t, last.List(), 1)

		w.put(reboot, "2")
		w.readyAgain()
		pass(time.Hour)
		current, err := w.set.Cache(reboot)
		require.NoError(t, err, "P12")
		last, read = w.set.LastCache(reboot)
		require.True(t, read)
		require.Same(t, current, last)

		w.want("one")
		_, read = w.set.LastCache(reboot)
		require.False(t, read, "it is not wanted any more")
	})
}

// TestForbiddenButReadable: reading is permitted, something else is not.
func TestForbiddenButReadable(t *testing.T) {
	needsMore := func(c *Config) { c.Verbs = []string{"get", "list", "watch", "create", "patch", "delete"} }
	inClusterOf(t, needsMore, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.denied.Insert("patch reboottemplates") })
		w.put(reboot, "1")
		w.want("one", reboot)
		pass(confirmAfter)
		mapping, err := w.set.Mapping(reboot)
		require.Equal(t, &ForbiddenError{Verb: "patch", Resource: resourceOf(reboot).GroupResource()}, err, "6.6")
		require.Equal(t, resourceOf(reboot), mapping.Resource)
		indexer, err := w.set.Cache(reboot)
		require.NoError(t, err, "6.7: as far as the CRs can be read")
		require.Len(t, indexer.List(), 1)
		pass(time.Minute)
		w.notified()
		pass(time.Hour)
		require.Empty(t, w.notified(), "P3")

		w.change(func() { w.denied.Clear() })
		pass(probeInterval)
		_, err = w.set.Mapping(reboot)
		require.NoError(t, err, "6.4: within the poll")
		require.Equal(t, 1, w.requests("list", reboot), "the informer goes on")
		require.Equal(t, []string{"one"}, w.notifiedOwners())

		w.change(func() {
			w.denied.Insert("list reboottemplates")
			w.refused["watch reboottemplates"] = apierrors.NewForbidden(resourceOf(reboot).GroupResource(), "", nil)
		})
		w.breakWatches(reboot)
		pass(5 * time.Second)
		_, err = w.set.Cache(reboot)
		require.IsType(t, &ForbiddenError{}, err, "and stops when reading is not permitted any more")
	})
}
