// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// permission is the smallest thing that a manifest can grant.
type permission struct {
	namespace             string // Empty for everywhere.
	verb, group, resource string // A subresource follows a slash.
	object                string // Empty for all objects.
	role                  string // That grants it.
}

// String is how the API server words a refusal.
func (p permission) String() string {
	scope := "at the cluster scope"
	if p.namespace != "" {
		scope = `in the namespace "` + p.namespace + `"`
	}
	return `cannot ` + p.verb + ` resource "` + p.resource + `" in API group "` + p.group + `" ` + scope
}

// permits reports whether a request needs the permission.
func (p permission) permits(r localkube.Request) bool {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return p.verb == r.Verb && p.group == r.Group && p.resource == resource &&
		(p.namespace == "" || p.namespace == r.Namespace) && (p.object == "" || p.object == r.Name)
}

// rule is a rule with only this permission.
func (p permission) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{p.group}, Resources: []string{p.resource}, Verbs: []string{p.verb}}
	if p.object != "" {
		rule.ResourceNames = []string{p.object}
	}
	return rule
}

// permissions returns what rules grant, one by one.
func permissions(namespace, role string, rules []rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		objects := rule.ResourceNames
		if len(objects) == 0 {
			objects = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, object := range objects {
						all = append(all, permission{namespace: namespace, verb: verb, group: group, resource: resource, object: object, role: role})
					}
				}
			}
		}
	}
	return all
}

// granted returns all that the manifests grant to the controller. What remediators
// grant is not theirs.
func (c *cluster) granted(t *testing.T) []permission {
	t.Helper()
	isController := func(subject rbacv1.Subject) bool {
		return subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == deploy.Namespace && subject.Name == deploy.ServiceAccount
	}
	var all []permission
	everywhere, err := c.kube.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, binding := range everywhere.Items {
		if slices.ContainsFunc(binding.Subjects, isController) && binding.RoleRef.Name != "nhc-controller-aggregation" {
			role, err := c.kube.RbacV1().ClusterRoles().Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Nil(t, role.AggregationRule, "%s: only the role for remediators grows by itself", role.Name)
			all = append(all, permissions("", role.Name, role.Rules)...)
		}
	}
	somewhere, err := c.kube.RbacV1().RoleBindings(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, binding := range somewhere.Items {
		if slices.ContainsFunc(binding.Subjects, isController) {
			require.Equal(t, "Role", binding.RoleRef.Kind)
			role, err := c.kube.RbacV1().Roles(binding.Namespace).Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})
			require.NoError(t, err)
			all = append(all, permissions(binding.Namespace, role.Name, role.Rules)...)
		}
	}
	for _, p := range all {
		require.NotContains(t, p.verb+p.group+p.resource, "*", "no wildcard: %s", p)
	}
	return all
}

// withdraw takes permissions away from the roles that grant them. It returns when
// the API server refuses. So does restore, which gives them back.
func (c *cluster) withdraw(t *testing.T, withdrawn ...permission) (restore func()) {
	t.Helper()
	var undo []func()
	for _, p := range withdrawn {
		undo = append(undo, c.withdrawOne(t, p))
		patience.Eventually(t, "refused: "+p.String(), func() bool { return !c.permitted(t, p) })
	}
	return func() {
		t.Helper()
		for _, f := range slices.Backward(undo) {
			f()
		}
		for _, p := range withdrawn {
			patience.Eventually(t, "permitted: "+p.String(), func() bool { return c.permitted(t, p) })
		}
	}
}

func (c *cluster) withdrawOne(t *testing.T, p permission) (undo func()) {
	t.Helper()
	without := func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		var left []rbacv1.PolicyRule
		for _, other := range permissions(p.namespace, p.role, rules) {
			if other != p {
				left = append(left, other.rule())
			}
		}
		return left
	}
	update := metav1.UpdateOptions{}
	if p.namespace == "" {
		roles := c.kube.RbacV1().ClusterRoles()
		role, err := roles.Get(t.Context(), p.role, metav1.GetOptions{})
		require.NoError(t, err)
		before := role.Rules
		role.Rules = without(before)
		role, err = roles.Update(t.Context(), role, update)
		require.NoError(t, err)
		return func() {
			role.Rules, role.ResourceVersion = before, ""
			_, err := roles.Update(t.Context(), role, update)
			require.NoError(t, err)
		}
	}
	roles := c.kube.RbacV1().Roles(p.namespace)
	role, err := roles.Get(t.Context(), p.role, metav1.GetOptions{})
	require.NoError(t, err)
	before := role.Rules
	role.Rules = without(before)
	role, err = roles.Update(t.Context(), role, update)
	require.NoError(t, err)
	return func() {
		role.Rules, role.ResourceVersion = before, ""
		_, err := roles.Update(t.Context(), role, update)
		require.NoError(t, err)
	}
}

// permitted asks the API server about the controller.
func (c *cluster) permitted(t *testing.T, p permission) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(p.resource, "/")
	review, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   deploy.User,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + deploy.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.namespace, Verb: p.verb, Group: p.group, Resource: resource, Subresource: subresource, Name: p.object,
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.Allowed
}

// unbindBasicUser takes away what Kubernetes permits to every user by default, and
// what a hardened cluster may not: to ask about one's own permissions.
func (c *cluster) unbindBasicUser(t *testing.T) {
	t.Helper()
	require.NoError(t, c.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), "system:basic-user", metav1.DeleteOptions{}))
}

// installPlatforms installs the overlays and the kinds that they are about, without any
// objects.
func (c *cluster) installPlatforms(t *testing.T) {
	t.Helper()
	_, err := c.Kubectl(t.Context(), "create", "namespace", "openshift-etcd")
	require.NoError(t, err)
	manifest := clusterVersion.manifest
	kinds := []optionalKind{machineHealthCheck, openShiftMachine, clusterAPIMachine}
	for _, kind := range kinds {
		manifest += "\n---\n" + strings.NewReplacer(
			"config.openshift.io", kind.resource.Group, "ClusterVersion", kind.kind, "clusterversions", kind.resource.Resource,
			"clusterversion", strings.ToLower(kind.kind), "name: v1", "name: "+kind.resource.Version, "scope: Cluster", "scope: Namespaced",
		).Replace(clusterVersion.manifest)
	}
	_, err = c.KubectlInput(t.Context(), strings.NewReader(manifest), "apply", "-f", "-")
	require.NoError(t, err)
	for _, kind := range append(kinds, clusterVersion) {
		c.eventuallyServed(t, kind, true)
	}
	c.applyOverlay(t, "openshift")
	c.applyOverlay(t, "cluster-api")
}

// writeForeignStatus writes a field of status that is the controller's to remove, as
// another manager.
func (s *scenario) writeForeignStatus() {
	s.t.Helper()
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
		map[string]any{"status": map[string]any{"inFlightRemediations": map[string]any{s.node("a"): metav1.Now()}}}, "status")
}
