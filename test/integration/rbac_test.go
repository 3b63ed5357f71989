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

	const nodeLeases = "medik8s-leases"
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
		"kube-system":    nil, "kube-node-lease": nil,
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
