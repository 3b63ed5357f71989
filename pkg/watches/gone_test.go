// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// definitions are the CustomResourceDefinitions that a cache knows, and whether it is
// filled.
type definitions struct {
	names []string
	known bool
}

func (w *fakeCluster) define(name string, gvk schema.GroupVersionKind) {
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": gvk.Group, "names": map[string]any{"kind": gvk.Kind}}}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(name)
	_ = w.client.Tracker().Create(crdResource, crd, "")
}

// TestGone: objects of a kind exist no longer if it is not served and no
// CustomResourceDefinition has it (spec P12); any doubt says that they may (P5).
func TestGone(t *testing.T) {
	other := schema.GroupVersionKind{Group: reboot.Group, Version: "v1", Kind: "Other"}
	tests := map[string]struct {
		// defined are the definitions that exist, cached those that a cache has.
		defined map[string]schema.GroupVersionKind
		cached  definitions
		prepare func(*fakeCluster)
		gone    bool
	}{
		"P12 the last definition of the group was removed": {cached: definitions{known: true}, gone: true},
		"P12 the definition was removed, another is there": {
			defined: map[string]schema.GroupVersionKind{"others.a.example.com": other},
			cached:  definitions{names: []string{"others.a.example.com"}, known: true},
			gone:    true,
		},
		"P12 its definition was removed, which the cache has not seen": {
			cached: definitions{names: []string{"reboottemplates.a.example.com"}, known: true},
			gone:   true,
		},
		"P5 it has a definition, in another version": {
			defined: map[string]schema.GroupVersionKind{"others.a.example.com": other, "reboottemplates.a.example.com": reboot},
			cached:  definitions{names: []string{"others.a.example.com", "reboottemplates.a.example.com"}, known: true},
		},
		"P5 a definition does not name its kind": {
			defined: map[string]schema.GroupVersionKind{"others.a.example.com": {}},
			cached:  definitions{names: []string{"others.a.example.com"}, known: true},
		},
		"P5 the cache of the definitions is not filled": {},
		"P5 a definition cannot be read": {
			cached:  definitions{names: []string{"others.a.example.com"}, known: true},
			prepare: func(w *fakeCluster) { w.refused["list customresourcedefinitions"] = errServer },
		},
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
				c.CRDs = func(string) ([]string, bool) { return tc.cached.names, tc.cached.known }
			}, func(t *testing.T, w *fakeCluster) {
				w.change(func() {
					w.served.Clear()
					if tc.prepare != nil {
						tc.prepare(w)
					}
				})
				for name, gvk := range tc.defined {
					w.define(name, gvk)
				}
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
		w.define("reboottemplates.a.example.com", reboot)
		w.want("one", reboot)
		require.False(t, w.set.Gone(reboot))
		require.False(t, w.set.Gone(fence), "it is not wanted")

		w.change(func() { w.served.Delete(reboot) })
		w.set.Refresh(reboot.Group)
		pass(interval)
		require.False(t, w.set.Gone(reboot), "P5: it is defined")
		w.notified()

		require.NoError(t, w.client.Tracker().Delete(crdResource, "", "reboottemplates.a.example.com"))
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
