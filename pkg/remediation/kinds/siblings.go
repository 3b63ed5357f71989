// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// siblings returns the kinds of some API groups that have a sibling with templates: a served kind such as RebootTemplate
// for Reboot. With an error, there may be more.
func siblings(ctx context.Context, discovery watches.Discovery, groups sets.Set[string]) (kinds []schema.GroupKind, _ error) {
	var failed []error
	for _, group := range sets.List(groups) {
		served, err := watches.Served(ctx, discovery, schema.GroupVersion{Group: group})
		failed = append(failed, err)
		names := sets.New[string]()
		for _, list := range served {
			for i := range list.APIResources {
				names.Insert(list.APIResources[i].Kind)
			}
		}
		for _, name := range sets.List(names) {
			if sibling, is := strings.CutSuffix(name, v1alpha1.TemplateKindSuffix); is && names.Has(sibling) {
				kinds = append(kinds, schema.GroupKind{Group: group, Kind: sibling})
			}
		}
	}
	return kinds, errors.Join(failed...)
}
