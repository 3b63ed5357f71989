// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// TestShippedPermissions asks the API server, as the ServiceAccount of the manifest, what
// the controller may do: what spec 22.3 lists, and no more.
func TestShippedPermissions(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, deploy.ServiceAccount)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	const (
		anywhere   = ""
		nodeLeases = "medik8s-leases"
	)
	for name, tc := range map[string]struct {
		namespace, group, resource, object string
		can, cannot                        string
	}{
		"nodes":                          {resource: "nodes", can: "list watch patch", cannot: "create update delete deletecollection"},
		"status of nodes":                {resource: "nodes/status", cannot: "get patch update"},
		"kubelets":                       {resource: "nodes/proxy", cannot: "get create"},
		"NodeHealthChecks":               {group: "remediation.medik8s.io", resource: "nodehealthchecks", can: "list watch", cannot: "create update patch delete deletecollection"},
		"status of NodeHealthChecks":     {group: "remediation.medik8s.io", resource: "nodehealthchecks/status", can: "update", cannot: "create patch delete"},
		"finalizers of NodeHealthChecks": {group: "remediation.medik8s.io", resource: "nodehealthchecks/finalizers", cannot: "update patch"},
		"RemediationBudgets":             {group: "nhc-controller.io", resource: "remediationbudgets", can: "get list watch", cannot: "create update patch delete deletecollection"},
		"status of RemediationBudgets":   {group: "nhc-controller.io", resource: "remediationbudgets/status", can: "update", cannot: "create patch delete"},
		"CRDs":                           {group: "apiextensions.k8s.io", resource: "customresourcedefinitions", can: "list watch", cannot: "create update patch delete"},
		"token reviews":                  {group: "authentication.k8s.io", resource: "tokenreviews", can: "create"},
		"access reviews":                 {group: "authorization.k8s.io", resource: "subjectaccessreviews", can: "create"},
		"own access reviews":             {group: "authorization.k8s.io", resource: "selfsubjectaccessreviews", can: "create"},
		"events":                         {namespace: "default", group: "events.k8s.io", resource: "events", can: "create patch", cannot: "get list delete update"},
		"events elsewhere":               {namespace: deploy.Namespace, group: "events.k8s.io", resource: "events", cannot: "create patch"},
		"events anywhere":                {namespace: anywhere, group: "events.k8s.io", resource: "events", cannot: "create patch"},
		"old events":                     {namespace: "default", resource: "events", cannot: "create patch"},
		"node leases":                    {namespace: nodeLeases, group: "coordination.k8s.io", resource: "leases", can: "list watch create update delete", cannot: "get patch deletecollection"},
		"leader lease":                   {namespace: deploy.Namespace, group: "coordination.k8s.io", resource: "leases", object: deploy.LeaderLease, can: "get update", cannot: "delete patch"},
		"new leader lease":               {namespace: deploy.Namespace, group: "coordination.k8s.io", resource: "leases", can: "create", cannot: "list watch delete"},
		"lease beside the leader's":      {namespace: deploy.Namespace, group: "coordination.k8s.io", resource: "leases", object: "other", cannot: "get update delete"},
		"leases of kubelets":             {namespace: "kube-node-lease", group: "coordination.k8s.io", resource: "leases", cannot: "get list watch create update patch delete"},
		"leases of the control plane":    {namespace: "kube-system", group: "coordination.k8s.io", resource: "leases", cannot: "get list watch create update patch delete"},
		"secrets":                        {namespace: deploy.Namespace, resource: "secrets", cannot: "get list watch create update patch delete"},
		"config maps":                    {namespace: deploy.Namespace, resource: "configmaps", cannot: "get list watch create update patch delete"},
		"pods":                           {namespace: "default", resource: "pods", cannot: "get list watch create update patch delete"},
		"shells in pods":                 {namespace: "default", resource: "pods/exec", cannot: "get create"},
		"tokens":                         {namespace: deploy.Namespace, resource: "serviceaccounts/token", cannot: "create"},
		"other users":                    {resource: "users", cannot: "impersonate"},
		"roles":                          {group: "rbac.authorization.k8s.io", resource: "clusterroles", cannot: "get list watch create update patch delete bind escalate"},
		"role bindings":                  {group: "rbac.authorization.k8s.io", resource: "clusterrolebindings", cannot: "get list watch create update patch delete"},
		"webhooks":                       {group: "admissionregistration.k8s.io", resource: "validatingwebhookconfigurations", cannot: "get create update patch delete"},
		"admission policies":             {group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies", cannot: "get list watch create update patch delete"},
		"namespaces":                     {resource: "namespaces", cannot: "get list watch create update patch delete"},
		"Deployments":                    {namespace: deploy.Namespace, group: "apps", resource: "deployments", cannot: "get list watch update patch delete"},
		"machines":                       {group: "machine.openshift.io", resource: "machines", cannot: "get list watch delete"},
		"templates of the demo":          {group: powerCycle.templates.Group, resource: powerCycle.templates.Resource, can: "get list watch", cannot: "create update patch delete"},
		"remediations of the demo":       {group: powerCycle.remediations.Group, resource: powerCycle.remediations.Resource, can: "get list watch create patch delete"},
	} {
		resource, subresource, _ := strings.Cut(tc.resource, "/")
		may := func(verb string) bool {
			review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: tc.namespace, Verb: verb, Group: tc.group, Resource: resource, Subresource: subresource, Name: tc.object,
				}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			return review.Status.Allowed
		}
		for verb := range strings.FieldsSeq(tc.can) {
			require.True(t, may(verb), "%s: %s", name, verb)
		}
		for verb := range strings.FieldsSeq(tc.cannot) {
			require.False(t, may(verb), "%s: %s", name, verb)
		}
	}

	// The same from the other side: all that it may do in a namespace.
	everywhere := []string{
		"get nodes", "list nodes", "watch nodes", "patch nodes",
		"list nodehealthchecks.remediation.medik8s.io", "watch nodehealthchecks.remediation.medik8s.io",
		"update nodehealthchecks/status.remediation.medik8s.io",
		"get remediationbudgets.nhc-controller.io", "list remediationbudgets.nhc-controller.io", "watch remediationbudgets.nhc-controller.io",
		"update remediationbudgets/status.nhc-controller.io",
		"list customresourcedefinitions.apiextensions.k8s.io", "watch customresourcedefinitions.apiextensions.k8s.io",
		"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io", "create selfsubjectaccessreviews.authorization.k8s.io",
		// As every user may.
		"create selfsubjectreviews.authentication.k8s.io", "create selfsubjectrulesreviews.authorization.k8s.io",
	}
	everywhere = append(everywhere, c.grantedToServiceAccounts(t)...)
	const leases = "leases.coordination.k8s.io"
	for namespace, more := range map[string][]string{
		"default":        {"create events.events.k8s.io", "patch events.events.k8s.io"},
		nodeLeases:       {"list " + leases, "watch " + leases, "create " + leases, "update " + leases, "delete " + leases},
		deploy.Namespace: {"create " + leases, "get " + leases + " nhc-controller", "update " + leases + " nhc-controller"},
		"kube-system":    nil,
	} {
		got := rulesOf(t, client, namespace)
		require.ElementsMatch(t, slices.Concat(everywhere, more), got.UnsortedList(), "22.3: in namespace %s", namespace)
	}
}

// rulesOf returns what a client may do in a namespace, without what the demo
// remediator has granted.
func rulesOf(t *testing.T, client kubernetes.Interface, namespace string) sets.Set[string] {
	t.Helper()
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.False(t, review.Status.Incomplete)
	rules := sets.New[string]()
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			if group == powerCycle.remediations.Group {
				continue
			}
			suffix := ""
			if group != "" {
				suffix = "." + group
			}
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						rules.Insert(strings.TrimSpace(verb + " " + resource + suffix + " " + name))
					}
				}
			}
		}
	}
	return rules
}
