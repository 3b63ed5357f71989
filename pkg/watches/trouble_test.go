// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// troubles are the requests of a look that may fail without being an answer.
var troubles = map[string]struct{ begin, end func(*fakeCluster) }{
	"discovery": {
		begin: func(w *fakeCluster) { w.discoveryErr[reboot.Group] = errServer },
		end:   func(w *fakeCluster) { clear(w.discoveryErr) },
	},
	"review of permissions": {
		begin: func(w *fakeCluster) { w.accessErr = errServer },
		end:   func(w *fakeCluster) { w.accessErr = nil },
	},
	"discovery hangs": {
		begin: func(w *fakeCluster) { w.hanging.Insert(reboot.Group) },
		end:   func(w *fakeCluster) { w.hanging.Clear() },
	},
}

func TestTroubleAtFirst(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.change(func() { trouble.begin(w) })
				w.want("one", reboot)
				pass(probeTimeout)
				_, err := w.set.Mapping(reboot)
				require.True(t, Unread(err), "P5: no error is an answer")
				require.NotEqual(t, ErrPending, err, "with the cause, so that no sync waits for it")
				require.Equal(t, [][]string{{"one"}}, w.notified())
				pass(time.Hour)
				require.Empty(t, w.notified(), "P3")

				w.change(func() { trouble.end(w) })
				// A look that hangs takes its time before the next one.
				pass(probeInterval + probeTimeout)
				_, err = w.set.Cache(reboot)
				require.NoError(t, err, "P12")
				require.Equal(t, []string{"one"}, w.notifiedOwners())
			})
		})
	}
}

func TestTroubleLater(t *testing.T) {
	for name, trouble := range troubles {
		t.Run("watched, "+name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.put(reboot, "1")
				w.want("one", reboot)
				w.notified()
				w.change(func() { trouble.begin(w) })
				w.set.Refresh(crdOf(reboot))
				pass(time.Hour)
				value, err := w.value(reboot)
				require.NoError(t, err, "P5: what was known stays")
				require.Equal(t, "1", value)
				require.Equal(t, 1, w.running(reboot))
				w.put(reboot, "2")
				value, err = w.value(reboot)
				require.NoError(t, err)
				require.Equal(t, "2", value, "and the watch goes on")
				require.Empty(t, w.notified())
			})
		})
		t.Run("forbidden, "+name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.change(func() { w.denied.Insert("list reboottemplates") })
				w.want("one", reboot)
				pass(confirmAfter)
				w.notified()
				w.change(func() { trouble.begin(w) })
				pass(time.Hour)
				_, err := w.set.Mapping(reboot)
				require.IsType(t, &ForbiddenError{}, err, "P5: what was known stays")
				require.Empty(t, w.notified())
				w.change(func() { trouble.end(w); w.denied.Clear() })
				pass(probeInterval + probeTimeout)
				_, err = w.set.Cache(reboot)
				require.NoError(t, err, "P12")
			})
		})
	}
}

// TestTroubleDelaysNoOther: neither errors nor a group that hangs hold up a
// kind of another group.
func TestTroubleDelaysNoOther(t *testing.T) {
	for name, trouble := range troubles {
		if name == "review of permissions" {
			continue // The reviews of all kinds go to one place.
		}
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *fakeCluster) {
				w.change(func() { trouble.begin(w) })
				w.want("one", reboot, global)
				w.want("two", fence)
				require.Equal(t, 1, w.running(fence), "21.2 P1: at once")
				_, err := w.set.Cache(fence)
				require.NoError(t, err)
			})
		})
	}
}
