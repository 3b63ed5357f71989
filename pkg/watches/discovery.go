// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovery returns the resources that the API server serves.
type Discovery interface {
	ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Served returns the resources of an API group that are served, without subresources, a list for each version. The
// version that the API server prefers is the first. If of names a version, it returns only those of that one.
func Served(ctx context.Context, discovery Discovery, of schema.GroupVersion) (lists []*metav1.APIResourceList, _ error) {
	versions := []metav1.GroupVersionForDiscovery{{GroupVersion: of.String()}}
	if of.Version == "" {
		groups, err := discovery.ServerGroupsWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("discovering API groups: %w", err)
		}
		versions = nil
		for i := range groups.Groups {
			if groups.Groups[i].Name == of.Group {
				versions = groups.Groups[i].Versions
			}
		}
	}
	for _, version := range versions {
		list, err := discovery.ServerResourcesForGroupVersionWithContext(ctx, version.GroupVersion)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("discovering %s: %w", version.GroupVersion, err)
		}
		lists = append(lists, &metav1.APIResourceList{
			GroupVersion: version.GroupVersion,
			APIResources: slices.DeleteFunc(slices.Clone(list.APIResources), func(resource metav1.APIResource) bool { return strings.Contains(resource.Name, "/") }),
		})
	}
	return lists, nil
}
