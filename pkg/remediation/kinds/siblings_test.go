// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// serving is a Discovery that serves kinds by version; one without kinds fails.
type serving map[string][]string

func (s serving) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	list := &metav1.APIGroupList{}
	for version := range s {
		parsed, err := schema.ParseGroupVersion(version)
		if err != nil {
			return nil, err
		}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: parsed.Group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: version}}})
	}
	return list, nil
}

func (s serving) ServerResourcesForGroupVersionWithContext(_ context.Context, version string) (*metav1.APIResourceList, error) {
	if s[version] == nil {
		return nil, apierrors.NewInternalError(errors.New("down"))
	}
	list := &metav1.APIResourceList{}
	for _, kind := range s[version] {
		list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
	}
	return list, nil
}

func TestSiblings(t *testing.T) {
	t.Parallel()
	served := serving{
		"a.example.com/v1":    {"Reboot", "RebootTemplate", "OtherTemplate", "Plain"},
		"b.example.com/v1":    {"Fence", "FenceTemplate"},
		"c.example.com/v1":    {"Move", "MoveTemplate"},
		"down.example.com/v1": nil,
	}
	reboot, fence := schema.GroupKind{Group: "a.example.com", Kind: "Reboot"}, schema.GroupKind{Group: "b.example.com", Kind: "Fence"}
	kinds, err := siblings(t.Context(), served, sets.New("a.example.com", "b.example.com", "gone.example.com"))
	require.NoError(t, err)
	require.ElementsMatch(t, []schema.GroupKind{reboot, fence}, kinds)
	kinds, err = siblings(t.Context(), served, sets.New("a.example.com", "down.example.com"))
	require.Error(t, err, "P5: there may be more")
	require.ElementsMatch(t, []schema.GroupKind{reboot}, kinds, "P1")
}
