// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// fakeResource is the client of one resource, whose lists the test sets.
type fakeResource struct {
	dynamic.ResourceInterface
	version string
	objects []*unstructured.Unstructured
}

func (r *fakeResource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(r.version)
	for _, object := range r.objects {
		list.Items = append(list.Items, *object)
	}
	return list, nil
}

func newObject(name, uid, version string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetName(name)
	object.SetUID(types.UID(uid))
	object.SetResourceVersion(version)
	return object
}

// TestGap: an object that was deleted during a gap may have gone at its beginning. The follower only sees that
// afterwards.
func TestGap(t *testing.T) {
	var changes []rules.Change
	resource := &fakeResource{version: "10", objects: []*unstructured.Unstructured{
		newObject("gone", "a", "4"), newObject("replaced", "b", "5"), newObject("changed", "c", "6"), newObject("same", "d", "7"),
	}}
	f := &follower{client: resource, state: map[string]reportedVersion{}, sink: func(c rules.Change) { changes = append(changes, c) }}
	require.NoError(t, f.list(t.Context()))
	require.Len(t, changes, 4)
	for _, change := range changes {
		require.False(t, change.Gap)
		require.Zero(t, change.Time, "it was there from the beginning")
	}
	require.NoError(t, f.take(watch.Modified, newObject("same", "d", "11")))
	require.True(t, f.caughtUp(map[string]uint64{"gone": 4, "replaced": 5, "changed": 6, "same": 11}, 20))
	require.False(t, f.caughtUp(map[string]uint64{"gone": 4, "replaced": 5, "changed": 26, "same": 11}, 30))

	changes = nil
	resource.version = "40"
	resource.objects = []*unstructured.Unstructured{newObject("replaced", "e", "25"), newObject("changed", "c", "26"), newObject("same", "d", "11")}
	require.NoError(t, f.list(t.Context()))
	versions := map[string][]uint64{}
	for _, change := range changes {
		require.True(t, change.Gap)
		require.NotZero(t, change.Time)
		require.Equal(t, change.ResourceVersion == 21, change.Object == nil)
		versions[change.Key] = append(versions[change.Key], change.ResourceVersion)
	}
	require.Equal(t, map[string][]uint64{"gone": {21}, "replaced": {21, 25}, "changed": {26}}, versions)
	require.True(t, f.caughtUp(map[string]uint64{"replaced": 25, "changed": 26, "same": 11}, 40))
}
