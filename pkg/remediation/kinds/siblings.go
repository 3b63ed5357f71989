// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// siblings returns the kinds of some API groups that have a sibling with templates: a served kind such as RebootTemplate
// for Reboot. With an error, there may be more.
func siblings(ctx context.Context, discovery watches.Discovery, groups sets.Set[string]) ([]schema.GroupKind, error) {
	served, err := discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("discovering API groups: %w", err)
	}
	var kinds []schema.GroupKind
	var failed []error
	for i := range served.Groups {
		group := &served.Groups[i]
		if !groups.Has(group.Name) {
			continue
		}
		names := sets.New[string]()
		for _, version := range group.Versions {
			list, err := discovery.ServerResourcesForGroupVersionWithContext(ctx, version.GroupVersion)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("discovering %s: %w", version.GroupVersion, err))
				continue
			}
			for _, resource := range list.APIResources {
				names.Insert(resource.Kind)
			}
		}
		for _, name := range sets.List(names) {
			if sibling, is := strings.CutSuffix(name, v1alpha1.TemplateKindSuffix); is && names.Has(sibling) {
				kinds = append(kinds, schema.GroupKind{Group: group.Name, Kind: sibling})
			}
		}
	}
	return kinds, errors.Join(failed...)
}
