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

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
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

// permitted asks the API server about the controller.
func (c *cluster) permitted(t *testing.T, p permission) bool {
	t.Helper()
	return c.permittedTo(t, p, deploy.User, "system:serviceaccounts", "system:serviceaccounts:"+deploy.Namespace, "system:authenticated")
}

func (c *cluster) permittedTo(t *testing.T, p permission, user string, groups ...string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(p.resource, "/")
	review, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: groups,
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
	c.createNamespaces(t, "openshift-etcd")
	c.installOptional(t, untypedKind("machine.openshift.io", "v1beta1", "MachineHealthCheck", false), untypedKind("machine.openshift.io", "v1beta1", "Machine", false),
		untypedKind("cluster.x-k8s.io", "v1beta2", "Machine", false), clusterVersion)
	c.applyOverlay(t, "openshift")
	c.applyOverlay(t, "cluster-api")
}
