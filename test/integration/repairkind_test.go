// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// templateVerbs and remediationVerbs are the permissions that the controller uses
// (spec 6.6).
var (
	templateVerbs    = []string{"get", "list", "watch"}
	remediationVerbs = []string{"get", "list", "watch", "create", "patch", "delete"}
)

// newRepairScenario returns a scenario with a kind of its own, in an API group of
// its own. It is not installed yet, and the controller has no permissions
// on it. The key tells the scenarios of one test apart.
func newRepairScenario(t *testing.T, c *cluster, key string) *scenario {
	t.Helper()
	s := newEmptyScenario(t, c, t.Name()+key, remediationKind{})
	group := schema.GroupVersion{Group: s.name + ".test.nhc-controller.io", Version: "v1alpha1"}
	s.kind = remediationKind{name: "Repair", remediations: group.WithResource("repairs"), templates: group.WithResource("repairtemplates")}
	s.atEnd = append(s.atEnd, func(ctx context.Context) {
		for _, gvr := range []schema.GroupVersionResource{s.kind.remediations, s.kind.templates} {
			_ = s.dynamic.Resource(crdResource).Delete(ctx, gvr.GroupResource().String(), metav1.DeleteOptions{})
			_ = s.kube.RbacV1().ClusterRoles().Delete(ctx, gvr.GroupResource().String(), metav1.DeleteOptions{})
		}
	})
	return s
}

// installAll installs both kinds with all permissions and the usual template.
func (s *scenario) installAll() {
	s.t.Helper()
	s.grant(s.kind.templates, templateVerbs...)
	s.grant(s.kind.remediations, remediationVerbs...)
	s.install(s.kind.templates)
	s.install(s.kind.remediations)
	s.createTemplate(usualTemplate())
}

// install installs one of the two kinds, and waits until it is served. It has a
// second version, in which objects are stored.
func (s *scenario) install(gvr schema.GroupVersionResource) {
	s.t.Helper()
	kind, singular := s.kind.name, "repair"
	if gvr == s.kind.templates {
		kind, singular = s.kind.templateName(), "repairtemplate"
	}
	scope := "Namespaced"
	if s.kind.clusterScoped {
		scope = "Cluster"
	}
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	version := func(name string, storage bool) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": storage,
			"subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": anything, "status": anything},
			}},
		}
	}
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": gvr.Group,
		"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": gvr.Resource, "singular": singular},
		"scope": scope, "versions": []any{version("v1", true), version(gvr.Version, false)},
	}}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(gvr.GroupResource().String())
	_, err := s.dynamic.Resource(crdResource).Create(s.t.Context(), crd, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.eventuallyServed(gvr, true)
}

// serve makes a version served or not.
func (s *scenario) serve(gvr schema.GroupVersionResource, served bool) {
	s.t.Helper()
	crds := s.dynamic.Resource(crdResource)
	crd, err := crds.Get(s.t.Context(), gvr.GroupResource().String(), metav1.GetOptions{})
	require.NoError(s.t, err)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(s.t, err)
	for _, version := range versions {
		if version.(map[string]any)["name"] == gvr.Version {
			version.(map[string]any)["served"] = served
		}
	}
	s.patch(crds, crd.GetName(), map[string]any{"spec": map[string]any{"versions": versions}})
	s.eventuallyServed(gvr, served)
}

// uninstall deletes the CRD and with it all objects, and waits until it is gone.
func (s *scenario) uninstall(gvr schema.GroupVersionResource) {
	s.t.Helper()
	crds := s.dynamic.Resource(crdResource)
	require.NoError(s.t, crds.Delete(s.t.Context(), gvr.GroupResource().String(), metav1.DeleteOptions{}))
	s.eventually("the CRD is gone", func() bool {
		_, err := crds.Get(s.t.Context(), gvr.GroupResource().String(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	s.eventuallyServed(gvr, false)
}

// touchCRD makes the controller look at the kind again.
func (s *scenario) touchCRD(gvr schema.GroupVersionResource, value string) {
	s.t.Helper()
	s.patch(s.dynamic.Resource(crdResource), gvr.GroupResource().String(), metadataPatch("annotations", map[string]any{"test.nhc-controller.io/touched": value}))
}

func (s *scenario) eventuallyServed(gvr schema.GroupVersionResource, served bool) {
	s.t.Helper()
	s.eventually(gvr.Resource+" is served, or is not", func() bool {
		_, err := s.resource(gvr).List(s.t.Context(), metav1.ListOptions{})
		return (err == nil) == served
	})
}

// grant makes these the permissions of the controller on a resource, by a
// ClusterRole with the label for aggregation, and waits until they are.
func (s *scenario) grant(gvr schema.GroupVersionResource, verbs ...string) {
	s.t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: gvr.GroupResource().String(), Labels: map[string]string{v1alpha1.LabelAggregate: "true"}},
	}
	if len(verbs) > 0 {
		role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}, Verbs: verbs}}
	}
	roles := s.kube.RbacV1().ClusterRoles()
	_, err := roles.Create(s.t.Context(), role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = roles.Update(s.t.Context(), role, metav1.UpdateOptions{})
	}
	require.NoError(s.t, err)
	permitted := map[string]bool{}
	for _, verb := range verbs {
		permitted[verb] = true
	}
	for _, verb := range remediationVerbs {
		s.eventually("the permission to "+verb+" "+gvr.Resource+" is as it should be", func() bool {
			return s.mayController(verb, gvr) == permitted[verb]
		})
	}
}

func (s *scenario) mayController(verb string, gvr schema.GroupVersionResource) bool {
	s.t.Helper()
	return s.permitted(s.t, permission{verb: verb, group: gvr.Group, resource: gvr.Resource})
}
