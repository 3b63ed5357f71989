// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

// objects are all objects of a cluster, by their resource, namespace and name, with what
// tells whether one is the same as before: its UID, and the rules of a ClusterRole, to which
// the roles of an installation may be aggregated.
type objects map[string]string

// objects lists the cluster, except objects that come and go by themselves.
func (c *cluster) objects(t *testing.T) objects {
	t.Helper()
	found, err := c.list(t.Context())
	require.NoError(t, err)
	return found
}

func (c *cluster) list(ctx context.Context) (objects, error) {
	lists, err := c.Kube.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	found := objects{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			gvr := version.WithResource(resource.Name)
			if gvr == (schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}) {
				continue // Deprecated. This cluster has none.
			}
			all, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // A kind that has just gone.
			}
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", gvr.GroupResource(), err)
			}
			for i := range all.Items {
				if object := &all.Items[i]; !volatile(gvr, object) {
					rules, err := json.Marshal(object.Object["rules"])
					if err != nil {
						return nil, err
					}
					found[gvr.GroupResource().String()+" "+object.GetNamespace()+"/"+object.GetName()] = string(object.GetUID()) + " " + string(rules)
				}
			}
		}
	}
	return found, nil
}

// volatile reports whether an object comes and goes without anybody doing anything, or
// follows from another one.
func volatile(gvr schema.GroupVersionResource, object *unstructured.Unstructured) bool {
	switch gvr.Resource {
	case "events", "apiservices":
		return true
	case "leases":
		return strings.HasPrefix(object.GetNamespace(), "kube-")
	}
	return false
}

// eventuallyLeft waits until exactly these objects are left beside those of before, which are
// as they were.
func (c *cluster) eventuallyLeft(t *testing.T, before objects, want []string) {
	t.Helper()
	var left, changed []string
	defer func() {
		if t.Failed() {
			t.Logf("left are %q, changed are %q", left, changed)
		}
	}()
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience.Limit, true, func(ctx context.Context) (bool, error) {
		now, err := c.list(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // Kinds go while they are listed.
		}
		left, changed = nil, nil
		for name, identity := range now {
			switch was, known := before[name]; {
			case !known:
				left = append(left, name)
			case was != identity:
				changed = append(changed, name)
			}
		}
		for name := range before {
			if _, there := now[name]; !there {
				changed = append(changed, name)
			}
		}
		slices.Sort(left)
		slices.Sort(changed)
		return slices.Equal(left, want) && len(changed) == 0, nil
	})
	require.NoError(t, err, "not left are %q", want)
}
