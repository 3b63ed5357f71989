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
			cached:  definitions{names: []string{resourceOf(global).GroupResource().String()}, known: true},
			prepare: func(w *fakeCluster) { w.served.Insert(global) },
			gone:    true,
		},
		"P5 it may be that of a definition that is not served": {cached: definitions{names: []string{"others.a.example.com"}, known: true}},
		"P5 the cache of the definitions is not filled":        {},
		"P5 an aggregated API serves the group": {
			cached:  definitions{known: true},
			prepare: func(w *fakeCluster) { w.served.Insert(global) },
		},
		"P5 it is not known which groups are served": {
			cached: definitions{known: true},
			prepare: func(w *fakeCluster) {
				w.served.Insert(fence)
				w.discoveryErr[fence.Group] = errServer
			},
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
		w.set.Refresh(reboot.Group)
		pass(interval)
		require.False(t, w.set.Gone(reboot), "P5: it is defined")
		w.notified()

		w.change(func() { cached.names = nil; w.served.Delete(global) })
		w.set.Refresh(reboot.Group)
		pass(interval)
		require.True(t, w.set.Gone(reboot))
		require.Equal(t, [][]string{{"one"}}, w.notified(), "P2: although the kind was not served before either")

		w.change(func() { w.discoveryErr[reboot.Group] = errServer })
		pass(time.Hour)
		require.True(t, w.set.Gone(reboot), "what was known stays")
		w.change(func() { clear(w.discoveryErr); w.served.Insert(reboot) })
		w.change(func() { w.refused["list reboottemplates"] = errServer })
		pass(interval)
		require.False(t, w.set.Gone(reboot))
		_, read := w.set.LastCache(reboot)
		require.False(t, read, "P12: what it had before went with it")
	})
}
