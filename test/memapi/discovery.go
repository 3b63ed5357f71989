// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discover answers with the served resources.
func (s *Server) discover(call *call) (*http.Response, error) {
	call.Verb = "get"
	switch path := call.path; {
	case len(path) == 1 && path[0] == "api":
		return answer(http.StatusOK, encode(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})), nil
	case len(path) == 1 && path[0] == "apis":
		return answer(http.StatusOK, encode(s.groups())), nil
	case len(path) == 2 && path[0] == "api":
		return s.resources(schema.GroupVersion{Version: path[1]})
	case len(path) == 3 && path[0] == "apis":
		return s.resources(schema.GroupVersion{Group: path[1], Version: path[2]})
	default:
		return nil, errNotServed(schema.GroupVersionResource{})
	}
}

func (s *Server) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, t := range s.sorted() {
		if t.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: t.GroupVersion().String(), Version: t.Version}
		i := slices.IndexFunc(list.Groups, func(group metav1.APIGroup) bool { return group.Name == t.Group })
		if i < 0 {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: t.Group, PreferredVersion: version})
			i = len(list.Groups) - 1
		}
		if group := &list.Groups[i]; !slices.Contains(group.Versions, version) {
			group.Versions = append(group.Versions, version)
		}
	}
	return list
}

func (s *Server) resources(gv schema.GroupVersion) (*http.Response, error) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for _, t := range s.sorted() {
		if t.GroupVersion() != gv {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: t.plural(), Kind: t.Kind, Namespaced: t.Namespaced, Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"},
		})
	}
	if len(list.APIResources) == 0 {
		return nil, errNotServed(gv.WithResource(""))
	}
	return answer(http.StatusOK, encode(list)), nil
}

func (s *Server) sorted() []*table {
	tables := make([]*table, 0, len(s.tables))
	for _, t := range s.tables {
		tables = append(tables, t)
	}
	slices.SortFunc(tables, func(a, b *table) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.plural(), b.plural()))
	})
	return tables
}

// review answers a SelfSubjectAccessReview by the forbidden verbs of the user.
func (c *Client) review(call *call) (*http.Response, error) {
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.Unmarshal(call.Body, &review); err != nil || review.Spec.ResourceAttributes == nil {
		return nil, apierrors.NewBadRequest("no SelfSubjectAccessReview of a resource")
	}
	review.Kind, review.APIVersion = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
	asked := review.Spec.ResourceAttributes
	review.Status.Allowed = !c.isForbidden(asked.Verb, schema.GroupResource{Group: asked.Group, Resource: asked.Resource})
	return answer(http.StatusCreated, encode(review)), nil
}
