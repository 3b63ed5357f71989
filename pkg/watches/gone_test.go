// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
)

// definitions are the CustomResourceDefinitions that a cache knows, and whether it is
// filled.
type definitions struct {
	names []string
	known bool
}

// TestGone: objects of a kind exist no longer if it is not served and no
// CustomResourceDefinition has it (spec P12); any doubt says that they may (P5).
func TestGone(t *testing.T) {
	tests := map[string]struct {
		// cached are the definitions that a cache has.
		cached  definitions
		prepare func(*fakeCluster)
		gone    bool
	}{
		"P12 the last definition of the group was removed": {cached: definitions{known: true}, gone: true},
		"P12 the definition was removed, another is served": {
			cached:  definitions{names: []string{crdOf(global)}, known: true},
			prepare: func(w *fakeCluster) { w.served.Insert(global) },
			gone:    true,
		},
		"P5 it may be that of a definition that is not served": {cached: definitions{names: []string{"others.a.example.com"}, known: true}},
		"P5 the cache of the definitions is not filled":        {},
		"P12 no definition of the group was ever there": {
			cached:  definitions{known: true},
			prepare: func(w *fakeCluster) { w.served.Insert(fence) },
			gone:    true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inClusterOf(t, func(c *Config) {
				c.CRDs = func(string) ([]string, bool) { return slices.Clone(tc.cached.names), tc.cached.known }
			}, func(t *testing.T, w *fakeCluster) {
				w.change(func() {
					w.served.Clear()
					if tc.prepare != nil {
						tc.prepare(w)
					}
				})
				w.want("one", reboot)
				_, err := w.set.Mapping(reboot)
				require.True(t, meta.IsNoMatchError(err), "%v", err)
				require.Equal(t, tc.gone, w.set.Gone(reboot))
				w.notified()
				pass(time.Hour)
				require.Equal(t, tc.gone, w.set.Gone(reboot))
				require.Empty(t, w.notified(), "P3")
			})
		})
	}
}

// TestGoneAndBack: as kinds come and go, and without an answer in between.
func TestGoneAndBack(t *testing.T) {
	var cached definitions
	inClusterOf(t, func(c *Config) {
		c.CRDs = func(string) ([]string, bool) { return cached.names, cached.known }
	}, func(t *testing.T, w *fakeCluster) {
		cached = definitions{names: []string{"reboottemplates.a.example.com"}, known: true}
		w.want("one", reboot)
		require.False(t, w.set.Gone(reboot))
		require.False(t, w.set.Gone(fence), "it is not wanted")

		w.change(func() { w.served.Delete(reboot) })
		w.set.Refresh(crdOf(reboot))
		pass(probeInterval)
		require.False(t, w.set.Gone(reboot), "P5: it is defined")
		w.notified()

		w.change(func() { cached.names = nil; w.served.Delete(global) })
		w.set.Refresh(crdOf(reboot))
		pass(probeInterval)
		require.True(t, w.set.Gone(reboot))
		require.Equal(t, [][]string{{"one"}}, w.notified(), "P2: although the kind was not served before either")

		w.change(func() {
			cached.names = []string{"reboottemplates.a.example.com"}
			w.discoveryErr[reboot.Group] = errServer
		})
		w.set.Refresh(crdOf(reboot))
		pass(time.Hour)
		require.True(t, w.set.Gone(reboot), "what was known stays")
		w.change(func() { clear(w.discoveryErr); w.served.Insert(reboot) })
		w.change(func() { w.refused["list reboottemplates"] = errServer })
		pass(probeInterval)
		require.False(t, w.set.Gone(reboot))
		_, read := w.set.LastCache(reboot)
		require.False(t, read, "P12: what it had before went with it")
	})
}

// TestGoneIsSilent: a kind that is gone is not asked for before a CRD changes.
func TestGoneIsSilent(t *testing.T) {
	var cached definitions
	inClusterOf(t, func(c *Config) {
		c.CRDs = func(string) ([]string, bool) { return cached.names, cached.known }
	}, func(t *testing.T, w *fakeCluster) {
		w.change(func() { w.served.Clear() })
		w.want("one", reboot)
		pass(time.Hour)
		require.False(t, w.set.Gone(reboot), "P5: the definitions are not known yet")
		cached.known = true
		for _, delay := range []time.Duration{0, time.Second, 3 * time.Second} {
			pass(probeInterval)
			require.True(t, w.set.Gone(reboot), "P12")
			w.change(func() { w.looks = 0 })
			pass(24 * time.Hour)
			require.Zero(t, w.looks, "P3: no request for what is not there")

			// It is installed while the controller runs. Discovery follows a little later.
			w.notified()
			cached.names = []string{crdOf(reboot)}
			w.set.Refresh(crdOf(reboot))
			pass(delay)
			w.change(func() { w.served.Insert(reboot) })
			pass(5*time.Second - delay)
			require.Equal(t, 1, w.running(reboot), "1.3 6.4: within 5 s of the change of a CRD, which is served %s later", delay)
			require.Equal(t, []string{"one"}, w.notifiedOwners())

			cached.names = nil
			w.change(func() { w.served.Delete(reboot) })
			w.set.Refresh(crdOf(reboot))
			pass(time.Second)
			require.Zero(t, w.running(reboot), "1.3: it may vanish")
			_, err := w.set.Cache(reboot)
			require.True(t, meta.IsNoMatchError(err), "%v", err)
		}
	})
}
