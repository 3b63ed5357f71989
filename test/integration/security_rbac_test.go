// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestLeastPrivilege: the manifests grant what the controller needs, and nothing else
// (spec 22.3). In the cluster of this test, only the remediation kinds come with
// further permissions.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.unbindBasicUser(t)
	c.installPlatforms(t)
	t.Run("what Metal3 does not grant", func(t *testing.T) { testMetal3IsGranted(t, c) })
	t.Run("all that is granted is used", func(t *testing.T) { testGrantedIsUsed(t, c) })
}

// testMetal3IsGranted: the overlay for Cluster API grants what spec 6.6 asks for of the
// kinds of Metal3, which brings no role of its own, and nothing else of them.
func testMetal3IsGranted(t *testing.T, c *cluster) {
	for resource, verbs := range map[schema.GroupVersionResource][]string{metal3.templates: templateVerbs, metal3.remediations: remediationVerbs} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			p := permission{verb: verb, group: resource.Group, resource: resource.Resource}
			patience.Eventually(t, p.String(), func() bool { return c.permitted(t, p) == slices.Contains(verbs, verb) })
		}
	}
}

// askedOnly is what the controller asks for and does not do. It uses an optional kind
// only if it may get, list and watch its objects.
func askedOnly(p permission) bool {
	return p.verb == "get" && slices.Contains([]string{"machines", "machinehealthchecks", "clusterversions", "remediationbudgets"}, p.resource)
}

// testGrantedIsUsed lets the controller do all that it does, and looks at what the API
// server has recorded.
func testGrantedIsUsed(t *testing.T, c *cluster) {
	controller := c.startDeployed(t, deploy.Controller{
		Name: "used", Args: []string{"-v=5", "--leader-elect-retry-period=1s"}, Env: []string{"KUBE_FEATURE_WatchListClient=false"}, // Then it lists, too.
	})
	s := newScenario(t, c)
	s.createNodes("a", "b", "cp")
	s.labelNode("cp", map[string]any{controlPlaneRole: ""})
	s.createNHC(healthyDelay(-time.Second))
	s.createBudget(maxConcurrent(100))

	for _, name := range []string{"cp", "a", "b"} {
		s.fail(name) // On OpenShift, etcd is asked about the first one.
	}
	s.eventuallyCR("b")
	s.deleteNode("b") // Its CR is told to stop, and deleted.
	s.eventuallyNoCR("b")
	s.eventuallyCR("a")
	old := s.nodeLease("a")
	old.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
	old, err := s.nodeLeases().Update(t.Context(), old, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.eventually("a new write of the lease of node a", func() bool {
		lease := s.nodeLease("a")
		return lease != nil && lease.ResourceVersion != old.ResourceVersion
	})
	s.heal("a")
	s.eventuallyDelayed("a")
	s.confirm("a", "")
	s.eventuallyNoCR("a")
	s.eventually("the confirmation is removed", func() bool { return len(s.nodeObject("a").Annotations) == 0 })
	s.eventuallyNoNodeLease("a")
	s.patchStatus(map[string]any{"inFlightRemediations": map[string]any{s.node("a"): metav1.Now()}}) // That is the controller's to remove.
	s.fail("a")                                                                                      // For the second time: the events about it become series.
	s.eventuallyCR("a")
	s.eventually("the status of others is gone", func() bool { return len(s.status().InFlightRemediations) == 0 })
	response, _ := c.get(t, controller, "Bearer "+c.createToken(t, "reader", true))
	require.Equal(t, http.StatusOK, response.StatusCode)

	unused := func() []permission {
		// That there is no leader lease yet is an answer, too.
		answered := c.audited(t, func(r localkube.Request) bool { return r.Code/100 == 2 || r.Code == http.StatusNotFound })
		return slices.DeleteFunc(c.granted(t), func(p permission) bool { return askedOnly(p) || slices.ContainsFunc(answered, p.permits) })
	}
	_ = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience.Limit, true, func(context.Context) (bool, error) { return len(unused()) == 0, nil })
	require.Empty(t, unused(), "granted, and never used")
	require.Empty(t, c.audited(t, func(r localkube.Request) bool { return r.Code == http.StatusForbidden }), "tried, and never granted")
	// Of what remediators grant, no more than spec 6.6 asks them for.
	asked := map[string][]string{s.kind.remediations.Resource: remediationVerbs, s.kind.templates.Resource: templateVerbs}
	require.Empty(t, c.audited(t, func(r localkube.Request) bool {
		return r.Group == s.kind.remediations.Group && (r.Subresource != "" || !slices.Contains(asked[r.Resource], r.Verb))
	}))
	controller.Stop()
}
